// Finds the records of a trace at which a path or a session changed its fate, under names that `query` takes
// and `export` prints.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::replay_tool {

enum class Moment : std::uint8_t {
  path_connected,    // a path is connected
  path_lost,         // a path that was connected is not connected any more, and nobody requested that
  heartbeat_missed,  // a path is given up because its peer was silent
  failover,          // a request of a lost path was sent again over another path
  session_down,      // no path of a session is connected any more
};
inline constexpr std::string_view kMomentNames[] = {"path_connected", "path_lost", "heartbeat_missed",
                                                    "failover", "session_down"};
std::optional<Moment> moment_named(std::string_view name);
constexpr std::string_view name_of(Moment moment) noexcept {
  return kMomentNames[static_cast<std::size_t>(moment)];
}

// Returns the event whose records can be this moment.
std::string_view event_of(Moment moment) noexcept;

class Moments {
 public:
  explicit Moments(const trace::Schema& schema) : schema_(schema) {}
  // Must be called for every record in order.
  std::optional<Moment> of(const trace::Record& record);

 private:
  std::optional<Moment> path_changed(const trace::Record& record);

  const trace::Schema& schema_;
  std::set<std::pair<InstanceId, std::uint16_t>> connected_;
};

// Identifies what a record is about: parts that it does not name are absent.
struct Place {
  enum Part : std::uint8_t { path, permit, device, operation, parts };
  InstanceId instance = 0;
  std::uint8_t has = 0;  // bits of the parts
  std::uint64_t value[parts] = {};
  bool operator==(const Place&) const = default;
  // Returns the place without the parts that are not in `mask`.
  Place only(std::uint8_t mask) const noexcept;
};
// `path` is the index in the session, of a failover the path that was lost. `permit` is also a chunk,
// `device` also the id that a server gave.
Place place_of(const trace::Record& record, const trace::Schema& schema);
// Returns the bits of the parts that records of this event name.
std::uint8_t parts_of(const trace::EventInfo& event);

}  // namespace rtrs::replay_tool
