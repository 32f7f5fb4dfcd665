#include "tools/urtrs-replay/record_filter.hpp"

#include <algorithm>
#include <charconv>

#include "backends/options/quantity.hpp"
#include "core/proto/limits.hpp"
#include "core/wire/imm.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/sequence/fields.hpp"

namespace rtrs::replay_tool {

using tools::sequence::Fields;

namespace {

template <class T>
bool contains(const std::vector<T>& list, std::uint64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

const char* class_name(trace::EventClass category) {
  switch (category) {
    case trace::EventClass::control:
      return "control";
    case trace::EventClass::input:
      return "input";
    case trace::EventClass::action:
      return "action";
    case trace::EventClass::note:
      return "note";
  }
  return "";
}

bool is_number(std::string_view text, std::uint16_t& number) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  return wrong == std::errc{} && end == text.data() + text.size();
}

}  // namespace

bool is_named(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

std::optional<FieldTest> FieldTest::parse(std::string_view text) {
  const std::size_t at = text.find_first_of("=<>!");
  if (at == 0 || at == text.npos || (text[at] == '!' && !text.substr(at).starts_with("!=")))
    return std::nullopt;
  FieldTest test;
  test.name_ = text.substr(0, at);
  test.comparison_ = text[at];
  test.value_ = text.substr(at + (text[at] == '!' ? 2 : 1));
  if (test.comparison_ != '<' && test.comparison_ != '>') return test;
  const char* const end = test.value_.data() + test.value_.size();
  const auto [rest, wrong] = std::from_chars(test.value_.data(), end, test.number_);
  if (wrong == std::errc{} && rest == end) return test;
  const auto duration = options::parse_duration(test.value_);
  if (!duration) return std::nullopt;
  test.number_ = *duration;
  return test;
}

bool FieldTest::holds(const Fields& fields) const {
  std::string name = name_;
  const bool in_key = !fields.has(name_) && fields.has("key." + name_);
  if (in_key) name.insert(0, "key.");
  if (!fields.has(name)) return false;
  const bool is_path = in_key && name_ == "path" && fields.has_key();
  const std::uint64_t number = is_path ? fields.key().path : fields.number(name);
  if (comparison_ == '<') return number < number_;
  if (comparison_ == '>') return number > number_;
  const bool equal = (is_path ? std::to_string(number) : fields.word(name)) == value_;
  return equal == (comparison_ == '=');
}

void add_filter_options(CLI::App& command, FilterOptions& options) {
  command
      .add_option("--event", options.events, "Events of this name; Path* matches all that begin with Path")
      ->type_name("NAME")
      ->delimiter(',');
  command.add_option("--class", options.classes, "control, input, action or note")
      ->type_name("CLASS")
      ->delimiter(',');
  command.add_option("--instance", options.instances, "Records of this machine")
      ->type_name("I")
      ->delimiter(',');
  command
      .add_option("--session", options.sessions, "Records of this session of a server, and of its devices")
      ->type_name("S")
      ->delimiter(',');
  command.add_option("--path", options.paths, "What happens on this path of its session")
      ->type_name("P")
      ->delimiter(',');
  command.add_option("--connection", options.connections, "What happens on this connection of a path")
      ->type_name("[P:]C")
      ->delimiter(',');
  command.add_option("--permit", options.permits, "What happens to this permit or chunk")
      ->type_name("N")
      ->delimiter(',');
  command
      .add_option("--device", options.devices,
                  "What happens to this block device: the handle of a client, or the id that the server gave")
      ->type_name("N")
      ->delimiter(',');
  command
      .add_option("--field", options.fields,
                  "Where a field has this value, as cat prints it; also NAME!=VALUE, NAME<N, NAME>N")
      ->type_name("NAME=VALUE");
}

RecordFilter::RecordFilter(const FilterOptions& options, const trace::Schema& schema, std::string& why)
    : options_(options), schema_(schema) {
  for (const std::string& name : options.events) {
    const bool known = std::any_of(schema.events.begin(), schema.events.end(),
                                   [&name](const auto& event) { return is_named(name, event.name); });
    if (!known) why = "the trace has no event '" + name + "'; `urtrs-replay stat` lists those in it";
  }
  for (const std::string& name : options.classes) {
    if (name != "control" && name != "input" && name != "action" && name != "note") {
      why = "unknown class '" + name + "'; the classes are control, input, action and note";
    }
  }
  for (const std::string& text : options.connections) {
    Connection connection;
    const std::size_t colon = text.find(':');
    std::uint16_t path = 0;
    const std::string_view con = std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1);
    if (!is_number(con, connection.con) ||
        (colon != std::string::npos && !is_number(std::string_view(text).substr(0, colon), path))) {
      why = "'" + text + "' is not a connection; give its number, or PATH:NUMBER";
    }
    if (colon != std::string::npos) connection.path = path;
    connections_.push_back(connection);
  }
  for (const std::string& text : options.fields) {
    const auto test = FieldTest::parse(text);
    if (test)
      fields_.push_back(*test);
    else
      why = "'" + text + "' is not NAME=VALUE, NAME!=VALUE, NAME<NUMBER or NAME>NUMBER";
  }
}

bool RecordFilter::matches(const trace::Record& record) {
  follow(record);
  return range_.contains(record.time) && matches_event(record) && matches_place(record) &&
         matches_permit(record) && matches_fields(record);
}

void RecordFilter::follow(const trace::Record& record) {
  const Fields fields(record, schema_);
  const char* name = fields.event() == "Connected"            ? "queue_depth"
                     : fields.event() == "BeginServerSession" ? "config.queue_depth"
                                                              : nullptr;
  if (name != nullptr && fields.number(name) != 0) {
    depth_[record.instance] = static_cast<std::uint32_t>(fields.number(name));
  }
}

bool RecordFilter::matches_event(const trace::Record& record) const {
  const auto named = [&record](const std::string& name) { return is_named(name, record.event->name); };
  if (!options_.events.empty() && std::none_of(options_.events.begin(), options_.events.end(), named)) {
    return false;
  }
  const std::string category = class_name(record.event->category);
  return options_.classes.empty() ||
         std::find(options_.classes.begin(), options_.classes.end(), category) != options_.classes.end();
}

bool RecordFilter::matches_place(const trace::Record& record) const {
  if (!options_.instances.empty() && !contains(options_.instances, record.instance)) return false;
  // Instance 0 is the registry of a server, so it never matches a session.
  if (!options_.sessions.empty() &&
      (record.instance == 0 || !contains(options_.sessions, session_of_instance(record.instance))))
    return false;
  if (!options_.devices.empty() && !matches_device(record)) return false;
  if (options_.paths.empty() && connections_.empty()) return true;
  const Fields fields(record, schema_);
  const bool has_key = fields.has("key.path");
  const std::uint64_t path = has_key ? fields.key().path : fields.number("path");
  if (!options_.paths.empty()) {
    const bool failover =
        fields.event() == "FailedOver" &&
        (contains(options_.paths, fields.number("from")) || contains(options_.paths, fields.number("to")));
    const bool here = (has_key || fields.has("path")) && contains(options_.paths, path);
    if (!failover && !here) return false;
  }
  if (connections_.empty()) return true;
  return has_key && std::any_of(connections_.begin(), connections_.end(), [&](const Connection& one) {
           return one.con == fields.number("key.con") && (!one.path || *one.path == path);
         });
}

bool RecordFilter::matches_device(const trace::Record& record) const {
  const Fields fields(record, schema_);
  for (const char* name : {"device", "device_id"})
    if (fields.has(name) && contains(options_.devices, fields.number(name))) return true;
  for (const char* name : {"header", "response", "head"}) {
    const std::string_view text = fields.bytes(name);
    const wire::Bytes bytes{reinterpret_cast<const std::byte*>(text.data()), text.size()};
    const auto id =
        trace::rnbd_device_of(name == std::string_view("head") ? trace::user_header_of(bytes) : bytes);
    if (id && contains(options_.devices, *id)) return true;
  }
  return false;
}

bool RecordFilter::matches_permit(const trace::Record& record) const {
  if (options_.permits.empty()) return true;
  const Fields fields(record, schema_);
  for (const char* name : {"permit", "chunk", "buf_id"}) {
    if (fields.has(name)) return contains(options_.permits, fields.number(name));
  }
  if (!fields.has("imm") || (fields.has("has_imm") && !fields.flag("has_imm"))) return false;
  const auto depth = depth_.find(record.instance);
  if (depth == depth_.end()) return false;
  const auto imm = static_cast<std::uint32_t>(fields.number("imm"));
  switch (wire::imm_type(imm)) {
    case wire::ImmType::io_req:
      return contains(options_.permits, wire::decode_io_req(depth->second, imm).buf_id);
    case wire::ImmType::io_rsp:
    case wire::ImmType::io_rsp_w_inv:
      return contains(options_.permits,
                      wire::split_msg_id(depth->second, wire::decode_io_rsp(imm).msg_id).buf_id);
    default:
      return false;
  }
}

bool RecordFilter::matches_fields(const trace::Record& record) const {
  const Fields fields(record, schema_);
  return std::all_of(fields_.begin(), fields_.end(),
                     [&fields](const FieldTest& test) { return test.holds(fields); });
}

}  // namespace rtrs::replay_tool
