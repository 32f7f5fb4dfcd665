// `urtrs doctor` checks this host and suggests a fix for each problem. The checks are pure: they get facts
// from a `Host`, which tests replace.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Facts about a daemon that has a control socket.
struct DaemonFacts {
  std::string socket;
  std::string problem;  // reason why the daemon does not answer; empty: the daemon answered
  std::string version;
  std::string fabric;
  std::vector<std::string> warnings;      // warnings about certificates of the daemon
  std::vector<std::string> missing = {};  // a message for each missing part of the configuration
};

// Facts about a client that has a control socket.
struct ClientFacts {
  std::string session;
  std::vector<std::string> warnings;  // warnings about certificates of the client
};

// Facts about an urtrs-mapd that has a control socket.
struct MapdFacts {
  std::string socket;
  std::string problem;  // reason why urtrs-mapd does not answer; empty: urtrs-mapd answered
  std::size_t devices = 0;
  std::vector<std::string> unmapped;  // names of devices that are not available now
};

// Explains why this process cannot use io_uring, and how to fix that.
struct StorageFacts {
  std::string problem;
  std::string remedy;
};

// Supplies facts about a host. The functions must not block for long.
class Host {
 public:
  virtual ~Host() = default;
  // Returns the beginning of a file without the last newline; nullopt if the file cannot be read.
  virtual std::optional<std::string> read(const std::string& file) const = 0;
  virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
  virtual bool exists(const std::string& file) const = 0;
  virtual bool may_use(const std::string& file) const = 0;  // true if this user may read and write the file
  // Returns the path of a program; empty if the program is not in PATH.
  virtual std::string program(const std::string& name) const = 0;
  // True if the kernel has the module, whether it is loaded or not.
  virtual bool has_module(const std::string& name) const = 0;
  virtual std::string nbdkit_plugin_folder() const = 0;  // empty: unknown
  // nullopt: no limit on locked memory
  virtual std::optional<std::uint64_t> memlock_bytes() const = 0;
  virtual std::uint64_t descriptors() const = 0;
  virtual std::optional<StorageFacts> io_uring_refusal() const = 0;  // nullopt: io_uring can be used
  virtual bool port_is_free(std::uint16_t port) const = 0;
  virtual std::vector<DaemonFacts> daemons() const = 0;
  virtual std::vector<MapdFacts> mapds() const = 0;
  // Returns only the clients that answer.
  virtual std::vector<ClientFacts> clients() const = 0;
  // True if urtrs was built with libnl, without which it cannot use the NBD client of the kernel.
  virtual bool has_netlink() const = 0;
  // True if an urtrs-mapd --kernel-devices keeps the NBD devices of the kernel connected; nullopt if this
  // user cannot find that out.
  virtual std::optional<bool> keeps_kernel_devices() const = 0;
  virtual std::string version() const = 0;  // version of urtrs
};

struct Finding {
  enum class Grade : std::uint8_t { ok, warn, fail };
  std::string check;
  Grade grade = Grade::ok;
  std::string what;
  std::string remedy;  // a command or advice that fixes the problem; may be empty
};

std::vector<Finding> examine(const Host& host);
bool any_failed(const std::vector<Finding>& all);
// Converts the findings to a table, in which each remedy is a line below its finding.
Table findings(const std::vector<Finding>& all);

}  // namespace rtrs::admin
