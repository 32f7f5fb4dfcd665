// Makes the attributes of a client with the names, formats and errors of Linux 6.12: /sys/class/rtrs-client,
// /sys/class/rnbd-client and /sys/block/rnbd<N>/rnbd (docs/protocol.md, section 8;
// tools/lib/control/attributes/linux-6.12.toml).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/lib/control/attributes/map_request.hpp"
#include "tools/lib/control/attributes/node.hpp"
#include "tools/lib/control/client/client_control.hpp"

namespace rtrs::control {

// An operation that was started by writing to an attribute. As in Linux, the write returns when the operation
// has ended, for example when the path is connected or closed.
struct StartedOperation {
  enum class What : std::uint8_t {
    add_path,
    remove_path,
    disconnect_path,
    reconnect_path,
    map_device,
    unmap_device
  };
  What what = What::add_path;
  unsigned path = 0;  // index of the path
  std::string device{};
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;  // requested mode; map_device only
};

// Operations that are started by writing to the attributes of one client. Each returns 0 or a positive errno.
// If it returns 0, begun() is the operation that the write must wait for; nullopt means that the write is
// complete.
class AttributeWrites {
 public:
  AttributeWrites(ControlledClient& target, const ClientModel& model) : target_(target), model_(model) {}

  int set_attempts(std::string_view text);
  int set_policy(std::string_view text);
  int add_path(std::string_view text);
  int remove_path(const ClientPathModel&);
  int disconnect_path(const ClientPathModel&);
  int reconnect_path(const ClientPathModel&);
  int reset(const ClientPathModel&, PathStatistics);
  int map_device(std::string_view text);
  int unmap_device(const std::string& device, std::string_view text);
  int remap_device(const std::string& device, std::string_view text);
  int resize(const std::string& device, std::string_view text);

  const std::optional<StartedOperation>& begun() const noexcept { return begun_; }

 private:
  ControlledClient& target_;
  const ClientModel& model_;
  std::optional<StartedOperation> begun_;
};

// Returns the result of an operation: 0 or a positive errno; nullopt while the operation is in progress. Not
// for map_device, which reports its result through a callback. If add_path fails, the caller has to remove
// the path.
std::optional<int> outcome_of(const StartedOperation&, const ClientModel&);

// Returns the folder that corresponds to /sys. `writes` must outlive the tree and its nodes.
attributes::Node client_tree(std::shared_ptr<const ClientModel> model, AttributeWrites& writes);

// Implements attribute.look and attribute.read of the control socket.
tl::expected<nlohmann::json, rpc::Error> look_at_attribute(ControlledClient&, const std::string& path);
tl::expected<nlohmann::json, rpc::Error> read_attribute(ControlledClient&, const std::string& path);

}  // namespace rtrs::control
