#include "backends/platform/tls/mac.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>

namespace rtrs::tls {
namespace {

std::array<std::byte, 32> mac_of(std::span<const std::byte> key,
                                 std::span<const std::byte> message) noexcept {
  std::array<std::byte, 32> mac{};
  unsigned size = 0;
  const unsigned char* const made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                         reinterpret_cast<const unsigned char*>(message.data()),
                                         message.size(), reinterpret_cast<unsigned char*>(mac.data()), &size);
  // Out of memory: aborts, because a MAC of zeros would be the same for every key.
  if (made == nullptr || size != mac.size()) std::abort();
  return mac;
}

}  // namespace

MacFunction hmac_sha256() noexcept {
  return &mac_of;
}

}  // namespace rtrs::tls
