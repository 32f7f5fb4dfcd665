#include "tools/lib/fabric/tls_choice.hpp"

#include "backends/tcp/tcp.hpp"

namespace rtrs::tools {

const std::vector<std::string>& tls_modes() {
  static const std::vector<std::string> modes{"off", "allow", "require"};
  return modes;
}

std::string contradiction(const TlsChoice& choice) {
  const tls::Credentials& files = choice.credentials;
  const bool given = files.any();
  // Whoever gives one of these wants TLS: going on without would be in clear text.
  if (!files.identity.empty() && files.keys.empty())
    return "tls-identity chooses one of tls-keys, which are not given";
  if (!files.server_name.empty() && !given)
    return "tls-server-name is for TLS; give tls-keys, or tls-cert, tls-key and tls-ca";
  if (choice.mode == "off" && given)
    return "tls is off, and keys or certificates are given; leave one of the two out";
  if (!choice.mode.empty() && choice.mode != "off" && !given)
    return "TLS needs tls-keys, or tls-cert, tls-key and tls-ca";
  const bool certificates =
      !files.cert.empty() || !files.key.empty() || !files.ca.empty() || !files.crl.empty();
  if (certificates && (files.cert.empty() || files.key.empty() || files.ca.empty()))
    return "certificates need all three: tls-cert, tls-key, and tls-ca, who signs those of peers";
  return {};
}

tl::expected<OpenedTls, std::string> open_tls(const TlsChoice& choice, bool client) {
  const tls::Credentials& files = choice.credentials;
  const std::string mode = !choice.mode.empty() ? choice.mode : files.any() ? "require" : "off";
  const bool of_servers = client && mode == "allow";
  if (std::string why = contradiction(choice); !why.empty() && !of_servers)
    return tl::unexpected(std::move(why));
  if (mode == "off") return OpenedTls{};
  if (of_servers)
    return tl::unexpected<std::string>(
        "a client does not go on without TLS because its server has none: choose tls require or off; allow "
        "is "
        "for servers");
  auto context = tls::open_context(files);
  if (!context) return tl::unexpected(context.error());
  if (client && !tls::can_connect(**context))
    return tl::unexpected(files.keys + ": it has several keys; choose one with tls-identity");
  return OpenedTls{.context = *context, .plain_too = mode == "allow"};
}

void replace_tls(Fabric& fabric, const OpenedTls& opened) {
  if (auto* const tcp = dynamic_cast<tcp::TcpFabric*>(&fabric))
    tcp::set_tls(*tcp, {.context = opened.context, .plain_too = opened.plain_too});
}

}  // namespace rtrs::tools
