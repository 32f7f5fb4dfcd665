#include "tools/lib/fabric/tls_choice.hpp"

#include "backends/tcp/tcp.hpp"

namespace rtrs::tools {

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
    return tl::unexpected(files.keys + ": it has several keys, of " + tls::identities(**context) +
                          "; choose one with tls-identity");
  return OpenedTls{.context = *context, .plain_too = mode == "allow"};
}

void replace_tls(Fabric& fabric, const OpenedTls& opened) {
  if (auto* const tcp = dynamic_cast<tcp::TcpFabric*>(&fabric))
    tcp::set_tls(*tcp, {.context = opened.context, .plain_too = opened.plain_too});
}

}  // namespace rtrs::tools
