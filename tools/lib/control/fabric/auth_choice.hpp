// Authentication without TLS, as configured by the user of a tool: both ends prove that they have a shared
// key (core/keyed).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backends/options/connection.hpp"
#include "backends/platform/tls/renewal.hpp"
#include "core/fabric/fabric.hpp"
#include "core/keyed/key_proof.hpp"

namespace rtrs::tools {

using options::AuthChoice;

// Returns an error message that names the missing option, or an empty string. Does not read the file.
std::string contradiction(const AuthChoice&);

struct OpenedAuth {
  keyed::Mode mode = keyed::Mode::off;
  std::optional<keyed::SharedKey> key;          // set only for a client
  std::shared_ptr<tls::Renewal> renewal;        // only for a client; reads the file again when it changes
  std::shared_ptr<const keyed::KeyTable> keys;  // set only for a server
};
// Reads the key file and builds the lookup table of a server. Do not call this on the thread of an event
// loop: reading can hang, and the table of 10,000 keys takes milliseconds. The error is a human-readable
// message. `tell` (client only) receives messages about the file while the fabric is in use.
tl::expected<OpenedAuth, std::string> open_auth(const AuthChoice&, bool client, tls::Renewal::Tell tell = {});

// Wraps the fabric so that its connections are authenticated. Returns the unchanged fabric if the mode is
// off, and nullptr if the kernel provides no random numbers.
std::unique_ptr<Fabric> with_auth(std::unique_ptr<Fabric>, const OpenedAuth&, bool client);

// Replaces the keys of a server's fabric for later connections. Returns false if open_fabric() did not open
// the fabric with keys. On return the OpenedAuth holds the previous keys; destroying them takes milliseconds,
// too.
bool replace_auth(Fabric&, OpenedAuth&);

}  // namespace rtrs::tools
