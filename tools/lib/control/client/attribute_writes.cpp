// Implements the operations that are started by writing to the attributes of a client, and finds out how each
// of them ends.
#include <algorithm>
#include <cerrno>
#include <thread>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/proto/reasons.hpp"
#include "tools/lib/control/attributes/written_values.hpp"
#include "tools/lib/control/client/client_tree.hpp"

namespace rtrs::control {

int AttributeWrites::set_attempts(std::string_view text) {
  const auto most = attributes::parse_attempts(text);
  return most ? target_.set_max_reconnect_attempts(*most) : most.error();
}

int AttributeWrites::set_policy(std::string_view text) {
  const auto policy = attributes::parse_policy(text);
  return policy ? target_.set_policy(*policy) : EINVAL;
}

int AttributeWrites::add_path(std::string_view text) {
  const std::string_view written = attributes::stripped(text);
  const auto address = attributes::parse_addresses(written, target_.default_port(), EINVAL);
  if (!address) return address.error();
  const bool known = std::any_of(model_.paths.begin(), model_.paths.end(), [&](const ClientPathModel& path) {
    return path.status.state != PathState::absent && asio::same_path(path.address, *address);
  });
  if (known) return EEXIST;
  StartedOperation begun{StartedOperation::What::add_path};
  const int error = target_.add_path(*address, std::string(written), begun.path);
  if (error == 0) begun_ = begun;
  return error;
}

int AttributeWrites::remove_path(const ClientPathModel& path) {
  begun_ = StartedOperation{StartedOperation::What::remove_path, path.path};
  return target_.remove_path(path.path);
}

int AttributeWrites::disconnect_path(const ClientPathModel& path) {
  begun_ = StartedOperation{StartedOperation::What::disconnect_path, path.path};
  return target_.disconnect_path(path.path);
}

int AttributeWrites::reconnect_path(const ClientPathModel& path) {
  if (path.status.state == PathState::connecting || path.status.state == PathState::closing) return EBUSY;
  begun_ = StartedOperation{StartedOperation::What::reconnect_path, path.path};
  return target_.reconnect_path(path.path);
}

int AttributeWrites::reset(const ClientPathModel& path, PathStatistics what) {
  return target_.reset_statistics(path.path, what);
}

int AttributeWrites::map_device(std::string_view text) {
  const auto request = attributes::parse_map_request(text, std::max(std::thread::hardware_concurrency(), 1U));
  if (!request) return request.error();
  if (request->session != model_.session) {
    const int problem = attributes::new_session_problem(*request);
    return problem != 0 ? problem : ENODEV;
  }
  // Refuses poll queues, because in Linux a session with poll queues is separate from a session without.
  if (request->poll_queues != 0) return EINVAL;
  const bool mapped = std::any_of(model_.devices.begin(), model_.devices.end(), [&](const auto& device) {
    return device.is_mapped() && device.name == request->device;
  });
  if (mapped) return EEXIST;
  begun_ = StartedOperation{StartedOperation::What::map_device, 0, request->device, request->mode};
  return 0;
}

int AttributeWrites::unmap_device(const std::string& device, std::string_view text) {
  const std::string_view how = attributes::stripped(text);
  if (how != "normal" && how != "force") return EINVAL;
  begun_ = StartedOperation{StartedOperation::What::unmap_device, 0, device};
  return target_.unmap_device(device, how == "force");
}

int AttributeWrites::remap_device(const std::string& device, std::string_view text) {
  return attributes::stripped(text) == "1" ? target_.remap_device(device) : EINVAL;
}

int AttributeWrites::resize(const std::string& device, std::string_view text) {
  const auto sectors = attributes::parse_sectors(text);
  return sectors ? target_.resize_device(device, *sectors) : sectors.error();
}

namespace {

int errno_of(const PathStatus& status) {
  if (status.peer_errno != 0) return status.peer_errno;
  const int error = text_of(status.reason).linux_errno;
  return error != 0 ? error : ENOTCONN;
}

// Returns the result of a connection attempt that a write started: 0, `failed`, or nullopt while it is in
// progress.
std::optional<int> attempt_outcome(const PathStatus& status, int failed) {
  switch (status.state) {
    case PathState::connected:
      return 0;
    case PathState::connecting:
    case PathState::draining:
      return std::nullopt;
    case PathState::waiting:
      // While another path opens the session, this path is held back, so its attempt has not started.
      return status.held_back ? std::nullopt : std::optional(failed);
    case PathState::closing:
    case PathState::closed:
    case PathState::absent:
      break;
  }
  return failed;
}

}  // namespace

std::optional<int> outcome_of(const StartedOperation& begun, const ClientModel& model) {
  if (begun.what == StartedOperation::What::unmap_device) {
    const bool there = std::any_of(model.devices.begin(), model.devices.end(), [&](const auto& device) {
      return device.is_mapped() && device.name == begun.device;
    });
    return there ? std::nullopt : std::optional(0);
  }
  const auto found = std::find_if(model.paths.begin(), model.paths.end(),
                                  [&](const ClientPathModel& path) { return path.path == begun.path; });
  const PathStatus status = found == model.paths.end() ? PathStatus{} : found->status;
  switch (begun.what) {
    case StartedOperation::What::add_path:
      return attempt_outcome(status, errno_of(status));
    case StartedOperation::What::reconnect_path:
      return attempt_outcome(status, ENOTCONN);
    default:
      break;
  }
  const bool ends = status.state == PathState::draining || status.state == PathState::closing;
  return ends ? std::nullopt : std::optional(0);
}

}  // namespace rtrs::control
