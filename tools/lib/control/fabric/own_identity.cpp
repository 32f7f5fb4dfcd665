#include "tools/lib/control/fabric/own_identity.hpp"

#include "backends/platform/tls/own_identity.hpp"

namespace rtrs::tools {

std::string own_identity(const std::string& fabric, const TlsChoice& tls, const AuthChoice& auth) {
  if (fabric != "tcp")
    return auth.keys.empty() || auth.mode == "off" ? "" : tls::identity_of_keys(auth.keys, auth.identity);
  const tls::Credentials& files = tls.credentials;
  if (tls.mode == "off") return {};
  if (!files.cert.empty()) return tls::identity_of_certificate(files.cert);
  return files.keys.empty() ? std::string() : tls::identity_of_keys(files.keys, files.identity);
}

}  // namespace rtrs::tools
