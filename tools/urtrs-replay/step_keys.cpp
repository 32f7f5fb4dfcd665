#include "tools/urtrs-replay/step_keys.hpp"

#include <algorithm>

#include "core/record/chain_hash.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::replay_tool {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Returns true for fields that contain a handle.
bool is_handle(std::string_view field) {
  return field.ends_with("epoch") || field.ends_with("uuid") ||
         is_one_of(field, {"request", "address_pair", "rkey", "remote_addr", "digest_low", "digest_high",
                           "device_id", "handle", "instance"});
}

// Returns true for fields that are not compared: random durations, and the seed of the run.
bool is_left_out(std::string_view field) {
  return is_one_of(field, {"delay", "config.seed", "options.first_generation"});
}

// Returns true for events whose field "header" or "response" is an RNBD message.
bool has_message(std::string_view event) {
  return is_one_of(event, {"SendMessage", "MessageDone", "DeviceRequest", "LongDeviceRequest", "WriteBack"});
}

std::uint64_t digest(const std::string& text) {
  return trace::content_digest(text.data(), text.size());
}

}  // namespace

std::string HandleNames::of(std::string_view field, const std::string& value) {
  // Zero has a special meaning, so it is not replaced.
  if (value == "0") return value;
  const std::string_view name = field.substr(field.rfind('.') + 1);
  auto found = kinds_.find(name);
  if (found == kinds_.end()) found = kinds_.try_emplace(std::string(name)).first;
  Kind& kind = found->second;
  const std::uint64_t is = digest(value);
  if (const auto known = kind.by_value.find(is); known != kind.by_value.end()) {
    kind.handles.splice(kind.handles.begin(), kind.handles, known->second);
  } else {
    if (kind.handles.size() == kMost) {
      kind.by_value.erase(kind.handles.back().value);
      kind.handles.pop_back();
    }
    kind.handles.push_front({is, ++kind.count});
    kind.by_value.emplace(is, kind.handles.begin());
  }
  return '@' + std::to_string(kind.handles.front().number);
}

StepKeys::StepKeys(CompareMode mode, const trace::Schema& schema, Opened opened, Opened closed)
    : mode_(mode), schema_(schema), opened_(std::move(opened)), closed_(std::move(closed)) {}

bool StepKeys::is_compared(const trace::Record& record) const {
  if (mode_ == CompareMode::exact) return true;
  const std::string& event = record.event->name;
  if (mode_ == CompareMode::state) {
    return is_one_of(
        event, {"PathChanged", "LinkChanged", "EndSession", "ReleasePath", "AdmitSession", "DeviceChanged",
                "CacheReplaced", "CacheDamaged", "CloseExport", "SessionDrained"});
  }
  return event.starts_with("Begin") || record.event->category == trace::EventClass::input ||
         record.event->category == trace::EventClass::action;
}

StepKeys::Thread& StepKeys::open(InstanceId instance, std::string name) {
  Thread& thread = threads_[instance];
  if (!thread.name.empty()) closed_(thread.name);
  thread = {std::move(name), {}};
  opened_(thread.name);
  return thread;
}

StepKeys::Thread& StepKeys::thread_of(InstanceId instance) {
  const auto found = threads_.find(instance);
  if (found != threads_.end()) return found->second;
  return open(instance, mode_ == CompareMode::exact ? "all" : "instance " + std::to_string(instance));
}

const std::string* StepKeys::thread(const trace::Record& record) {
  const std::string& event = record.event->name;
  // In an exact comparison all records form one thread.
  const bool exact = mode_ == CompareMode::exact;
  // A begin record always starts a new machine, even if its instance was used before.
  if (!exact && event.starts_with("Begin")) {
    const std::string kind = event.substr(5);
    open(record.instance, kind + ' ' + std::to_string(count_[kind]++));
  }
  return is_compared(record) ? &thread_of(exact ? InstanceId{0} : record.instance).name : nullptr;
}

Step StepKeys::step(const trace::Record& record) {
  std::string key = record.event->name;
  if (mode_ == CompareMode::exact) {
    key += '\n' + std::to_string(record.instance) + '\n' + std::to_string(record.time) + '\n';
    return {record.seq, digest(key.append(record.fields))};
  }
  HandleNames& handles = threads_.at(record.instance).handles;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const trace::FieldInfo& field = record.event->fields[i];
    if (is_left_out(field.name)) continue;
    std::string value = field.type == trace::FieldType::bytes && has_message(record.event->name)
                            ? message(field.name, record.values[i].bytes, handles)
                            : trace::value_text(field, record.values[i], schema_);
    if (is_handle(field.name)) value = handles.of(field.name, value);
    key += ' ' + field.name + '=' + value;
  }
  return {record.seq, digest(key)};
}

// Returns a message as text. The bytes of messages cannot be compared, because unused bytes may have any
// value, and ids are handles.
std::string StepKeys::message(std::string_view field, std::string_view bytes, HandleNames& handles) {
  const trace::RnbdNames called{
      [&handles](std::uint32_t id) { return handles.of("device_id", std::to_string(id)); },
      [&handles](std::uint64_t instance) { return handles.of("instance", std::to_string(instance)); }};
  const wire::Bytes message{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  return field == "header" ? trace::rnbd_request_words(message, called)
                           : trace::rnbd_response_words(message, called);
}

}  // namespace rtrs::replay_tool
