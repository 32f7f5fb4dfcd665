// Which fabric a tool runs on, as its user chose it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backends/options/connection.hpp"
#include "core/fabric/fabric.hpp"
#include "core/proto/config.hpp"
#include "tools/lib/control/fabric/auth_choice.hpp"
#include "tools/lib/control/fabric/tls_choice.hpp"

namespace rtrs::tools {

// As those of the fabrics. unmet: a warning that comes once, of something that was asked for and cannot be
// had.
enum class LogLevel : std::uint8_t { debug, info, warning, error, unmet };

struct FabricChoice : options::FabricOptions {
  // Of verbs: those of this host that will be listened on, as far as known. Devices that have none of them
  // are not looked at.
  std::vector<std::string> addresses{};
  bool client = false;  // what it is for
  // Bytes for the queues of all connections that are accepted, of fabric tcp.
  std::uint64_t connection_memory = std::uint64_t{1} << 30;
  // A TCP connection breaks when its peer acknowledges nothing for this time. Verbs says so when hardware
  // would take longer.
  Nanos undelivered_timeout = dead_peer_time(HeartbeatConfig{});
  // May be called from another thread, but never by two at once.
  std::function<void(LogLevel, const std::string&)> log;
};

// What can be asked for. Not every build has all.
const std::vector<std::string>& fabric_names();

// How verbs takes a key back: docs/security.md.
const std::vector<std::string>& invalidation_names();

// How verbs hands work requests to the library of a device: docs/fabric.md.
const std::vector<std::string>& post_names();

// What was asked for and another fabric alone can do; empty: nothing.
std::string of_another_fabric(const FabricChoice&);

// The sentence for programs whose options are words with underscores: tls_keys for tls-keys.
std::string with_underscores(std::string sentence);

// Raises the soft limit of file descriptors to the hard one, because a connection takes about six. Programs
// that use select(2) must not call it.
void raise_descriptor_limit() noexcept;

// For a program, before it starts a thread: RDMA devices may go while it runs (backends/verbs/verbs.hpp). Not
// for plugins.
void expect_removed_devices() noexcept;

// The error is a sentence for the user: what cannot be used, and why.
tl::expected<std::unique_ptr<Fabric>, std::string> open_fabric(const FabricChoice&);
// The same of tcp and verbs alone, for programs that are used all the time: libfabric takes a fifth of a
// second to load.
tl::expected<std::unique_ptr<Fabric>, std::string> open_tcp_or_verbs(const FabricChoice&);

}  // namespace rtrs::tools
