#include <CLI/CLI.hpp>

#include "tools/lib/control/fabric/tls_choice.hpp"

namespace rtrs::tools {

void add_tls_options(CLI::App& app, TlsChoice& choice) {
  tls::Credentials& files = choice.credentials;
  app.add_option("--tls", choice.mode,
                 "require, allow (servers: clients without TLS too) or off; default require where keys or "
                 "certificates are given, else off")
      ->check(CLI::IsMember(tls_modes()));
  app.add_option("--tls-keys", files.keys, "pre-shared keys, IDENTITY:HEX a line")->type_name("FILE");
  app.add_option("--tls-identity", files.identity, "client: which of these keys");
  app.add_option("--tls-cert", files.cert, "certificate of this end, PEM")->type_name("FILE");
  app.add_option("--tls-key", files.key, "its private key")->type_name("FILE");
  app.add_option("--tls-ca", files.ca, "CA of the peers' certificates, PEM")->type_name("FILE");
  app.add_option("--tls-crl", files.crl, "revoked certificates (CRL), PEM")->type_name("FILE");
  app.add_option("--tls-server-name", files.server_name,
                 "client: name in the certificate of the server; default the address");
  app.add_option("--tls-kernel", files.kernel, "use kernel TLS if available")->capture_default_str();
}

}  // namespace rtrs::tools
