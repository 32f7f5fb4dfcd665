// Machines of RNBD devices have no lane: what they do beside IO are steps of their session.
#include <map>

#include "core/record/kinds.hpp"
#include "tools/lib/sequence/explain.hpp"

namespace rtrs::tools::sequence {

namespace {

std::string device_words(const Fields& record) {
  return "device " + record.word("device");
}
std::string with_errno(std::string title, const Fields& record, const char* field) {
  const std::uint64_t error = record.number(field);
  return error == 0 ? title : title + ": " + errno_words(error);
}

using Title = std::string (*)(const Fields&);
// Null: an IO, whose steps are those of the session's request.
const std::map<std::string_view, Title>& titles() {
  static const std::map<std::string_view, Title> table = {
      {"BeginClientDevices", [](const Fields&) { return std::string("devices of the session"); }},
      {"LinkUp", [](const Fields&) { return std::string("devices: the link is up"); }},
      {"LinkDown", [](const Fields&) { return std::string("devices: the link is down"); }},
      {"MapRequested", [](const Fields& r) { return "map " + r.word("name") + ' ' + r.word("mode"); }},
      {"MapAnswered", [](const Fields& r) { return with_errno(device_words(r), r, "error"); }},
      {"UnmapRequested", [](const Fields& r) { return "unmap " + device_words(r); }},
      {"RemapRequested", [](const Fields& r) { return "open again " + device_words(r); }},
      {"RetryDue", [](const Fields&) { return std::string("devices: time to send again"); }},
      {"ReopenDue", [](const Fields&) { return std::string("devices: time to open again"); }},
      {"SendMessage",
       [](const Fields& r) { return "devices send " + r.word("kind") + " " + r.word("token"); }},
      {"MessageDone",
       [](const Fields& r) {
         const std::string title = "message " + r.word("token") + " of the devices ended";
         return r.flag("delivered") ? with_errno(title, r, "peer_errno") : title + ": not delivered";
       }},
      {"DeviceChanged",
       [](const Fields& r) {
         return with_errno(device_words(r) + " is " + r.word("state"), r, "peer_errno");
       }},
      {"CacheReplaced",
       [](const Fields& r) {
         return "the cache of " + device_words(r) + " is another one, " + r.word("unflushed") +
                " changes were not flushed";
       }},
      {"BeginServerDevices", [](const Fields&) { return std::string("devices of the session"); }},
      {"OpenExport",
       [](const Fields& r) { return "open the export " + r.word("name") + ' ' + r.word("mode"); }},
      {"ExportOpened",
       [](const Fields& r) { return with_errno("export " + r.word("handle") + " opened", r, "error"); }},
      {"CloseExport", [](const Fields& r) { return "close export " + r.word("handle"); }},
      {"CacheDamaged",
       [](const Fields& r) {
         return with_errno("the cache of export " + r.word("handle") + " is damaged", r, "error");
       }},
      {"SyncFailed",
       [](const Fields& r) {
         return with_errno("export " + r.word("handle") + " failed to sync elsewhere", r, "error");
       }},
      {"DeviceForceClosed", [](const Fields& r) { return "take away device " + r.word("device_id"); }},
      {"SessionClosed", [](const Fields&) { return std::string("devices: the session is closed"); }},
      {"SessionDrained", [](const Fields&) { return std::string("all devices are closed"); }},
      {"DeviceRequest", nullptr},
      {"LongDeviceRequest", nullptr},
      {"ExportMeasured", nullptr},
      {"MeasureExport", nullptr},
      {"Storage", nullptr},
      {"StorageDone", nullptr},
      {"WriteBack", nullptr},
      {"Respond", nullptr},
      {"IoBegun", nullptr},
      {"IoDone", nullptr},
      {"IoStarted", nullptr},
      {"IoJudged", nullptr},
  };
  return table;
}

}  // namespace

bool Explainer::is_of_devices(const Fields& record) {
  const std::uint16_t instance = record.record().instance;
  const bool snapshot = record.event() == "Snapshot" && record.word("machine").ends_with("_devices");
  if (snapshot || titles().contains(record.event())) devices_.insert(instance);
  return devices_.contains(instance);
}

void Explainer::add_of_devices(const Fields& record) {
  const auto title = titles().find(record.event());
  // In a merged trace instances are others, and nothing tells which session uses the devices.
  const InstanceId instance = record.record().instance;
  if (instance != kClientDevices && instance <= kServerDevices) return;
  const auto session = by_instance_.find(
      instance == kClientDevices ? InstanceId{0} : static_cast<InstanceId>(instance - kServerDevices));
  if (title == titles().end() || title->second == nullptr || session == by_instance_.end()) return;
  now_ = &session->second;
  Step step = step_of(record);
  step.machine = now_->machine;
  step.title = title->second(record);
  if (step.event == "DeviceChanged" || step.event == "CacheReplaced") step.group = Group::state;
  if (record.number("peer_errno") != 0) step.tone = Tone::bad;
  story_.steps.push_back(std::move(step));
}

}  // namespace rtrs::tools::sequence
