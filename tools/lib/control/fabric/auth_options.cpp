#include <CLI/CLI.hpp>

#include "tools/lib/control/fabric/auth_choice.hpp"

namespace rtrs::tools {

void add_auth_options(CLI::App& app, AuthChoice& choice) {
  app.add_option("--auth", choice.mode,
                 "verbs, libfabric: require that the peer proves a key, allow (servers: clients that offer "
                 "no proof too) or "
                 "off; default require where keys are given, else off")
      ->check(CLI::IsMember(auth_modes()));
  app.add_option("--auth-keys", choice.keys, "shared keys, IDENTITY:HEX a line")->type_name("FILE");
  app.add_option("--auth-identity", choice.identity, "client: which of these keys");
}

}  // namespace rtrs::tools
