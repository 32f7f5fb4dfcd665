#include "tools/urtrs-replay/moments.hpp"

#include <algorithm>

#include "core/proto/reasons.hpp"
#include "tools/lib/trace/sequence/fields.hpp"

namespace rtrs::replay_tool {

using tools::sequence::Fields;

std::optional<Moment> moment_named(std::string_view name) {
  const auto* const at = std::find(std::begin(kMomentNames), std::end(kMomentNames), name);
  if (at == std::end(kMomentNames)) return std::nullopt;
  return static_cast<Moment>(at - std::begin(kMomentNames));
}

std::optional<Moment> Moments::path_changed(const trace::Record& record) {
  const Fields fields(record, schema_);
  const std::pair place(record.instance, static_cast<std::uint16_t>(fields.number("path")));
  // Maximum number of places, because those in a trace are not trusted.
  constexpr std::size_t kMost = 65536;
  if (fields.word("state") == "connected" && connected_.size() < kMost)
    return connected_.insert(place).second ? std::optional(Moment::path_connected) : std::nullopt;
  if (connected_.erase(place) == 0) return std::nullopt;
  const ReasonText* const reason = text_of(fields.word("reason"));
  const bool wanted = reason != nullptr && reason->kind == ReasonKind::wanted;
  return wanted ? std::nullopt : std::optional(Moment::path_lost);
}

std::optional<Moment> Moments::of(const trace::Record& record) {
  const std::string_view name = record.event->name;
  if (name == "PathChanged") return path_changed(record);
  if (name == "FailedOver") return Moment::failover;
  const Fields fields(record, schema_);
  if (name == "LinkChanged" && !fields.flag("up")) return Moment::session_down;
  // Each connection of the path ends; the first one stands for the path.
  if (name == "Disconnect" && fields.number("key.con") == 0 && fields.word("reason") == "heartbeat_lost")
    return Moment::heartbeat_missed;
  if (name == "BeginClient" || name == "BeginServerSession") {
    const auto begin = connected_.lower_bound({record.instance, 0});
    connected_.erase(begin, connected_.upper_bound({record.instance, 0xffff}));
  }
  return std::nullopt;
}

std::string_view event_of(Moment moment) noexcept {
  switch (moment) {
    case Moment::path_connected:
    case Moment::path_lost:
      return "PathChanged";
    case Moment::heartbeat_missed:
      return "Disconnect";
    case Moment::failover:
      return "FailedOver";
    case Moment::session_down:
      return "LinkChanged";
  }
  return {};
}

namespace {
struct PartName {
  std::string_view field;
  Place::Part part;
};
constexpr PartName kParts[] = {
    {"key.path", Place::path}, {"path", Place::path},        {"from", Place::path},
    {"permit", Place::permit}, {"chunk", Place::permit},     {"buf_id", Place::permit},
    {"device", Place::device}, {"device_id", Place::device}, {"operation", Place::operation},
};
}  // namespace

Place Place::only(std::uint8_t mask) const noexcept {
  Place place;
  place.instance = instance;
  place.has = has & mask;
  for (unsigned part = 0; part < parts; ++part)
    if ((place.has >> part & 1U) != 0) place.value[part] = value[part];
  return place;
}

std::uint8_t parts_of(const trace::EventInfo& event) {
  unsigned bits = 0;
  for (const trace::FieldInfo& field : event.fields)
    for (const PartName& known : kParts)
      if (field.name == known.field) bits |= 1U << known.part;
  return static_cast<std::uint8_t>(bits);
}

Place place_of(const trace::Record& record, const trace::Schema& schema) {
  const Fields fields(record, schema);
  Place place;
  place.instance = record.instance;
  place.has = parts_of(*record.event);
  for (const PartName& known : kParts)
    if (fields.has(known.field)) place.value[known.part] = fields.number(known.field);
  if (fields.has("key.path")) place.value[Place::path] = fields.key().path;
  return place;
}

}  // namespace rtrs::replay_tool
