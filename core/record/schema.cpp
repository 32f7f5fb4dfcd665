#include "core/record/schema.hpp"

#include <algorithm>
#include <cstring>

#include "core/proto/errc.hpp"
#include "core/proto/multipath_policy.hpp"
#include "core/record/fields.hpp"
#include "core/wire/refusal.hpp"

namespace rtrs {

const char* to_string(MachineKind kind) noexcept {
  switch (kind) {
    case MachineKind::client_session:
      return "client_session";
    case MachineKind::server_session:
      return "server_session";
    case MachineKind::server_registry:
      return "server_registry";
    case MachineKind::client_devices:
      return "client_devices";
    case MachineKind::server_devices:
      return "server_devices";
  }
  return "unknown";
}

}  // namespace rtrs

namespace rtrs::trace {
namespace {

// Returns the name of the enumerator, which is not always the text of to_string().
const char* errc_name(Errc errc) noexcept {
  switch (errc) {
    case Errc::ok:
      return "ok";
    case Errc::peer_error:
      return "peer_error";
    case Errc::no_path:
      return "no_path";
    case Errc::queue_full:
      return "queue_full";
    case Errc::too_large:
      return "too_large";
    case Errc::session_closed:
      return "session_closed";
    case Errc::not_open:
      return "not_open";
    case Errc::no_memory:
      return "no_memory";
    case Errc::not_supported:
      return "not_supported";
    case Errc::bad_address:
      return "bad_address";
    case Errc::address_in_use:
      return "address_in_use";
    case Errc::no_permission:
      return "no_permission";
    case Errc::no_such_path:
      return "no_such_path";
    case Errc::invalid:
      return "invalid";
    case Errc::fabric_error:
      return "fabric_error";
    case Errc::request_timeout:
      return "request_timeout";
    case Errc::no_permit:
      return "no_permit";
    case Errc::cache_lost:
      return "cache_lost";
    case Errc::path_exists:
      return "path_exists";
  }
  return "unknown";
}

const char* to_word(Errc value) {
  return errc_name(value);
}
const char* to_word(Reason value) {
  return to_string(value);
}
const char* to_word(PathState value) {
  return to_string(value);
}
const char* to_word(MultipathPolicy value) {
  return to_string(value);
}
const char* to_word(wire::Refusal value) {
  return wire::to_string(value);
}
const char* to_word(Direction value) {
  return value == Direction::read ? "read" : value == Direction::write ? "write" : "unknown";
}
const char* to_word(ReceiveKind value) {
  switch (value) {
    case ReceiveKind::empty:
      return "empty";
    case ReceiveKind::message:
      return "message";
    case ReceiveKind::info:
      return "info";
  }
  return "unknown";
}
const char* to_word(UnfencedReplay value) {
  switch (value) {
    case UnfencedReplay::wait:
      return "wait";
    case UnfencedReplay::replay:
      return "replay";
  }
  return "unknown";
}

const char* to_word(MachineKind value) {
  return to_string(value);
}
const char* to_word(rnbd::DeviceState value) {
  return rnbd::to_string(value);
}
const char* to_word(rnbd::MessageKind value) {
  switch (value) {
    case rnbd::MessageKind::sess_info:
      return "sess_info";
    case rnbd::MessageKind::open:
      return "open";
    case rnbd::MessageKind::close:
      return "close";
  }
  return "unknown";
}
const char* to_word(rnbd::Disposition value) {
  switch (value) {
    case rnbd::Disposition::ok:
      return "ok";
    case rnbd::Disposition::retry_after_remap:
      return "retry_after_remap";
    case rnbd::Disposition::fail:
      return "fail";
    case rnbd::Disposition::lost:
      return "lost";
  }
  return "unknown";
}
const char* to_word(wire::rnbd::Opcode value) {
  return wire::rnbd::to_string(value);
}
const char* to_word(wire::rnbd::AccessMode value) {
  return wire::rnbd::to_string(value);
}
const char* to_word(WireOp value) {
  return to_string(value);
}
const char* to_word(WireCmKind value) {
  return to_string(value);
}

template <class E>
constexpr const char* kEnumName = nullptr;
template <>
constexpr const char* kEnumName<MachineKind> = "MachineKind";
template <>
constexpr const char* kEnumName<WireOp> = "WireOp";
template <>
constexpr const char* kEnumName<WireCmKind> = "WireCmKind";
template <>
constexpr const char* kEnumName<Errc> = "Errc";
template <>
constexpr const char* kEnumName<Reason> = "Reason";
template <>
constexpr const char* kEnumName<PathState> = "PathState";
template <>
constexpr const char* kEnumName<MultipathPolicy> = "MultipathPolicy";
template <>
constexpr const char* kEnumName<wire::Refusal> = "Refusal";
template <>
constexpr const char* kEnumName<Direction> = "Direction";
template <>
constexpr const char* kEnumName<ReceiveKind> = "ReceiveKind";
template <>
constexpr const char* kEnumName<UnfencedReplay> = "UnfencedReplay";
template <>
constexpr const char* kEnumName<rnbd::DeviceState> = "DeviceState";
template <>
constexpr const char* kEnumName<rnbd::MessageKind> = "MessageKind";
template <>
constexpr const char* kEnumName<rnbd::Disposition> = "Disposition";
template <>
constexpr const char* kEnumName<wire::rnbd::AccessMode> = "AccessMode";
template <>
constexpr const char* kEnumName<wire::rnbd::Opcode> = "Opcode";

class Builder {
 public:
  template <class T>
  void add_event() {
    EventInfo event;
    event.id = KindOf<T>::id;
    event.category = KindOf<T>::category;
    event.name = std::string(KindOf<T>::name);
    const T value{};
    add_fields(event, value, "");
    schema.events.push_back(std::move(event));
  }
  Schema schema;

 private:
  template <class T>
  void add_fields(EventInfo& event, const T& value, const std::string& prefix) {
    T::visit_fields(value, [&](const char* name, const auto& field) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if (prefix.empty() && std::strcmp(name, "now") == 0) return;
      if constexpr (Reflected<Field>) {
        this->add_fields(event, field, prefix + name + ".");
      } else {
        event.fields.push_back(this->template field_info<Field>(prefix + name));
      }
    });
  }

  template <class Field>
  FieldInfo field_info(std::string name) {
    FieldInfo info;
    info.name = std::move(name);
    if constexpr (std::is_same_v<Field, wire::Uuid>) {
      info.type = FieldType::uuid;
    } else if constexpr (std::is_same_v<Field, wire::Bytes>) {
      info.type = FieldType::bytes;
    } else if constexpr (IsInlineBlob<Field>) {
      info.type = Field::kIsText ? FieldType::text : FieldType::bytes;
    } else {
      info.width = sizeof(Field);
      if constexpr (std::is_same_v<Field, bool>) {
        info.type = FieldType::boolean;
      } else if constexpr (std::is_same_v<Field, wire::Extensions>) {
        info.type = FieldType::unsigned_number;  // a bit set, not an enumeration
      } else if constexpr (std::is_enum_v<Field>) {
        info.type = FieldType::enumeration;
        info.enumeration = enumeration<Field>();
      } else {
        static_assert(std::is_integral_v<Field>);
        info.type = std::is_signed_v<Field> ? FieldType::signed_number : FieldType::unsigned_number;
      }
    }
    return info;
  }

  // Enumerations are dense from 0, so the first value without a word ends the list.
  template <class E>
  std::uint16_t enumeration() {
    static_assert(kEnumName<E> != nullptr && std::is_same_v<std::underlying_type_t<E>, std::uint8_t>);
    for (std::size_t i = 0; i < schema.enums.size(); ++i) {
      if (schema.enums[i].name == kEnumName<E>) return static_cast<std::uint16_t>(i);
    }
    EnumInfo info;
    info.name = kEnumName<E>;
    for (unsigned i = 0; i < 256; ++i) {
      const char* word = to_word(static_cast<E>(i));
      if (std::strcmp(word, "unknown") == 0) break;
      info.words.push_back({i, word});
    }
    schema.enums.push_back(std::move(info));
    return static_cast<std::uint16_t>(schema.enums.size() - 1);
  }
};

}  // namespace

std::string_view EnumInfo::word_of(std::uint64_t value) const noexcept {
  if (value < words.size() && words[value].value == value) return words[value].word;
  for (const EnumWord& entry : words) {
    if (entry.value == value) return entry.word;
  }
  return {};
}

bool EnumInfo::value_of(std::string_view word, std::uint64_t& value) const noexcept {
  for (const EnumWord& entry : words) {
    if (entry.word == word) {
      value = entry.value;
      return true;
    }
  }
  return false;
}

const EventInfo* Schema::find(KindId id) const noexcept {
  const auto at = std::lower_bound(events.begin(), events.end(), id,
                                   [](const EventInfo& event, KindId wanted) { return event.id < wanted; });
  return at != events.end() && at->id == id ? &*at : nullptr;
}

const EventInfo* Schema::find(std::string_view name) const noexcept {
  for (const EventInfo& event : events) {
    if (event.name == name) return &event;
  }
  return nullptr;
}

const Schema& builtin_schema() {
  static const Schema schema = [] {
    Builder builder;
#define RTRS_TRACE_ADD(number, event_class, type) builder.add_event<type>();
    RTRS_TRACE_EVENTS(RTRS_TRACE_ADD)
    RTRS_TRACE_LONG(RTRS_TRACE_ADD)
#undef RTRS_TRACE_ADD
    std::sort(builder.schema.events.begin(), builder.schema.events.end(),
              [](const EventInfo& a, const EventInfo& b) { return a.id < b.id; });
    return std::move(builder.schema);
  }();
  return schema;
}

}  // namespace rtrs::trace
