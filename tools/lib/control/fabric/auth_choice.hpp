// How a tool proves who it is where there is no TLS, as its user chose it: keys that both ends share
// (core/keyed).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backends/options/connection.hpp"
#include "backends/platform/tls/renewal.hpp"
#include "core/fabric/fabric.hpp"
#include "core/keyed/key_proof.hpp"

namespace CLI {
class App;
}

namespace rtrs::tools {

using options::AuthChoice;

// off, allow, require. `allow` is for servers, who then take clients that offer no proof.
const std::vector<std::string>& auth_modes();

// What of it is missing, whatever the file has; empty: nothing.
std::string contradiction(const AuthChoice&);

struct OpenedAuth {
  keyed::Mode mode = keyed::Mode::off;
  std::optional<keyed::SharedKey> key;          // of a client,
  std::shared_ptr<tls::Renewal> renewal;        // which reads its file again when it changes
  std::shared_ptr<const keyed::KeyTable> keys;  // of a server
};
// Reads the file, which may hang, and makes of 10,000 keys what a server looks them up in, which takes
// milliseconds: not for the thread of an event loop. The error is a sentence for the user. `tell`: of a
// client, about the file while the fabric is in use.
tl::expected<OpenedAuth, std::string> open_auth(const AuthChoice&, bool client, tls::Renewal::Tell tell = {});

// The fabric behind such proofs.
std::unique_ptr<Fabric> with_auth(std::unique_ptr<Fabric>, const OpenedAuth&, bool client);

// Of a server's fabric that open_fabric() opened with keys, for clients from now on; false: of another. What
// was there before is in the OpenedAuth afterwards, whose end takes time as well.
bool replace_auth(Fabric&, OpenedAuth&);

// --auth-keys, --auth-identity and, for a server too, --auth, into `choice`, which outlives the parsing.
void add_auth_options(CLI::App&, AuthChoice& choice);

}  // namespace rtrs::tools
