// The header's tag-length-values: tag u16, length u32, value; ascending tags, and only the tag of an option
// may repeat. Readers skip tags that they do not know.
#include <set>

#include "core/base/crc32c.hpp"
#include "core/record/format.hpp"
#include "core/record/varint.hpp"

namespace rtrs::trace {
namespace {

enum Tag : std::uint16_t {
  tag_tool = 1,
  tag_role = 2,
  tag_backend = 3,
  tag_seed = 4,
  tag_option = 5,
  tag_flags = 6,
  tag_enums = 7,
  tag_events = 8,
  tag_clock = 9,
};

void add_u8(std::string& out, unsigned value) {
  out += static_cast<char>(static_cast<unsigned char>(value));
}
void add_varint(std::string& out, std::uint64_t value) {
  std::uint8_t buffer[kMaxVarint];
  out.append(reinterpret_cast<const char*>(buffer), put_varint(buffer, value) - buffer);
}
void add_text(std::string& out, const std::string& text) {
  add_varint(out, text.size());
  out += text;
}
void add_tlv(std::string& out, Tag tag, const std::string& value) {
  add_u8(out, tag & 0xff);
  add_u8(out, tag >> 8);
  std::uint8_t size[4];
  put_u32(size, static_cast<std::uint32_t>(value.size()));
  out.append(reinterpret_cast<const char*>(size), 4);
  out += value;
}

std::string fixed(std::uint64_t value, std::size_t width) {
  std::uint8_t bytes[8];
  put_u64(bytes, value);
  return std::string(reinterpret_cast<const char*>(bytes), width);
}

std::string encode_enums(const Schema& schema) {
  std::string out;
  add_varint(out, schema.enums.size());
  for (const EnumInfo& info : schema.enums) {
    add_text(out, info.name);
    add_varint(out, info.words.size());
    for (const EnumWord& entry : info.words) {
      add_varint(out, entry.value);
      add_text(out, entry.word);
    }
  }
  return out;
}

std::string encode_events(const Schema& schema) {
  std::string out;
  add_varint(out, schema.events.size());
  for (const EventInfo& event : schema.events) {
    add_varint(out, event.id);
    add_u8(out, static_cast<unsigned>(event.category));
    add_text(out, event.name);
    add_varint(out, event.fields.size());
    for (const FieldInfo& field : event.fields) {
      add_text(out, field.name);
      add_u8(out, static_cast<unsigned>(field.type));
      add_u8(out, field.width);
      if (field.type == FieldType::enumeration) add_varint(out, field.enumeration);
    }
  }
  return out;
}

// Reads within a span; after the first failure every further read fails too.
class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool failed() const { return failed_; }
  bool at_end() const { return at_ == end_; }
  std::span<const std::uint8_t> take(std::size_t size) {
    if (failed_ || size > static_cast<std::size_t>(end_ - at_)) {
      failed_ = true;
      return {};
    }
    const std::span<const std::uint8_t> taken(at_, size);
    at_ += size;
    return taken;
  }
  unsigned u8() {
    const auto taken = take(1);
    return taken.empty() ? 0 : taken[0];
  }
  std::uint64_t varint(std::uint64_t most) {
    std::uint64_t value = 0;
    const std::uint8_t* next = failed_ ? nullptr : get_varint(at_, end_, value);
    if (next == nullptr || value > most) {
      failed_ = true;
      return 0;
    }
    at_ = next;
    return value;
  }
  std::string text() {
    const auto taken = take(varint(kMaxText));
    std::string text(taken.begin(), taken.end());
    if (!is_utf8(text)) failed_ = true;
    return text;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool failed_ = false;
};

const char* parse_enums(Cursor cursor, Schema& schema) {
  const std::uint64_t enums = cursor.varint(kMaxEnums);
  for (std::uint64_t i = 0; i < enums && !cursor.failed(); ++i) {
    EnumInfo info;
    info.name = cursor.text();
    std::set<std::string> words;
    std::set<std::uint64_t> values;
    const std::uint64_t count = cursor.varint(kMaxWords);
    for (std::uint64_t j = 0; j < count && !cursor.failed(); ++j) {
      const std::uint64_t value = cursor.varint(~std::uint64_t{0});
      info.words.push_back({value, cursor.text()});
      if (!words.insert(info.words.back().word).second || !values.insert(value).second ||
          info.words.back().word.empty()) {
        return "an enumeration has a value or word twice";
      }
    }
    schema.enums.push_back(std::move(info));
  }
  return cursor.failed() || !cursor.at_end() ? "the table of enumerations is malformed" : nullptr;
}

bool is_well_formed(const FieldInfo& field, const Schema& schema) {
  const bool is_width = field.width == 1 || field.width == 2 || field.width == 4 || field.width == 8;
  switch (field.type) {
    case FieldType::unsigned_number:
    case FieldType::signed_number:
      return is_width;
    case FieldType::boolean:
      return field.width == 1;
    case FieldType::enumeration:
      return is_width && field.enumeration < schema.enums.size();
    case FieldType::uuid:
    case FieldType::bytes:
    case FieldType::text:
      return field.width == 0;
  }
  return false;
}

const char* parse_fields(Cursor& cursor, const Schema& schema, EventInfo& event) {
  std::set<std::string> names;
  const std::uint64_t fields = cursor.varint(kMaxFields);
  for (std::uint64_t i = 0; i < fields && !cursor.failed(); ++i) {
    FieldInfo field;
    field.name = cursor.text();
    field.type = static_cast<FieldType>(cursor.u8());
    field.width = static_cast<std::uint8_t>(cursor.u8());
    if (field.type == FieldType::enumeration) {
      field.enumeration = static_cast<std::uint16_t>(cursor.varint(kMaxEnums - 1));
    }
    if (!is_well_formed(field, schema)) return "an event has a field of an unknown type";
    if (!names.insert(field.name).second) return "a field occurs twice in an event";
    event.fields.push_back(std::move(field));
  }
  return nullptr;
}

const char* parse_events(Cursor cursor, Schema& schema) {
  std::set<std::string> names;
  const std::uint64_t events = cursor.varint(kMaxEvents);
  for (std::uint64_t i = 0; i < events && !cursor.failed(); ++i) {
    EventInfo event;
    event.id = static_cast<KindId>(cursor.varint(0xffff));
    event.category = static_cast<EventClass>(cursor.u8());
    event.name = cursor.text();
    if (!schema.events.empty() && schema.events.back().id >= event.id) return "the events are not in order";
    if (!names.insert(event.name).second) return "two events have the same name";
    if (const char* why = parse_fields(cursor, schema, event)) return why;
    schema.events.push_back(std::move(event));
  }
  return cursor.failed() || !cursor.at_end() ? "the table of events is malformed" : nullptr;
}

const char* parse_tlv(unsigned tag, std::span<const std::uint8_t> value, Header& header) {
  const auto text = [value](std::string& to) -> const char* {
    to.assign(value.begin(), value.end());
    return to.size() > kMaxText || !is_utf8(to) ? "a text is too long or not UTF-8" : nullptr;
  };
  switch (tag) {
    case tag_tool:
      return text(header.origin.tool);
    case tag_role:
      return text(header.origin.role);
    case tag_backend:
      return text(header.origin.backend);
    case tag_seed:
      if (value.size() != 8) return "the seed has a wrong size";
      header.origin.seed = get_u64(value.data());
      return nullptr;
    case tag_option:
      if (header.origin.options.size() == kMaxOptions) return "too many options";
      return text(header.origin.options.emplace_back());
    case tag_flags:
      if (value.size() != 4) return "the flags have a wrong size";
      header.flags = get_u32(value.data());
      return nullptr;
    case tag_enums:
      return parse_enums(Cursor(value), header.schema);
    case tag_events:
      return parse_events(Cursor(value), header.schema);
    case tag_clock:
      if (value.size() != 24) return "the clock has a wrong size";
      header.start = get_u64(value.data());
      header.origin.taken = get_u64(value.data() + 8);
      header.origin.wall = get_u64(value.data() + 16);
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

std::string encode_header(const Header& header) {
  std::string tlvs;
  add_tlv(tlvs, tag_tool, clean_text(header.origin.tool));
  add_tlv(tlvs, tag_role, clean_text(header.origin.role));
  add_tlv(tlvs, tag_backend, clean_text(header.origin.backend));
  add_tlv(tlvs, tag_seed, fixed(header.origin.seed, 8));
  std::size_t options = 0;
  for (const std::string& option : header.origin.options) {
    if (options++ == kMaxOptions) break;
    add_tlv(tlvs, tag_option, clean_text(option));
  }
  add_tlv(tlvs, tag_flags, fixed(header.flags, 4));
  add_tlv(tlvs, tag_enums, encode_enums(header.schema));
  add_tlv(tlvs, tag_events, encode_events(header.schema));
  if ((header.start | header.origin.taken | header.origin.wall) != 0)
    add_tlv(tlvs, tag_clock,
            fixed(header.start, 8) + fixed(header.origin.taken, 8) + fixed(header.origin.wall, 8));
  if (tlvs.size() > kMaxHeader) return {};

  std::string out(kMagic);
  out += fixed(header.major, 2) + fixed(header.minor, 2) + fixed(tlvs.size(), 4) + tlvs;
  return out + fixed(crc32c(out.data(), out.size()), kCrcSize);
}

const char* parse_header(std::span<const std::uint8_t> tlvs, Header& header) {
  Cursor cursor(tlvs);
  unsigned last = 0;
  while (!cursor.at_end()) {
    const auto head = cursor.take(6);
    if (cursor.failed()) return "the header ends inside a field";
    const unsigned tag = get_u16(head.data());
    const auto value = cursor.take(get_u32(head.data() + 2));
    if (cursor.failed()) return "the header ends inside a field";
    if (tag < last || (tag == last && tag != tag_option)) return "the header's fields are not in order";
    last = tag;
    if (const char* why = parse_tlv(tag, value, header)) return why;
  }
  return header.schema.events.empty() ? "the header has no table of events" : nullptr;
}

}  // namespace rtrs::trace
