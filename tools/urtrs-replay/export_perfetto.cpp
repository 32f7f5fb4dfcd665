#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lib/trace/sequence/fields.hpp"
#include "tools/urtrs-replay/export.hpp"

namespace rtrs::replay_tool {

using tools::sequence::Fields;

namespace {

std::string text_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}
std::string member(const char* name, std::uint64_t value) {
  return std::string("\"") + name + "\":" + std::to_string(value);
}
const char* member(bool value) {
  return value ? "true" : "false";
}

// Maximum numbers of tracks and of storage operations in progress, because a trace is not trusted.
constexpr std::size_t kMostTracks = 65536;

}  // namespace

PerfettoExporter::PerfettoExporter(std::FILE* out) : Exporter(out) {
  put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
}

void PerfettoExporter::event(const std::string& members) {
  put(any_ ? ",\n{" : "\n{");
  put(members);
  put("}");
  any_ = true;
}

// Microseconds, as the format requires, with the nanoseconds as decimals.
std::string PerfettoExporter::time(Nanos at) const {
  const auto ns = static_cast<std::int64_t>(at - static_cast<Nanos>(zero_));
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  char text[40];
  std::snprintf(text, sizeof text, "\"ts\":%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", size / 1000,
                static_cast<unsigned>(size % 1000));
  return text;
}

void PerfettoExporter::begin_trace(const std::string& name, const trace::Header& header,
                                   const trace::TimeBase& times) {
  file_ = name;
  header_ = &header;
  zero_ = times.zero();
  moments_.emplace(header.schema);
}

unsigned PerfettoExporter::process(InstanceId instance) {
  const bool devices = header_->origin.role != "client" && is_devices_of_server(instance);
  if (devices) instance = session_instance(session_of_instance(instance));
  const auto [at, added] = processes_.try_emplace(instance, next_id_ + 1);
  if (!added) return at->second;
  ++next_id_;
  const std::string name = file_ + ' ' + header_->origin.role + " #" + std::to_string(instance);
  event("\"ph\":\"M\",\"name\":\"process_name\"," + member("pid", at->second) +
        ",\"args\":{\"name\":" + text_json(name) + '}');
  return at->second;
}

unsigned PerfettoExporter::thread(InstanceId instance, std::uint64_t path) {
  if (threads_.size() >= kMostTracks) return 0;
  const unsigned pid = process(instance);
  const auto [at, added] = threads_.try_emplace({instance, path}, next_id_ + 1);
  if (!added) return at->second;
  ++next_id_;
  event("\"ph\":\"M\",\"name\":\"thread_name\"," + member("pid", pid) + ',' + member("tid", at->second) +
        ",\"args\":{\"name\":\"path " + std::to_string(path) + "\"}");
  return at->second;
}

void PerfettoExporter::slice(const char* category, InstanceId instance, std::uint64_t id, Nanos from,
                             std::optional<Nanos> to, const std::string& name, const std::string& args) {
  const std::string common = std::string("\"cat\":\"") + category + "\",\"name\":" + text_json(name) + ',' +
                             member("pid", process(instance)) + ",\"id2\":{\"local\":\"" +
                             std::to_string(id) + "\"},";
  event("\"ph\":\"b\"," + common + time(from) + ",\"args\":{" + args + '}');
  if (to) event("\"ph\":\"e\"," + common + time(*to));
  count(category);
}

void PerfettoExporter::end_request(InstanceId instance, std::uint64_t slot, Nanos now,
                                   const std::string& args, bool answered) {
  Request& one = requests_[{instance, slot}];
  if (!std::exchange(one.begun, false)) return;
  slice("request", instance, slot, one.since, answered ? std::optional(now) : std::nullopt,
        one.write ? "write" : "read",
        member("path", one.path) + ',' + member("permit", slot) + ',' + member("bytes", one.bytes) + ',' +
            member("record", one.record) + ",\"answered\":" + member(answered) + args);
}

// A request of a client lasts from submission to completion; one of a server from its delivery to the
// application until the answer. `urtrs-replay stat` measures the same.
void PerfettoExporter::request(const trace::Record& record) {
  const std::string_view event = record.event->name;
  const bool arrived = event == "RequestArrived";
  const bool submitted = event == "Submitted";
  const bool ends = event == "Complete" || event == "Responded";
  if (!arrived && !submitted && !ends && event != "PostRequest" && event != "Deliver") return;
  const Fields fields(record, header_->schema);
  const std::uint64_t slot = fields.number(fields.has("permit") ? "permit" : "chunk");
  if (requests_.size() >= kMostTracks && !requests_.contains({record.instance, slot})) return;
  Request& one = requests_[{record.instance, slot}];
  if (submitted || (arrived && !one.begun)) {
    one.write = fields.word("direction") == "write";
    one.bytes = fields.number("data_len");
  }
  if (submitted || event == "Deliver") {
    one.begun = true;
    one.since = record.time;
    one.record = record.seq;
  }
  if (fields.has("key.path") && !arrived) one.path = fields.key().path;
  if (submitted) one.path = 0;
  if (!ends) return;
  const bool failed = event == "Complete" ? fields.word("result") != "ok" : fields.number("peer_errno") != 0;
  end_request(record.instance, slot, record.time,
              ',' + member("end_record", record.seq) + ",\"failed\":" + member(failed), true);
}

void PerfettoExporter::storage(const trace::Record& record) {
  const Fields fields(record, header_->schema);
  const std::pair place(record.instance, fields.number("operation"));
  const auto at = storage_.find(place);
  if (at != storage_.end()) {
    const bool ends = fields.event() == "StorageDone";
    slice("storage", record.instance, place.second, at->second.since,
          ends ? std::optional(record.time) : std::nullopt, at->second.name,
          at->second.args + (ends ? ',' + member("error", fields.number("error")) : ""));
    storage_.erase(at);
  }
  if (fields.event() != "Storage" || storage_.size() >= kMostTracks) return;
  std::string args;
  for (const char* name : {"handle", "sector", "bytes"})
    args += (args.empty() ? "" : ",") + member(name, fields.number(name));
  storage_[place] = {record.time, fields.word("opcode"), args + ',' + member("record", record.seq)};
}

void PerfettoExporter::path_state(const trace::Record& record) {
  const Fields fields(record, header_->schema);
  const std::string track = member("pid", process(record.instance)) + ',' +
                            member("tid", thread(record.instance, fields.number("path"))) + ',' +
                            time(record.time);
  bool& open = has_state_[thread(record.instance, fields.number("path"))];
  if (open) event("\"ph\":\"E\"," + track);
  const std::string state = fields.word("state");
  open = state != "absent" && state != "closed";
  if (open)
    event("\"ph\":\"B\",\"cat\":\"path\",\"name\":" + text_json(state) + ',' + track +
          ",\"args\":{\"reason\":" + text_json(fields.word("reason")) + ',' + member("record", record.seq) +
          '}');
}

void PerfettoExporter::moment(const trace::Record& record) {
  const auto moment = moments_->of(record);
  if (!moment) return;
  const Place place = place_of(record, header_->schema);
  const bool of_path = (place.has >> Place::path & 1U) != 0;
  std::string members = "\"ph\":\"i\",\"cat\":\"moment\",\"name\":\"" + std::string(name_of(*moment)) +
                        "\"," + member("pid", process(record.instance)) + ',' + time(record.time) +
                        ",\"s\":\"" + (of_path ? "t" : "p") + '"';
  if (of_path) members += ',' + member("tid", thread(record.instance, place.value[Place::path]));
  const Fields fields(record, header_->schema);
  members += ",\"args\":{" + member("record", record.seq);
  if (fields.has("reason")) members += ",\"reason\":" + text_json(fields.word("reason"));
  if (fields.has("permit")) members += ',' + member("permit", fields.number("permit"));
  event(members + '}');
  count("moment");
}

void PerfettoExporter::add(const trace::Record& record) {
  last_ = record;
  request(record);
  const std::string_view name = record.event->name;
  if (name == "PathChanged") path_state(record);
  if (name == "Storage" || name == "StorageDone") storage(record);
  moment(record);
}

void PerfettoExporter::end_trace() {
  for (const auto& [place, one] : requests_) end_request(place.first, place.second, last_.time, {}, false);
  for (const auto& [place, one] : storage_)
    slice("storage", place.first, place.second, one.since, std::nullopt, one.name, one.args);
  for (const auto& [place, tid] : threads_)
    if (has_state_[tid])
      event("\"ph\":\"E\"," + member("pid", process(place.first)) + ',' + member("tid", tid) + ',' +
            time(last_.time));
  requests_.clear();
  storage_.clear();
  threads_.clear();
  processes_.clear();
  has_state_.clear();
  last_ = {};
}

void PerfettoExporter::finish() {
  put("\n]}\n");
}

}  // namespace rtrs::replay_tool
