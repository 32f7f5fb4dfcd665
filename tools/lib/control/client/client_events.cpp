// Builds the events that a client sends to the subscribers of its control socket.
#include <chrono>
#include <utility>

#include "core/rnbd/device_reasons.hpp"
#include "tools/lib/control/client/client_control.hpp"

namespace rtrs::control {

using nlohmann::json;

void ClientControl::tell(const PathEvent& news, const std::string& pathname) {
  if (!server_ || !server_->has_subscribers()) return;
  json event = event_json(news, target_.fabric_name());
  if (!pathname.empty()) event["pathname"] = pathname;
  tell(std::move(event));
}

void ClientControl::report_failovers(const ClientModel& model) {
  for (const ClientPathModel& path : model.paths) {
    json event = failover_json(path, failovers_[path.path % kMaxPaths]);
    if (!event.is_null() && server_ && server_->has_subscribers()) tell(std::move(event));
  }
}

void ClientControl::tell(const std::string& device, const rnbd::DeviceChanged& change,
                         std::uint64_t size_before) {
  if (!server_ || !server_->has_subscribers()) return;
  json event{{"what", "device"}, {"device", device}, {"state", rnbd::to_string(change.state)}};
  const std::uint64_t size = change.geometry.nsectors * wire::rnbd::kSectorBytes;
  if (change.state == rnbd::DeviceState::open) {
    event["size_bytes"] = size;
    if (size_before != 0 && size_before != size) event["size_before"] = size_before;
  }
  if (const rnbd::DeviceReason reason = rnbd::reason_of_refusal(change.peer_errno);
      reason != rnbd::DeviceReason::none) {
    const rnbd::DeviceReasonText& text = rnbd::text_of(reason);
    event["errno"] = change.peer_errno;
    event["reason"] = text.code;
    event["sentence"] = text.sentence;
    event["hint"] = text.hint;
  }
  tell(std::move(event));
}

void ClientControl::tell(json event) {
  event["session"] = target_.model().session;
  event["serial"] = ++events_;
  event["unix_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  event["schema_version"] = kSchemaVersion;
  server_->broadcast("event", event);
}

}  // namespace rtrs::control
