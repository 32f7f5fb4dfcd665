// A build without OpenSSL.
#include "backends/platform/tls/channel.hpp"
#include "backends/platform/tls/mac.hpp"
#include "backends/platform/tls/own_identity.hpp"

namespace rtrs::tls {

bool available() noexcept {
  return false;
}

tl::expected<std::shared_ptr<const Context>, std::string> open_context(const Credentials& /*unused*/) {
  return tl::unexpected<std::string>("this build has no TLS; configure it where libssl-dev is installed");
}

std::string identity_of_certificate(const std::string& /*unused*/) {
  return {};
}

MacFunction hmac_sha256() noexcept {
  return nullptr;
}

}  // namespace rtrs::tls
