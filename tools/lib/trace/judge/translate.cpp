#include "tools/lib/trace/judge/translate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "core/proto/ids.hpp"

namespace rtrs::trace {

namespace {

using spec::Event;

void set_key_path(Event& event, std::uint64_t number, std::string_view) {
  ConKey key;
  key.set_number(static_cast<std::uint32_t>(number));
  event.key.path = key.path;
}
void set_uuid(Event& event, std::uint64_t, std::string_view bytes) {
  std::memcpy(event.uuid.data(), bytes.data(), std::min(bytes.size(), event.uuid.size()));
}
void set_serial(Event& event, std::uint64_t number, std::string_view) {
  event.serial = static_cast<std::uint32_t>(number);
  event.serial16 = static_cast<std::uint16_t>(number);
}
void set_reads(Event& event, std::uint64_t number, std::string_view) {
  event.reads = number == 0;
}
void set_bytes(Event& event, std::uint64_t, std::string_view bytes) {
  event.bytes = bytes;
}

struct Words {
  std::string_view enumeration;
  // Words by their value in the specification; an unknown word becomes 0.
  std::span<const std::string_view> words;
};
constexpr std::string_view kStates[] = {"",         "absent",  "connecting", "connected",
                                        "draining", "waiting", "closing",    "closed"};
constexpr std::string_view kReasons[] = {"", "heartbeat_lost", "other_path_leads", "connection_silent",
                                         "challenged"};
constexpr std::string_view kResults[] = {
    "", "ok", "peer_error", "no_path", "session_closed", "too_large", "request_timeout"};
constexpr std::string_view kReceives[] = {"empty", "message", "info"};
constexpr std::string_view kOps[] = {"write", "write_imm", "send", "send_imm", "send_inv"};
constexpr std::string_view kCms[] = {"req", "rep", "rej", "dreq", "closed"};
constexpr std::string_view kDirections[] = {"read", "write"};
constexpr std::string_view kReplays[] = {"wait", "replay"};
constexpr std::string_view kPolicies[] = {"", "round-robin", "min-inflight", "min-latency"};
constexpr Words kWords[] = {{"PathState", kStates},
                            {"Reason", kReasons},
                            {"Errc", kResults},
                            {"ReceiveKind", kReceives},
                            {"WireOp", kOps},
                            {"WireCmKind", kCms},
                            {"Direction", kDirections},
                            {"UnfencedReplay", kReplays},
                            {"MultipathPolicy", kPolicies}};

std::optional<spec::Kind> kind_named(std::string_view name) {
  for (unsigned number = 0; number < spec::kKinds; ++number) {
    const auto kind = static_cast<spec::Kind>(number);
    if (spec::name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

struct Translator::Named {
  std::string_view name;
  Target target;

  template <class Member>
  static constexpr Named number(std::string_view name, std::size_t offset) {
    return {name, {form_of<Member>(), static_cast<std::uint16_t>(offset), nullptr}};
  }
  static constexpr Named special(std::string_view name, Setter set) {
    return {name, {Target::Form::by_function, 0, set}};
  }

 private:
  template <class Member>
  static constexpr Target::Form form_of() {
    if constexpr (std::is_same_v<Member, bool>) return Target::Form::flag;
    switch (sizeof(Member)) {
      case 1:
        return Target::Form::bits8;
      case 2:
        return Target::Form::bits16;
      case 4:
        return Target::Form::bits32;
      default:
        return Target::Form::bits64;
    }
  }
};

#define RTRS_FIELD(name, member) \
  Named::number<std::remove_cvref_t<decltype(std::declval<Event&>().member)>>(name, offsetof(Event, member))

constexpr Translator::Named Translator::kFields[] = {
    Named::special("key.path", set_key_path),
    RTRS_FIELD("key.con", key.con),
    RTRS_FIELD("key.epoch", key.epoch),
    RTRS_FIELD("path", path),
    RTRS_FIELD("from", from),
    RTRS_FIELD("to", to),
    RTRS_FIELD("permit", permit),
    RTRS_FIELD("chunk", chunk),
    RTRS_FIELD("buf_id", chunk),
    Named::special("serial", set_serial),
    RTRS_FIELD("count", count),
    RTRS_FIELD("cid_num", cid_num),
    RTRS_FIELD("recon_cnt", recon_cnt),
    RTRS_FIELD("peer_errno", error),
    RTRS_FIELD("refusal_errno", error),
    RTRS_FIELD("queue_depth", queue_depth),
    RTRS_FIELD("session", session),
    RTRS_FIELD("affinity", affinity),
    RTRS_FIELD("policy", policy),
    RTRS_FIELD("generation", generation),
    RTRS_FIELD("extensions", extensions),
    RTRS_FIELD("imm", imm),
    RTRS_FIELD("rkey", rkey),
    RTRS_FIELD("flags", flags),
    RTRS_FIELD("request", request),
    RTRS_FIELD("data_len", data_len),
    RTRS_FIELD("usr_len", usr_len),
    RTRS_FIELD("max_io_size", max_io_size),
    RTRS_FIELD("max_hdr_size", max_hdr_size),
    RTRS_FIELD("address_pair", address_pair),
    RTRS_FIELD("cookie", cookie),
    RTRS_FIELD("digest_low", digest_low),
    RTRS_FIELD("digest_high", digest_high),
    Named::special("sess_uuid", set_uuid),
    Named::special("paths_uuid", set_uuid),
    RTRS_FIELD("first_conn", first_conn),
    RTRS_FIELD("identity.low", identity[0]),
    RTRS_FIELD("identity.high", identity[1]),
    RTRS_FIELD("create", create),
    RTRS_FIELD("service", service),
    RTRS_FIELD("offers_invalidation", offers_invalidation),
    Named::special("direction", set_reads),
    RTRS_FIELD("need_invalidate", need_invalidate),
    RTRS_FIELD("has_descriptor", has_descriptor),
    RTRS_FIELD("write_data", write_data),
    RTRS_FIELD("send_invalidate", send_invalidate),
    RTRS_FIELD("fresh_key", fresh_key),
    RTRS_FIELD("data_with_answer", data_with_answer),
    RTRS_FIELD("parked", parked),
    RTRS_FIELD("fenced", fenced),
    RTRS_FIELD("up", up),
    RTRS_FIELD("ok", ok),
    RTRS_FIELD("state", state),
    RTRS_FIELD("reason", reason),
    RTRS_FIELD("result", result),
    RTRS_FIELD("op", op),
    RTRS_FIELD("has_imm", has_imm),
    RTRS_FIELD("sent", sent),
    RTRS_FIELD("remote_addr", remote_addr),
    RTRS_FIELD("length", length),
    RTRS_FIELD("digest", digest),
    Named::special("head", set_bytes),
    Named::special("private_data", set_bytes),
    RTRS_FIELD("config.con_num", settings.con_num),
    RTRS_FIELD("config.max_depth", settings.depth),
    RTRS_FIELD("config.queue_depth", settings.depth),
    RTRS_FIELD("config.send_depth", settings.send_depth),
    RTRS_FIELD("config.extensions", settings.extensions),
    RTRS_FIELD("config.imm_consumes_receive", settings.imm_consumes_receive),
    RTRS_FIELD("config.always_invalidate", settings.always_invalidate),
    RTRS_FIELD("config.send_invalidate", settings.send_invalidate),
    RTRS_FIELD("config.probe_deliveries", settings.probe_deliveries),
    RTRS_FIELD("config.kernel_peer", settings.kernel_peer_replays),
    RTRS_FIELD("config.fence_failed", settings.fence_failed_replays),
    RTRS_FIELD("config.policy", settings.policy),
    RTRS_FIELD("config.queue_timeout", settings.queue_timeout),
    RTRS_FIELD("config.request_timeout", settings.request_timeout),
    RTRS_FIELD("config.fence_timeout", settings.fence_timeout),
    RTRS_FIELD("config.handshake_timeout", settings.handshake_timeout),
    RTRS_FIELD("config.heartbeat.interval", settings.heartbeat_interval),
    RTRS_FIELD("config.heartbeat.missed_max", settings.heartbeat_missed_max),
};
// Two kinds of events have a field named `kind`, with different meanings.
constexpr Translator::Named Translator::kReceive = RTRS_FIELD("kind", receive);
constexpr Translator::Named Translator::kCm = RTRS_FIELD("kind", cm);
#undef RTRS_FIELD

Translator::Field Translator::field_of(const trace::FieldInfo& info, const trace::Schema& schema) {
  Field field;
  for (const Named& named : kFields)
    if (named.name == info.name) field.target = named.target;
  if (info.type != trace::FieldType::enumeration) return field;
  const trace::EnumInfo& enumeration = schema.enums[info.enumeration];
  if (info.name == "kind") field.target = enumeration.name == "WireCmKind" ? kCm.target : kReceive.target;
  for (const Words& words : kWords) {
    if (words.enumeration != enumeration.name) continue;
    for (const trace::EnumWord& word : enumeration.words) {
      const auto found = std::find(words.words.begin(), words.words.end(), word.word);
      if (word.value > 0xff || found == words.words.end()) continue;
      if (field.words.size() <= word.value) field.words.resize(word.value + 1, 0);
      field.words[word.value] = static_cast<std::uint64_t>(found - words.words.begin());
    }
  }
  return field;
}

Translator::Translator(const trace::Schema& schema) : devices_(schema) {
  for (const trace::EventInfo& info : schema.events) {
    if (entries_.size() <= info.id) entries_.resize(std::size_t{info.id} + 1);
    Entry& entry = entries_[info.id];
    entry.kind = kind_named(info.name);
    if (!entry.kind) continue;
    for (std::size_t at = 0; at < info.fields.size(); ++at) {
      Field field = field_of(info.fields[at], schema);
      field.at = at;
      if (field.target.form != Target::Form::none) entry.fields.push_back(std::move(field));
    }
  }
}

void Translator::store(const Target& target, std::uint64_t number, std::string_view bytes) noexcept {
  auto* const place = reinterpret_cast<std::byte*>(&event_) + target.offset;
  const auto put = [place, &number]<class Number>(Number) {
    const auto narrow = static_cast<Number>(number);
    std::memcpy(place, &narrow, sizeof narrow);
  };
  switch (target.form) {
    case Target::Form::none:
      return;
    case Target::Form::flag:
      number = number != 0 ? 1 : 0;
      return put(std::uint8_t{});
    case Target::Form::bits8:
      return put(std::uint8_t{});
    case Target::Form::bits16:
      return put(std::uint16_t{});
    case Target::Form::bits32:
      return put(std::uint32_t{});
    case Target::Form::bits64:
      return put(std::uint64_t{});
    case Target::Form::by_function:
      return target.set(event_, number, bytes);
  }
}

const spec::Event* Translator::translate(const trace::Record& record) {
  const Entry& entry = entries_[record.event->id];
  if (!entry.kind) return nullptr;
  event_ = spec::Event{};
  event_.kind = *entry.kind;
  event_.now = record.time;
  event_.seq = record.seq;
  for (const Field& field : entry.fields) {
    if (field.at >= record.values.size()) break;
    const trace::Value& value = record.values[field.at];
    std::uint64_t number = value.number;
    if (!field.words.empty()) number = number < field.words.size() ? field.words[number] : 0;
    store(field.target, number, value.bytes);
  }
  return &event_;
}

}  // namespace rtrs::trace
