// Credentials of a mapped session (TLS or shared keys): plugin parameters by name.
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

namespace rtrs::mapping {

using Credentials = std::map<std::string, std::string>;

inline constexpr std::array<std::string_view, 11> kCredentials{
    "tls",     "tls_keys",        "tls_identity", "tls_cert",  "tls_key",      "tls_ca",
    "tls_crl", "tls_server_name", "tls_kernel",   "auth_keys", "auth_identity"};
inline constexpr std::array<std::string_view, 6> kCredentialFiles{"tls_keys", "tls_cert", "tls_key",
                                                                  "tls_ca",   "tls_crl",  "auth_keys"};

inline bool is_credential(std::string_view parameter) {
  return std::find(kCredentials.begin(), kCredentials.end(), parameter) != kCredentials.end();
}
inline bool is_credential_file(std::string_view parameter) {
  return std::find(kCredentialFiles.begin(), kCredentialFiles.end(), parameter) != kCredentialFiles.end();
}

}  // namespace rtrs::mapping
