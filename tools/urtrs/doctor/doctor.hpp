// What can be wrong with a host, and what mends it. The checks are pure: they ask a `Host`, which tests play.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// A daemon that has a control socket.
struct DaemonFacts {
  std::string socket;
  std::string problem;  // why it cannot be asked; empty: it answered
  std::string version;
  std::string fabric;
  std::vector<std::string> warnings;      // of its certificates
  std::vector<std::string> missing = {};  // a sentence for each thing that it waits for
};

// A client that has a control socket.
struct ClientFacts {
  std::string session;
  std::vector<std::string> warnings;  // of its certificates
};

// An urtrs-mapd that has a control socket.
struct MapdFacts {
  std::string socket;
  std::string problem;  // why it cannot be asked; empty: it answered
  std::size_t devices = 0;
  std::vector<std::string> unmapped;  // of these, those that are not there, by name
};

// Why io_uring is refused to a process like this one.
struct StorageFacts {
  std::string problem;
  std::string remedy;
};

// Facts of this host. Every function returns soon.
class Host {
 public:
  virtual ~Host() = default;
  // The beginning of a file, without the last newline; nothing: it cannot be read.
  virtual std::optional<std::string> read(const std::string& file) const = 0;
  virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
  virtual bool exists(const std::string& file) const = 0;
  virtual bool may_use(const std::string& file) const = 0;  // read and write
  // Where the program is; empty: not in PATH.
  virtual std::string program(const std::string& name) const = 0;
  // The kernel has the module, loaded or not.
  virtual bool has_module(const std::string& name) const = 0;
  virtual std::string nbdkit_plugin_folder() const = 0;  // empty: nbdkit does not say
  // nothing: no limit
  virtual std::optional<std::uint64_t> memlock_bytes() const = 0;
  virtual std::uint64_t descriptors() const = 0;
  virtual std::optional<StorageFacts> io_uring_refusal() const = 0;  // nothing: io_uring can be used
  virtual bool port_is_free(std::uint16_t port) const = 0;
  virtual std::vector<DaemonFacts> daemons() const = 0;
  virtual std::vector<MapdFacts> mapds() const = 0;
  // Those that answer.
  virtual std::vector<ClientFacts> clients() const = 0;
  // Whether this command was built with what asks the kernel's NBD client.
  virtual bool has_netlink() const = 0;
  // Whether somebody keeps the kernel's NBD devices connected; nothing: this user cannot know.
  virtual std::optional<bool> keeps_kernel_devices() const = 0;
  virtual std::string version() const = 0;  // of this command
};

struct Finding {
  enum class Grade : std::uint8_t { ok, warn, fail };
  std::string check;
  Grade grade = Grade::ok;
  std::string what;
  std::string remedy;  // a command, or what to do; empty where there is nothing
};

std::vector<Finding> examine(const Host& host);
bool any_failed(const std::vector<Finding>& all);
// Each with its remedy below it.
Table findings(const std::vector<Finding>& all);

}  // namespace rtrs::admin
