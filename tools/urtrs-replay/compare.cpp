#include "tools/urtrs-replay/compare.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace rtrs::replay_tool {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Returns true for fields that contain a handle. The value of a handle is arbitrary, so the handles of each
// state machine are replaced by numbers in the order of first use.
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

class Names {
 public:
  std::string of(std::string_view field, const std::string& value) {
    // Zero has a special meaning, so it is not replaced.
    if (value == "0") return value;
    const std::string_view kind = field.substr(field.rfind('.') + 1);
    const auto [at, added] = numbers_.try_emplace({std::string(kind), value}, 0);
    if (added) at->second = ++count_[std::string(kind)];
    return '@' + std::to_string(at->second);
  }

 private:
  std::map<std::pair<std::string, std::string>, unsigned> numbers_;
  std::map<std::string, unsigned> count_;
};

class Collector {
 public:
  Collector(CompareMode mode, const trace::Schema& schema) : mode_(mode), schema_(schema) {}

  void show_times(const trace::TimeBase& base) { base_ = base; }
  void add(const trace::Record& record) {
    const std::string& event = record.event->name;
    if (mode_ != CompareMode::exact && event.starts_with("Begin")) begin(record);
    if (!is_compared(record)) return;
    Thread& thread = thread_of(record.instance);
    thread.steps.push_back({record.seq, key_of(record), trace::record_text(record, schema_, base_)});
  }
  std::vector<Thread> take() { return std::move(threads_); }

 private:
  bool is_compared(const trace::Record& record) const {
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

  // A begin record always starts a new state machine, even if its instance was used before.
  void begin(const trace::Record& record) {
    const std::string kind = record.event->name.substr(5);
    current_[record.instance] = threads_.size();
    threads_.push_back({kind + ' ' + std::to_string(count_[kind]++), {}});
    names_.emplace_back();
  }
  Thread& thread_of(InstanceId instance) {
    // In an exact comparison all records form one thread. Otherwise, records of an instance before its begin
    // record get a separate thread.
    const InstanceId at = mode_ == CompareMode::exact ? InstanceId{0} : instance;
    const auto found = current_.find(at);
    if (found != current_.end()) return threads_[found->second];
    current_[at] = threads_.size();
    threads_.push_back({mode_ == CompareMode::exact ? "" : "instance " + std::to_string(instance), {}});
    names_.emplace_back();
    return threads_.back();
  }

  std::string key_of(const trace::Record& record) {
    std::string key = record.event->name;
    if (mode_ == CompareMode::exact) {
      key += '\n' + std::to_string(record.instance) + '\n' + std::to_string(record.time) + '\n';
      return key.append(record.fields);
    }
    Names& names = names_[current_[record.instance]];
    for (std::size_t i = 0; i < record.values.size(); ++i) {
      const trace::FieldInfo& field = record.event->fields[i];
      if (is_left_out(field.name)) continue;
      std::string value = field.type == trace::FieldType::bytes && has_message(record.event->name)
                              ? message(field.name, record.values[i].bytes, names)
                              : trace::value_text(field, record.values[i], schema_);
      if (is_handle(field.name)) value = names.of(field.name, value);
      key += ' ' + field.name + '=' + value;
    }
    return key;
  }

  // Returns a message as text. The bytes of messages cannot be compared, because unused bytes may have any
  // value, and ids are handles.
  static std::string message(std::string_view field, std::string_view bytes, Names& names) {
    const trace::RnbdNames called{
        [&names](std::uint32_t id) { return names.of("device_id", std::to_string(id)); },
        [&names](std::uint64_t instance) { return names.of("instance", std::to_string(instance)); }};
    const wire::Bytes message{reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
    return field == "header" ? trace::rnbd_request_words(message, called)
                             : trace::rnbd_response_words(message, called);
  }

  CompareMode mode_;
  const trace::Schema& schema_;
  trace::TimeBase base_;
  std::vector<Thread> threads_;
  std::vector<Names> names_;  // indexed by thread index
  std::map<InstanceId, std::size_t> current_;
  std::map<std::string, unsigned> count_;
};

const Thread* find(const ComparedTrace& trace, const std::string& name) {
  for (const Thread& thread : trace.threads) {
    if (thread.name == name) return &thread;
  }
  return nullptr;
}

// Returns the index of the first step in which two threads differ. If one thread ends early, returns its
// length.
std::size_t first_unlike(const std::vector<Step>& a, const std::vector<Step>& b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at].key == b[at].key) ++at;
  return at;
}

}  // namespace

ComparedTrace read_for_compare(const std::string& path, CompareMode mode) {
  ComparedTrace result;
  InputFile file(path);
  if (!file.is_open()) {
    result.code = exit_usage;
    return result;
  }
  trace::Reader reader(file.source());
  trace::Reader::Status status = reader.open();
  if (status == trace::Reader::Status::ok) {
    Collector collector(mode, reader.header().schema);
    Progress progress(file.size(), true);
    trace::Record record;
    while ((status = reader.next(record)) == trace::Reader::Status::ok) {
      if (record.seq == 0) collector.show_times(trace::TimeBase(reader.header(), record.time));
      collector.add(record);
      progress.at(reader.bytes());
    }
    result.threads = collector.take();
    result.records = reader.records();
  }
  result.code = report_stop(path, status, reader);
  return result;
}

Difference compare(const ComparedTrace& a, const ComparedTrace& b) {
  std::vector<std::string> names;
  for (const ComparedTrace* trace : {&a, &b}) {
    for (const Thread& thread : trace->threads) {
      if (std::find(names.begin(), names.end(), thread.name) == names.end()) names.push_back(thread.name);
    }
  }
  static const std::vector<Step> kNothing;
  Difference first;
  std::uint64_t earliest = 0;
  for (const std::string& name : names) {
    const Thread* of_a = find(a, name);
    const Thread* of_b = find(b, name);
    const std::vector<Step>& steps_a = of_a != nullptr ? of_a->steps : kNothing;
    const std::vector<Step>& steps_b = of_b != nullptr ? of_b->steps : kNothing;
    const std::size_t at = first_unlike(steps_a, steps_b);
    const bool in_a = at < steps_a.size();
    const bool in_b = at < steps_b.size();
    if (!in_a && !in_b) continue;
    const std::uint64_t place = std::min(in_a ? steps_a[at].seq : kNever, in_b ? steps_b[at].seq : kNever);
    if (first.found && earliest <= place) continue;
    earliest = place;
    first = {true,
             name,
             in_a ? steps_a[at].text : "",
             in_b ? steps_b[at].text : "",
             in_a ? steps_a[at].seq : a.records,
             in_b ? steps_b[at].seq : b.records,
             {}};
    constexpr std::size_t kShown = 10;
    for (std::size_t i = at > kShown ? at - kShown : 0; i < at; ++i) first.before.push_back(steps_a[i].text);
  }
  return first;
}

}  // namespace rtrs::replay_tool
