// Reports what each pending operation of the daemon waits for.
#include <map>

#include "tools/urtrsd/control/debug_json.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {

namespace {

constexpr std::size_t kPage = 500;  // maximum number of requests on one page of a dump

// Returns the name under which the client mapped the device of an IO; empty if `request` is no IO or the
// device is unknown.
std::string device_of(const RequestInFlight& request, const rnbd::ServerDevices* devices) {
  const auto io = wire::rnbd::parse_io(request.user_header);
  if (!io || devices == nullptr) return {};
  for (const rnbd::ServerDevices::Device& device : *devices)
    if (device.state != rnbd::ServerDevices::DeviceState::vacant && device.id == io.value.device_id)
      return std::string(device.name.view());
  return {};
}

}  // namespace

nlohmann::json Daemon::debug_dump(const std::string& from) const {
  const auto begin = parse_place(from);
  if (!begin) return nullptr;
  const Nanos time = now();
  nlohmann::json answer{{"requests", nlohmann::json::array()}, {"next", ""}};
  std::map<std::uint64_t, const char*> storage;
  for (const auto& [id, words] : engine_->pending_waits())
    storage.emplace(static_cast<std::uint64_t>(id), words);
  if (from.empty()) {
    answer["sessions"] = nlohmann::json::array();
    answer["storage_operations"] = storage.size();
    answer["opening_or_closing"] = jobs_.unfinished();
  }
  for (const ServerSessionStatus& session : sessions()) {
    const rnbd::ServerDevices* devices = server_.devices(session.session);
    if (from.empty()) answer["sessions"].push_back(waits_of(session, devices, time));
    if (session.session < begin->session || !answer["next"].get_ref<const std::string&>().empty()) continue;
    for (const RequestInFlight& request : server_.in_flight(session.session)) {
      const DumpPlace place{session.session, request.chunk};
      if (place < *begin) continue;
      if (answer["requests"].size() >= kPage) {
        answer["next"] = to_text(place);
        break;
      }
      const auto found = storage.find(request.operation);
      const bool known = request.waits == RequestInFlight::Waits::storage && found != storage.end();
      answer["requests"].push_back(
          to_json(request, session, device_of(request, devices), known ? found->second : "", time));
    }
  }
  return answer;
}

std::string Daemon::hung_operations() const {
  constexpr std::size_t kMost = 16;
  std::map<std::string, unsigned> hung;
  for (const ServerSessionStatus& session : sessions()) {
    const rnbd::ServerDevices* devices = server_.devices(session.session);
    for (const RequestInFlight& request : server_.in_flight(session.session)) {
      const std::string name = device_of(request, devices);
      if (request.waits == RequestInFlight::Waits::storage && !name.empty()) ++hung[name];
    }
  }
  std::string text;
  std::size_t told = 0;
  for (const auto& [name, count] : hung) {
    if (told++ == kMost) return text + fmt::format(", and {} more", hung.size() - kMost);
    text += fmt::format("{} {} ({})", text.empty() ? "; storage operations still pending for" : ",",
                        in_quotes(name), count);
  }
  return text;
}

}  // namespace rtrs::daemon
