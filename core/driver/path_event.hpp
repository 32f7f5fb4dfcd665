// Path events that the drivers report.
#pragma once
#include <cstdint>
#include <string>

#include "core/driver/traffic.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

struct PathEvent {
  enum class Kind : std::uint8_t {
    path,
    link_up,
    link_down,
    session_ended,
    refused,  // server: a connect request was refused by its session, or belongs to no session
  };
  Kind kind = Kind::path;
  Nanos at = 0;
  std::uint16_t session = 0;     // server: session index
  std::string session_name{};    // server: empty before the first INFO_REQ and for kind refused
  PathChanged path{};            // the path and its new state, for kind path
  Reason reason = Reason::none;  // why, for kinds session_ended and refused
  std::uint16_t refusal = 0;     // kind refused: Linux errno sent to the client
  // Server, kind path: Fabric::describe() of its first connection. Kind refused: Fabric::describe_request().
  std::string peer{};
  std::string identity{};  // server: the client's identity, Fabric::identity_of_request()
  // Kind refused: Fabric::refusal_of_request(). Kind path: describes the session that holds refused_name.
  std::string refusal_words{};
  std::string refused_name{};  // server, kind path: session name for which an INFO_REQ was refused
};

struct PathStatus {
  PathState state = PathState::absent;
  bool ever_connected = false;
  Reason reason = Reason::none;  // why the path was last lost or refused; none once it reconnected
  std::uint16_t peer_errno = 0;
  Reason last_cause = Reason::none;  // for attempts_exhausted: reason of the last failed attempt; else none
  std::uint32_t attempt = 0;         // attempts since the path was last connected
  std::uint64_t reconnects = 0;      // reconnects after the first connection
  std::uint64_t failed_attempts = 0;
  std::uint64_t ios = 0;        // requests completed over this path
  std::uint64_t failovers = 0;  // requests that this path took over from other paths
  std::uint32_t inflight = 0;
  Nanos heartbeat_latency = 0;  // round-trip time of the last heartbeat; 0: none measured
  Nanos silent_since = kNever;  // connected: send time of a heartbeat after which nothing was received
  Nanos since = 0;              // time at which the state was entered
  Nanos lost_at = kNever;       // time at which the path was last lost; kNever: not yet
  // State waiting: time of the next attempt; kNever: it starts when another path has connected. 0 in other
  // states.
  Nanos retry_at = 0;
  bool held_back = false;  // state waiting: another path must create the session first
  Traffic traffic;
};

// Group of a path's statistics, as reset_statistics() clears them. Linux has a file for each group (protocol
// section 8).
enum class PathStatistics : std::uint8_t {
  traffic,     // Traffic, failovers and AnswerTimes
  reconnects,  // reconnects and failed_attempts
  all,
};

}  // namespace rtrs
