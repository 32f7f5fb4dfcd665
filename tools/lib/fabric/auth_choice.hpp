// How a tool proves who it is where there is no TLS, as its user chose it: keys that both ends share
// (core/keyed).
#pragma once
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "core/keyed/key_proof.hpp"

namespace CLI {
class App;
}

namespace rtrs::tools {

struct AuthChoice {
  std::string mode;      // one of auth_modes(); empty: require where keys are given, else off
  std::string keys;      // file of keys, IDENTITY:HEX a line
  std::string identity;  // client: which of them; may be left out when there is one
  bool operator==(const AuthChoice&) const = default;
};

// off, allow, require. `allow` is for servers, who then take clients that offer no proof.
const std::vector<std::string>& auth_modes();

// What of it is missing, whatever the file has; empty: nothing.
std::string contradiction(const AuthChoice&);

struct OpenedAuth {
  keyed::Mode mode = keyed::Mode::off;
  std::vector<keyed::SharedKey> keys;  // of a client: the one
};
// Reads the file, which may hang. The error is a sentence for the user.
tl::expected<OpenedAuth, std::string> open_auth(const AuthChoice&, bool client);

// The fabric behind such proofs.
std::unique_ptr<Fabric> with_auth(std::unique_ptr<Fabric>, const OpenedAuth&, bool client);

// Of a server's fabric that open_fabric() opened with keys, for clients from now on; false: of another.
bool replace_auth(Fabric&, const OpenedAuth&);

// --auth-keys, --auth-identity and, for a server too, --auth, into `choice`, which outlives the parsing.
void add_auth_options(CLI::App&, AuthChoice& choice);

}  // namespace rtrs::tools
