#include "tools/lib/trace/reader/text.hpp"

#include <cstdio>

namespace rtrs::trace {

std::string hex_text(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    const unsigned value = static_cast<unsigned char>(byte);
    out += kDigits[value >> 4];
    out += kDigits[value & 15];
  }
  return out;
}

namespace {

// Quotes a text and escapes control characters, because they must not reach a terminal.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\x" + hex_text({&c, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Replaces spaces and control characters in a name, because names come from the trace and are untrusted, too.
std::string plain(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x21 || c == 0x7f) c = '?';
  }
  return out;
}

}  // namespace

std::string value_text(const FieldInfo& field, const Value& value, const Schema& schema) {
  switch (field.type) {
    case FieldType::signed_number:
      return std::to_string(static_cast<std::int64_t>(value.number));
    case FieldType::boolean:
      return value.number != 0 ? "true" : "false";
    case FieldType::enumeration: {
      const std::string_view word = schema.enums[field.enumeration].word_of(value.number);
      return word.empty() ? std::to_string(value.number) : plain(word);
    }
    case FieldType::uuid:
    case FieldType::bytes:
      return hex_text(value.bytes);
    case FieldType::text:
      return quoted(value.bytes);
    case FieldType::unsigned_number:
      break;
  }
  return value.number == ~std::uint64_t{0} && field.width == 8 ? "never" : std::to_string(value.number);
}

std::string fields_text(const EventInfo& event, std::span<const Value> values, const Schema& schema) {
  std::string out;
  for (std::size_t i = 0; i < event.fields.size() && i < values.size(); ++i) {
    if (!out.empty()) out += ' ';
    out += plain(event.fields[i].name) + '=' + value_text(event.fields[i], values[i], schema);
  }
  return out;
}

namespace {
const char* mark_of(EventClass category) {
  switch (category) {
    case EventClass::control:
      return "* ";
    case EventClass::input:
      return "> ";
    case EventClass::action:
      return "  < ";
    case EventClass::note:
      return "  ~ ";
  }
  return "? ";
}
}  // namespace

std::string record_text(const Record& record, const Schema& schema, const TimeBase& times) {
  char head[64];
  std::snprintf(head, sizeof head, "%20s  #%-3u ", times.text(record.time).c_str(), record.instance);
  std::string name = mark_of(record.event->category) + plain(record.event->name);
  const std::string fields = fields_text(*record.event, record.values, schema);
  constexpr std::size_t kNameWidth = 26;
  if (!fields.empty() && name.size() < kNameWidth) name.resize(kNameWidth, ' ');
  return fields.empty() ? head + name : head + name + ' ' + fields;
}

}  // namespace rtrs::trace
