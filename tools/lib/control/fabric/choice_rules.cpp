// Rules for valid combinations of fabric options, independent of the host.
#include <algorithm>
#include <string_view>

#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::tools {

std::string contradiction(const TlsChoice& choice) {
  const tls::Credentials& files = choice.credentials;
  const bool given = files.any();
  // Refuses tls-identity or tls-server-name without keys, because TLS would silently be off.
  if (!files.identity.empty() && files.keys.empty()) return "tls-identity requires tls-keys";
  if (!files.server_name.empty() && !given)
    return "tls-server-name is for TLS; give tls-keys, or tls-cert, tls-key and tls-ca";
  if (choice.mode == "off" && given) return "tls=off contradicts keys or certificates; remove one of them";
  if (!choice.mode.empty() && choice.mode != "off" && !given)
    return "TLS needs tls-keys, or tls-cert, tls-key and tls-ca";
  const bool certificates =
      !files.cert.empty() || !files.key.empty() || !files.ca.empty() || !files.crl.empty();
  if (certificates && (files.cert.empty() || files.key.empty() || files.ca.empty()))
    return "certificates need tls-cert, tls-key, and tls-ca (the CA of the peers)";
  return {};
}

std::string contradiction(const AuthChoice& choice) {
  if (!choice.identity.empty() && choice.keys.empty()) return "auth-identity requires auth-keys";
  return {};
}

std::string foreign_option_error(const FabricChoice& choice) {
  const FabricChoice usual;
  const TlsChoice& tls = choice.tls;
  const auto of = [&choice](const char* fabric) { return choice.fabric == fabric; };
  if (!of("tcp") && (tls.credentials.any() || (!tls.mode.empty() && tls.mode != "off")))
    return "TLS is for the fabric tcp, not for " + choice.fabric;
  if (of("tcp") && !(choice.auth == usual.auth) && choice.auth.mode != "off")
    return "auth is for the fabrics verbs and libfabric; on tcp use tls-keys, which encrypts too";
  if (!of("tcp") && choice.crc) return "CRC-32C is for the fabric tcp, not for " + choice.fabric;
  if (!of("libfabric") && choice.provider != usual.provider)
    return "the provider '" + choice.provider + "' belongs to the fabric libfabric, not to " + choice.fabric;
  if (!of("verbs") && !choice.device.empty())
    return "the RDMA device '" + choice.device + "' is for the fabric verbs, not for " + choice.fabric;
  if (!of("verbs") && (choice.ack_timeout != 0 || choice.tos != 0))
    return "the ack timeout and the type of service of RDMA are for the fabric verbs, not for " +
           choice.fabric;
  if (!of("verbs") && choice.relaxed_ordering)
    return "relaxed ordering of RDMA is for the fabric verbs, not for " + choice.fabric;
  if (!of("verbs") && choice.thread_domains)
    return "thread domains of RDMA are for the fabric verbs, not for " + choice.fabric;
  if (!of("verbs") && choice.post != usual.post)
    return "RDMA posting by " + choice.post + " is for the fabric verbs, not for " + choice.fabric;
  if (!of("verbs") && choice.invalidation != usual.invalidation)
    return "invalidation by " + choice.invalidation + " is for the fabric verbs, not for " + choice.fabric;
  return {};
}

std::string with_underscores(std::string sentence) {
  for (const auto& row : options::connection_options()) {
    if (!row.name.starts_with("tls_") && !row.name.starts_with("auth_")) continue;
    const std::string name = options::dashed(row.name);
    for (std::size_t at = 0; (at = sentence.find(name, at)) != std::string::npos; at += name.size())
      if (at == 0 || sentence[at - 1] == ' ')  // a match inside a word is part of a file name
        std::replace(sentence.begin() + static_cast<std::ptrdiff_t>(at),
                     sentence.begin() + static_cast<std::ptrdiff_t>(at + name.size()), '-', '_');
  }
  return sentence;
}

}  // namespace rtrs::tools
