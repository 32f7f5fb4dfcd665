#include "tools/lib/trace/reader/json.hpp"

#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::trace {

using Json = nlohmann::json;

namespace {

constexpr const char* kTypeWords[] = {"", "unsigned", "signed", "boolean", "enum", "uuid", "bytes", "text"};
constexpr const char* kClassWords[] = {"control", "input", "action", "note"};

void add_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00" + hex_text({&c, 1});
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string hex64(std::uint64_t value) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
  return hex_text({bytes, sizeof bytes});
}

bool from_hex(std::string_view text, std::string& bytes) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes += static_cast<char>(high * 16 + low);
  }
  return true;
}

template <std::size_t N>
int index_of(const char* const (&words)[N], const std::string& word) {
  for (std::size_t i = 0; i < N; ++i) {
    if (word == words[i]) return static_cast<int>(i);
  }
  return -1;
}

void add_value(std::string& out, const FieldInfo& field, const Value& value, const Schema& schema) {
  switch (field.type) {
    case FieldType::unsigned_number:
      out += std::to_string(value.number);
      break;
    case FieldType::signed_number:
      out += std::to_string(static_cast<std::int64_t>(value.number));
      break;
    case FieldType::boolean:
      out += value.number != 0 ? "true" : "false";
      break;
    case FieldType::enumeration: {
      const std::string_view word = schema.enums[field.enumeration].word_of(value.number);
      if (word.empty()) {
        out += std::to_string(value.number);
      } else {
        add_string(out, word);
      }
      break;
    }
    case FieldType::uuid:
    case FieldType::bytes:
      out += '"' + hex_text(value.bytes) + '"';
      break;
    case FieldType::text:
      add_string(out, value.bytes);
      break;
  }
}

// Converts a JSON value to a field value. `storage` owns the bytes that `value` refers to.
bool get_value(const Json& json, const FieldInfo& field, const Schema& schema, Value& value,
               std::deque<std::string>& storage) {
  switch (field.type) {
    case FieldType::boolean:
      if (!json.is_boolean()) return false;
      value.number = json.get<bool>() ? 1 : 0;
      return true;
    case FieldType::signed_number:
      if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<std::uint64_t>() >> 63 != 0)) {
        return false;
      }
      value.number = static_cast<std::uint64_t>(json.get<std::int64_t>());
      return true;
    case FieldType::enumeration:
      if (json.is_string()) {
        return schema.enums[field.enumeration].value_of(json.get_ref<const std::string&>(), value.number);
      }
      [[fallthrough]];
    case FieldType::unsigned_number:
      if (!json.is_number_unsigned()) return false;
      value.number = json.get<std::uint64_t>();
      return true;
    case FieldType::uuid:
    case FieldType::bytes:
      if (!json.is_string() || !from_hex(json.get_ref<const std::string&>(), storage.emplace_back()))
        return false;
      value.bytes = storage.back();
      return true;
    case FieldType::text:
      if (!json.is_string()) return false;
      value.bytes = storage.emplace_back(json.get<std::string>());
      return true;
  }
  return false;
}

// Like get(), but throws if the value is not an integer or does not fit into T. For such a value, get()
// truncates or has undefined behaviour.
template <class T>
T get_unsigned(const Json& json) {
  if (!json.is_number_unsigned() || !std::in_range<T>(json.get<std::uint64_t>())) {
    throw Json::other_error::create(
        501, json.dump() + " is not an integer from 0 to " + std::to_string(std::numeric_limits<T>::max()),
        &json);
  }
  return static_cast<T>(json.get<std::uint64_t>());
}

// Returns the word for an event class. If only a later version has a word for the class, returns its number.
Json class_json(EventClass category) {
  const auto number = static_cast<std::size_t>(category);
  return number < std::size(kClassWords) ? Json(kClassWords[number]) : Json(number);
}

EventClass get_class(const Json& json) {
  if (json.is_number_unsigned()) return static_cast<EventClass>(get_unsigned<std::uint8_t>(json));
  const int index = index_of(kClassWords, json.get<std::string>());
  if (index < 0) throw Json::other_error::create(501, "an event is of an unknown class", &json);
  return static_cast<EventClass>(index);
}

Json schema_json(const Schema& schema, const char* part) {
  Json out = Json::array();
  if (std::strcmp(part, "enums") == 0) {
    for (const EnumInfo& info : schema.enums) {
      Json words = Json::array();
      for (const EnumWord& entry : info.words) words.push_back({entry.value, entry.word});
      out.push_back({{"name", info.name}, {"words", words}});
    }
    return out;
  }
  for (const EventInfo& event : schema.events) {
    Json fields = Json::array();
    for (const FieldInfo& field : event.fields) {
      fields.push_back({{"name", field.name},
                        {"type", kTypeWords[static_cast<int>(field.type)]},
                        {"width", field.width},
                        {"enum", field.enumeration}});
    }
    out.push_back(
        {{"id", event.id}, {"class", class_json(event.category)}, {"name", event.name}, {"fields", fields}});
  }
  return out;
}

// at() and get() throw on unexpected input; line() converts the exception to a message.
void parse_header_json(const Json& json, Header& header) {
  header.major = get_unsigned<std::uint16_t>(json.at("major"));
  header.minor = get_unsigned<std::uint16_t>(json.at("minor"));
  header.flags = get_unsigned<std::uint32_t>(json.at("flags"));
  header.origin.tool = json.at("tool").get<std::string>();
  header.origin.role = json.at("role").get<std::string>();
  header.origin.backend = json.at("backend").get<std::string>();
  header.origin.seed = get_unsigned<std::uint64_t>(json.at("seed"));
  const auto time = [&json](const char* name) {
    return json.contains(name) ? get_unsigned<std::uint64_t>(json.at(name)) : 0;
  };
  header.start = time("start");
  header.origin.taken = time("taken");
  header.origin.wall = time("wall");
  for (const Json& option : json.at("options")) header.origin.options.push_back(option.get<std::string>());
  for (const Json& item : json.at("enums")) {
    EnumInfo& info = header.schema.enums.emplace_back();
    info.name = item.at("name").get<std::string>();
    for (const Json& entry : item.at("words")) {
      info.words.push_back({get_unsigned<std::uint64_t>(entry.at(0)), entry.at(1).get<std::string>()});
    }
  }
  for (const Json& item : json.at("events")) {
    EventInfo& event = header.schema.events.emplace_back();
    event.id = get_unsigned<KindId>(item.at("id"));
    event.category = get_class(item.at("class"));
    event.name = item.at("name").get<std::string>();
    for (const Json& one : item.at("fields")) {
      FieldInfo& field = event.fields.emplace_back();
      field.name = one.at("name").get<std::string>();
      field.type = static_cast<FieldType>(index_of(kTypeWords, one.at("type").get<std::string>()));
      field.width = get_unsigned<std::uint8_t>(one.at("width"));
      field.enumeration = get_unsigned<std::uint16_t>(one.at("enum"));
    }
  }
}

}  // namespace

struct JsonImporter::Line {
  Json json;
};

std::string header_json(const Header& header) {
  const Origin& origin = header.origin;
  Json json = {{"major", header.major},
               {"minor", header.minor},
               {"flags", header.flags},
               {"tool", origin.tool},
               {"role", origin.role},
               {"backend", origin.backend},
               {"seed", origin.seed},
               {"options", origin.options},
               {"enums", schema_json(header.schema, "enums")},
               {"events", schema_json(header.schema, "events")}};
  for (const auto& [name, time] :
       {std::pair("start", header.start), {"taken", origin.taken}, {"wall", origin.wall}})
    if (time != 0) json[name] = time;
  return Json{{"trace", json}}.dump();
}

std::string record_json(const Record& record, const Schema& schema) {
  std::string out = "{\"seq\":" + std::to_string(record.seq) + ",\"time\":" + std::to_string(record.time) +
                    ",\"instance\":" + std::to_string(record.instance) + ",\"event\":";
  add_string(out, record.event->name);
  out += ",\"fields\":{";
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    if (i != 0) out += ',';
    add_string(out, record.event->fields[i].name);
    out += ':';
    add_value(out, record.event->fields[i], record.values[i], schema);
  }
  return out + "}}";
}

std::string end_json(std::uint64_t records, std::uint64_t chain_hash) {
  return "{\"end\":{\"records\":" + std::to_string(records) + ",\"chain_hash\":\"" + hex64(chain_hash) +
         "\"}}";
}

JsonImporter::JsonImporter(std::unique_ptr<Sink> sink, bool rehash)
    : writer_(std::move(sink)), rehash_(rehash) {}
JsonImporter::~JsonImporter() = default;

std::string JsonImporter::line(std::string_view text) {
  if (ended_) return "there is a line after the end";
  try {
    const Line line{Json::parse(text)};
    if (!line.json.is_object()) return "the line is not a JSON object";
    if (!started_) return header_line(line);
    return line.json.contains("end") ? end_line(line) : record_line(line);
  } catch (const Json::parse_error&) {
    return "the line is not valid JSON";
  } catch (const Json::other_error& error) {
    // This file threw the exception. Removes the prefix that the library adds,
    // "[json.exception.other_error.N] ".
    const std::string what = error.what();
    const std::size_t prefix = what.find("] ");
    return prefix == std::string::npos ? what : what.substr(prefix + 2);
  } catch (const Json::exception&) {
    return "a member of the record is missing, or has another type than `urtrs-replay cat --json` writes";
  }
}

// EINVAL and EOVERFLOW of the writer mean that the line is invalid; other errors come from the sink.
std::string JsonImporter::write_failure(int error) {
  if (error != EINVAL && error != EOVERFLOW) write_error_ = error;
  return std::strerror(error);
}

std::string JsonImporter::header_line(const Line& line) {
  parse_header_json(line.json.at("trace"), header_);
  if (header_.major != kMajor) return "the format is of another major version";
  // Refuses a header that the reader of trace files would also refuse.
  const std::string bytes = encode_header(header_);
  Header check;
  if (bytes.empty()) return "the header is too long";
  const auto* tlvs = reinterpret_cast<const std::uint8_t*>(bytes.data()) + kPreambleSize;
  if (const char* why = parse_header({tlvs, bytes.size() - kPreambleSize - kCrcSize}, check)) return why;
  if (const int error = writer_.start(header_)) return write_failure(error);
  started_ = true;
  return {};
}

std::string JsonImporter::record_line(const Line& line) {
  const Json& json = line.json;
  const EventInfo* event =
      header_.schema.find(std::string_view(json.at("event").get_ref<const std::string&>()));
  if (event == nullptr) return "the header does not describe the event";
  if (rehash_ && event->id == kKindOf<StateHash>) return {};
  if (!rehash_ && get_unsigned<std::uint64_t>(json.at("seq")) != writer_.records())
    return "seq does not follow the line before";
  const auto instance = get_unsigned<std::uint64_t>(json.at("instance"));
  if (instance > 0xffff) return "instance is out of range";
  const Json& fields = json.at("fields");
  if (fields.size() != event->fields.size()) return "the event has other fields";
  std::vector<Value> values(event->fields.size());
  std::deque<std::string> storage;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const FieldInfo& field = event->fields[i];
    if (!get_value(fields.at(field.name), field, header_.schema, values[i], storage)) {
      return "field " + field.name + " has a wrong value";
    }
  }
  const int error = writer_.append_values(*event, static_cast<InstanceId>(instance),
                                          get_unsigned<std::uint64_t>(json.at("time")), values);
  if (error == EINVAL) return "a field is out of range";
  return error == 0 ? std::string() : write_failure(error);
}

std::string JsonImporter::end_line(const Line& line) {
  const Json& end = line.json.at("end");
  if (rehash_) return ended_ = true, std::string();
  if (get_unsigned<std::uint64_t>(end.at("records")) != writer_.records())
    return "the end counts other records";
  if (end.at("chain_hash").get<std::string>() != hex64(writer_.chain_hash())) {
    return "the chain hash does not agree with the records";
  }
  ended_ = true;
  return {};
}

std::string JsonImporter::finish() {
  if (!started_) return "the header line is missing";
  const int error = ended_ ? writer_.finish() : writer_.flush();
  return error == 0 ? std::string() : write_failure(error);
}

}  // namespace rtrs::trace
