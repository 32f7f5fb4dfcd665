#include "tools/lib/trace/judge/translate_devices.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <type_traits>

namespace rtrs::trace {

namespace {

using spec::DeviceEvent;

std::optional<spec::DeviceKind> device_kind_named(std::string_view name) {
  if (name == "LongDeviceRequest") return spec::DeviceKind::DeviceRequest;
  for (unsigned number = 0; number < spec::kDeviceKinds; ++number) {
    const auto kind = static_cast<spec::DeviceKind>(number);
    if (name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

struct EnumWords {
  std::string_view enumeration;
  std::span<const std::string_view> words;  // index: value in the specification
};
constexpr std::string_view kOpcodes[] = {"read", "write", "flush", "discard", "secure_erase", "write_zeroes"};
constexpr std::string_view kModes[] = {"ro", "rw", "migration"};
constexpr std::string_view kMessages[] = {"sess_info", "open", "close"};
constexpr std::string_view kDeviceStates[] = {"init", "open", "closed", "unmapping", "unmapped"};
constexpr std::string_view kDispositions[] = {"ok", "retry_after_remap", "fail", "lost"};
constexpr std::string_view kReadOrWrite[] = {"read", "write"};
constexpr EnumWords kDeviceWords[] = {{"Opcode", kOpcodes},           {"AccessMode", kModes},
                                      {"MessageKind", kMessages},     {"DeviceState", kDeviceStates},
                                      {"Disposition", kDispositions}, {"Direction", kReadOrWrite}};

struct NamedField {
  std::string_view name;
  void (*set)(DeviceEvent&, std::uint64_t, std::string_view);
};

#define RTRS_NUMBER(name, member)                                                          \
  {                                                                                        \
    name, [](DeviceEvent& event, std::uint64_t number, std::string_view) {                 \
      event.member = static_cast<std::remove_reference_t<decltype(event.member)>>(number); \
    }                                                                                      \
  }
#define RTRS_TEXT(name, member)                                                                   \
  {                                                                                               \
    name, [](DeviceEvent& event, std::uint64_t, std::string_view bytes) { event.member = bytes; } \
  }

constexpr NamedField kDeviceFields[] = {
    RTRS_NUMBER("request", request),
    RTRS_NUMBER("token", token),
    RTRS_NUMBER("session", session),
    RTRS_NUMBER("handle", handle),
    RTRS_NUMBER("sector", sector),
    RTRS_NUMBER("nsectors", nsectors),
    RTRS_NUMBER("instance", instance),
    RTRS_NUMBER("unflushed", unflushed),
    RTRS_NUMBER("data_len", data_len),
    RTRS_NUMBER("bytes", bytes),
    RTRS_NUMBER("device", device),
    RTRS_NUMBER("device_id", device_id),
    RTRS_NUMBER("options.generations", generations),
    RTRS_NUMBER("peer_errno", peer_errno),
    RTRS_NUMBER("operation", operation),
    RTRS_NUMBER("prio", prio),
    RTRS_NUMBER("response_length", response_length),
    RTRS_NUMBER("fua", fua),
    RTRS_NUMBER("preflush", preflush),
    RTRS_NUMBER("nounmap", nounmap),
    RTRS_NUMBER("sync_failed", sync_failed),
    RTRS_NUMBER("extended", extended),
    RTRS_NUMBER("delivered", delivered),
    RTRS_NUMBER("opcode", opcode),
    RTRS_NUMBER("mode", mode),
    RTRS_NUMBER("kind", message),
    RTRS_NUMBER("state", state),
    RTRS_NUMBER("disposition", disposition),
    RTRS_NUMBER("geometry.nsectors", geometry.nsectors),
    RTRS_NUMBER("geometry.logical_block_size", geometry.logical_block_size),
    RTRS_NUMBER("geometry.physical_block_size", geometry.physical_block_size),
    RTRS_NUMBER("geometry.max_hw_sectors", geometry.max_hw_sectors),
    RTRS_NUMBER("geometry.max_segments", geometry.max_segments),
    RTRS_NUMBER("geometry.max_discard_sectors", geometry.max_discard_sectors),
    RTRS_NUMBER("geometry.max_write_zeroes_sectors", geometry.max_write_zeroes_sectors),
    RTRS_NUMBER("geometry.discard_granularity", geometry.discard_granularity),
    RTRS_NUMBER("geometry.discard_alignment", geometry.discard_alignment),
    RTRS_NUMBER("geometry.write_cache", geometry.write_cache),
    RTRS_NUMBER("geometry.fua", geometry.fua),
    RTRS_NUMBER("geometry.features", geometry.features),
    RTRS_NUMBER("arrival.flush_told", io.flush_told),
    RTRS_NUMBER("arrival.fua_told", io.fua_told),
    RTRS_NUMBER("arrival.changes", io.changes_before),
    RTRS_NUMBER("losses", io.losses),
    RTRS_NUMBER("cache", io.cache),
    RTRS_NUMBER("nature.changes", io.changes),
    RTRS_NUMBER("nature.durable", io.durable),
    RTRS_NUMBER("nature.flushes", io.flushes),
    RTRS_NUMBER("doomed", io.doomed),
    RTRS_TEXT("header", header),
    RTRS_TEXT("response", response),
    RTRS_TEXT("name", name),
    {"direction",
     [](DeviceEvent& event, std::uint64_t number, std::string_view) { event.reads = number == 0; }},
};
#undef RTRS_NUMBER
#undef RTRS_TEXT

// The field `error` has two meanings: the errno of storage at a server, and of MapAnswered at a client.
constexpr NamedField kStorageError = {"error",
                                      [](DeviceEvent& event, std::uint64_t number, std::string_view) {
                                        event.error = static_cast<std::int32_t>(number);
                                        event.peer_errno = static_cast<std::uint16_t>(number);
                                      }};

}  // namespace

DeviceTranslator::Field DeviceTranslator::field_of(const trace::FieldInfo& info,
                                                   const trace::Schema& schema) {
  Field field;
  for (const NamedField& named : kDeviceFields)
    if (named.name == info.name) field.set = named.set;
  if (info.name == kStorageError.name) field.set = kStorageError.set;
  if (info.type != trace::FieldType::enumeration) return field;
  const trace::EnumInfo& enumeration = schema.enums[info.enumeration];
  for (const EnumWords& words : kDeviceWords) {
    if (words.enumeration != enumeration.name) continue;
    for (const trace::EnumWord& word : enumeration.words) {
      const auto found = std::find(words.words.begin(), words.words.end(), word.word);
      if (word.value > 0xff || found == words.words.end()) continue;
      if (field.words.size() <= word.value) field.words.resize(word.value + 1, 0);
      field.words[word.value] = static_cast<std::uint8_t>(found - words.words.begin());
    }
  }
  return field;
}

DeviceTranslator::DeviceTranslator(const trace::Schema& schema) {
  for (const trace::EventInfo& info : schema.events) {
    if (entries_.size() <= info.id) entries_.resize(std::size_t{info.id} + 1);
    Entry& entry = entries_[info.id];
    entry.kind = device_kind_named(info.name);
    if (!entry.kind) continue;
    for (std::size_t at = 0; at < info.fields.size(); ++at) {
      Field field = field_of(info.fields[at], schema);
      field.at = at;
      if (field.set != nullptr) entry.fields.push_back(std::move(field));
    }
  }
}

const spec::DeviceEvent* DeviceTranslator::translate(const trace::Record& record) {
  const Entry& entry = entries_[record.event->id];
  if (!entry.kind) return nullptr;
  event_ = spec::DeviceEvent{};
  event_.kind = *entry.kind;
  event_.now = record.time;
  event_.seq = record.seq;
  for (const Field& field : entry.fields) {
    if (field.at >= record.values.size()) break;
    const trace::Value& value = record.values[field.at];
    std::uint64_t number = value.number;
    // An unknown word of a file, or a number without a word, becomes the first value.
    if (!field.words.empty()) number = number < field.words.size() ? field.words[number] : 0;
    field.set(event_, number, value.bytes);
  }
  return &event_;
}

}  // namespace rtrs::trace
