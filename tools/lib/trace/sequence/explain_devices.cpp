// Describes the records of RNBD device state machines. Such a machine has no lane; its records become steps
// of its session. A record that belongs to a request of the session adds no step: its RNBD message is
// appended to the title of the request's step.
#include <algorithm>
#include <map>

#include "core/record/kinds.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/sequence/explain.hpp"

namespace rtrs::tools::sequence {

namespace {

wire::Bytes message_in(const Fields& record, std::string_view field) {
  const std::string_view bytes = record.bytes(field);
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

std::string device_words(const Fields& record) {
  return "device " + record.word("device");
}
std::string with_errno(std::string title, const Fields& record, const char* field) {
  const std::uint64_t error = record.number(field);
  return error == 0 ? title : title + ": " + errno_words(error);
}

using Title = std::string (*)(const Fields&);
struct Row {
  Group group;
  // If nullptr, the record adds no step, because the title of the session's request describes the IO.
  Title title;
};

const std::map<std::string_view, Row>& client_rows() {
  static const std::map<std::string_view, Row> table = {
      {"BeginClientDevices",
       {Group::control, [](const Fields&) { return std::string("devices of the session"); }}},
      {"LinkUp", {Group::local, [](const Fields&) { return std::string("devices: the link is up"); }}},
      {"LinkDown", {Group::local, [](const Fields&) { return std::string("devices: the link is down"); }}},
      {"MapRequested",
       {Group::state, [](const Fields& r) { return "map " + r.word("name") + ' ' + r.word("mode"); }}},
      {"MapAnswered",
       {Group::state, [](const Fields& r) { return with_errno(device_words(r), r, "error"); }}},
      {"UnmapRequested", {Group::state, [](const Fields& r) { return "unmap " + device_words(r); }}},
      {"RemapRequested", {Group::state, [](const Fields& r) { return "open again " + device_words(r); }}},
      {"ResizeRequested",
       {Group::state,
        [](const Fields& r) {
          return "resize " + device_words(r) + " to " + r.word("nsectors") + " sectors";
        }}},
      {"RetryDue", {Group::local, [](const Fields&) { return std::string("devices: time to send again"); }}},
      {"ReopenDue", {Group::local, [](const Fields&) { return std::string("devices: time to open again"); }}},
      {"SendMessage",
       {Group::io,
        [](const Fields& r) {
          return "message " + r.word("token") + ": " + trace::rnbd_request_words(message_in(r, "header"));
        }}},
      {"MessageDone",
       {Group::io,
        [](const Fields& r) {
          const std::string title = "message " + r.word("token") + " ended";
          if (!r.flag("delivered")) return title + ": not delivered";
          const std::string answer = trace::rnbd_response_words(message_in(r, "response"));
          return with_errno(title + (answer.empty() ? "" : ": " + answer), r, "peer_errno");
        }}},
      {"DeviceChanged",
       {Group::state,
        [](const Fields& r) {
          return with_errno(device_words(r) + " is " + r.word("state"), r, "peer_errno");
        }}},
      {"CacheReplaced",
       {Group::state,
        [](const Fields& r) {
          return "the cache of " + device_words(r) + " is another one, " + r.word("unflushed") +
                 " changes were not flushed";
        }}},
      {"IoJudged",
       {Group::io,
        [](const Fields& r) {
          const std::string what = r.word("disposition");
          return what == "ok" ? std::string() : "an IO of the devices: " + what;
        }}},
      {"IoBegun", {Group::io, nullptr}},
      {"IoDone", {Group::io, nullptr}},
      {"IoStarted", {Group::io, nullptr}},
  };
  return table;
}

const std::map<std::string_view, Row>& server_rows() {
  static const std::map<std::string_view, Row> table = {
      {"BeginServerDevices",
       {Group::control, [](const Fields&) { return std::string("devices of the session"); }}},
      {"DeviceRequest",
       {Group::io, [](const Fields& r) { return trace::rnbd_request_words(message_in(r, "header")); }}},
      {"LongDeviceRequest",
       {Group::io, [](const Fields& r) { return trace::rnbd_request_words(message_in(r, "header")); }}},
      {"OpenExport",
       {Group::state,
        [](const Fields& r) { return "open the export " + r.word("name") + ' ' + r.word("mode"); }}},
      {"ExportOpened",
       {Group::state,
        [](const Fields& r) { return with_errno("export " + r.word("handle") + " opened", r, "error"); }}},
      {"CloseExport", {Group::state, [](const Fields& r) { return "close export " + r.word("handle"); }}},
      {"WriteBack",
       {Group::io,
        [](const Fields& r) { return "answer " + trace::rnbd_response_words(message_in(r, "response")); }}},
      {"StorageDone",
       {Group::io,
        [](const Fields& r) {
          return r.number("error") == 0 ? std::string() : with_errno("storage fails", r, "error");
        }}},
      {"CacheDamaged",
       {Group::state,
        [](const Fields& r) {
          return with_errno("the cache of export " + r.word("handle") + " is damaged", r, "error");
        }}},
      {"SyncFailed",
       {Group::state,
        [](const Fields& r) {
          return with_errno("export " + r.word("handle") + " failed to sync elsewhere", r, "error");
        }}},
      {"DeviceForceClosed",
       {Group::state, [](const Fields& r) { return "take away device " + r.word("device_id"); }}},
      {"SessionClosed",
       {Group::local, [](const Fields&) { return std::string("devices: the session is closed"); }}},
      {"SessionDrained", {Group::local, [](const Fields&) { return std::string("all devices are closed"); }}},
      {"ExportMeasured", {Group::io, nullptr}},
      {"MeasureExport", {Group::io, nullptr}},
      {"Storage", {Group::io, nullptr}},
      {"Respond", {Group::io, nullptr}},
  };
  return table;
}

const Row* row_of(std::string_view event) {
  for (const auto* table : {&client_rows(), &server_rows()}) {
    const auto found = table->find(event);
    if (found != table->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace

bool Explainer::is_of_devices(const Fields& record) {
  const std::uint16_t instance = record.record().instance;
  const bool snapshot = record.event() == "Snapshot" && record.word("machine").ends_with("_devices");
  if (snapshot || row_of(record.event()) != nullptr) devices_.insert(instance);
  return devices_.contains(instance);
}

// Returns the session that a device state machine belongs to. `urtrs-replay merge` renumbers instance i of
// file f as i * files + f.
std::optional<InstanceId> Explainer::session_of_devices(InstanceId instance) const {
  const auto& options = story_.files[static_cast<std::size_t>(file_)].options;
  const auto merged = std::count_if(options.begin(), options.end(),
                                    [](const std::string& option) { return option.starts_with("merged="); });
  const auto files = static_cast<unsigned>(std::max<std::ptrdiff_t>(merged, 1));
  const unsigned own = instance / files;
  const auto instance_in_file = static_cast<InstanceId>(own);
  if (own != kClientDevices && !is_devices_of_server(instance_in_file)) return std::nullopt;
  const unsigned session =
      own == kClientDevices ? 0U : session_instance(session_of_instance(instance_in_file));
  return static_cast<InstanceId>(session * files + instance % files);
}

// Appends the description of a server request to the step that delivered the request to storage. Returns
// false if there is no such step.
bool Explainer::append_at_delivery(const Fields& record, const std::string& words) {
  if (record.event() != "DeviceRequest" && record.event() != "LongDeviceRequest") return false;
  // A request number consists of session, chunk and serial (core/driver/block_server.cpp).
  const auto found = now_->delivered.find(static_cast<std::uint32_t>(record.number("request")));
  if (found == now_->delivered.end()) return false;
  const Index device = device_of(message_in(record, "header"));
  if (Step* step = steps_.find(found->second)) {
    step->title += ": " + words;
    step->device = device;
  }
  now_->delivered.erase(found);
  return true;
}

// Appends the RNBD message in the wire note of a request to the titles of the note and of the step that sent
// the request. The user header of a session without block devices is not an RNBD message, which is not an
// error.
void Explainer::append_message(const Fields& record, Step& step, std::uint32_t permit) {
  const wire::Bytes header = trace::user_header_of(message_in(record, "head"));
  if (header.empty()) return;
  const bool is_rnbd = trace::is_rnbd_request(header);
  now_->speaks_rnbd |= is_rnbd;
  const std::string words =
      ": " + (is_rnbd || now_->speaks_rnbd ? trace::rnbd_request_words(header)
                                           : "header of " + std::to_string(header.size()) + " bytes");
  step.title += words;
  if (is_rnbd) step.device = device_of(header);
  const auto posted = now_->posted.find(permit);
  if (step.event != "WireSent" || posted == now_->posted.end()) return;
  if (Step* sender = steps_.find(posted->second)) {
    sender->title += words;
    sender->device = step.device;
  }
  now_->posted.erase(posted);
}

void Explainer::add_of_devices(const Fields& record) {
  const Row* row = row_of(record.event());
  const auto instance = session_of_devices(record.record().instance);
  if (row == nullptr || row->title == nullptr || !instance) return;
  const auto session = by_instance_.find(*instance);
  if (session == by_instance_.end()) return;
  now_ = &session->second;
  note_device_names(record);
  const std::string title = row->title(record);
  if (title.empty() || append_at_delivery(record, title)) return;
  Step step = step_of(record);
  step.machine = now_->machine;
  step.title = title;
  step.group = row->group;
  if (record.number("peer_errno") != 0 || (step.event == "StorageDone")) step.tone = Tone::bad;
  if (step.event == "IoJudged" || step.event == "CacheDamaged") step.tone = Tone::warning;
  steps_.add(std::move(step));
}

}  // namespace rtrs::tools::sequence
