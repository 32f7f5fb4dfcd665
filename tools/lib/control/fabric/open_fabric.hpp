// Opens the fabric that the user of a tool has chosen.
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

// The values have the same meaning as the log levels of the fabrics. unmet: a warning, logged once, that a
// requested feature is not available.
enum class LogLevel : std::uint8_t { debug, info, warning, error, unmet };

struct FabricChoice : options::FabricOptions {
  // verbs only: local addresses on which the program will listen, if known. Devices without any of these
  // addresses are not opened.
  std::vector<std::string> addresses{};
  bool client = false;  // the fabric is used by a client
  // tcp only: maximum number of bytes in the queues of all accepted connections together.
  std::uint64_t connection_memory = std::uint64_t{1} << 30;
  // A TCP connection breaks when its peer acknowledges nothing for this time. The verbs fabric logs a warning
  // if the hardware would take longer.
  Nanos undelivered_timeout = dead_peer_time(HeartbeatConfig{});
  // Called from any thread, but never by two threads at once.
  std::function<void(LogLevel, const std::string&)> log;
};

// Returns an error if an option is set that the chosen fabric does not support; otherwise an empty string.
std::string foreign_option_error(const FabricChoice&);

// Replaces dashes in option names by underscores, for programs whose options have underscores: tls-keys
// becomes tls_keys.
std::string with_underscores(std::string sentence);

// Raises the soft limit of file descriptors to the hard limit, because a connection takes about six
// descriptors. Programs that use select(2) must not call it.
void raise_descriptor_limit() noexcept;

// Prepares a program for the removal of RDMA devices while it runs (backends/verbs/verbs.hpp). Call this
// before the program starts a thread. Plugins must not call it.
void expect_removed_devices() noexcept;

// Opens the fabric. The error is a human-readable message that says what cannot be used and why.
tl::expected<std::unique_ptr<Fabric>, std::string> open_fabric(const FabricChoice&);
// Like open_fabric(), but without libfabric, whose loading takes 0.2 s. Used by programs that are run often.
tl::expected<std::unique_ptr<Fabric>, std::string> open_tcp_or_verbs(const FabricChoice&);

}  // namespace rtrs::tools
