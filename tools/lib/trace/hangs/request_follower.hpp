// Follows the requests of one trace from their arrival to their end. Keeps only the requests that are open,
// the last request of each chunk, and the open connections, so that memory does not grow with the trace.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "conformance/spec/device_event.hpp"
#include "conformance/spec/event.hpp"
#include "tools/lib/trace/hangs/stages.hpp"

namespace rtrs::trace {

// A record of the trace.
struct Moment {
  std::uint64_t record = 0;
  std::uint64_t time = 0;  // in ns, clock of the trace
  std::string_view event;  // name; static
};

enum class Phase : std::uint8_t {
  queued,     // client: not sent, or its path was lost
  sent,       // client: passed to the fabric
  arrived,    // server: not passed on
  delivered,  // server: the upper layer has it
  asked,      // server: storage was asked
  finished,   // server: storage has finished
  responded,  // server: the session has been told so
  answered,   // server: the response was passed to the fabric
};

struct OpenRequest {
  Moment begun, last;
  Phase phase = Phase::queued;
  bool reads = false;
  bool service = false;
  bool path_gone = false;    // server: its path was lost
  std::uint16_t number = 0;  // permit or chunk
  std::uint16_t serial = 0;
  std::uint32_t bytes = 0;
  spec::Key key;            // of the connection, once sent
  std::uint64_t place = 0;  // number of the request on its connection, from 1; 0: unknown
  std::string message;      // RNBD message; empty: not in the trace
  StageTimes stages;        // up to `entered`
  Stage stage = Stage::queue;
  std::uint64_t entered = 0;  // when `stage` began

  void enter(Stage next, std::uint64_t now) noexcept {
    stages[stage] += now - std::min(entered, now);
    stage = next;
    entered = now;
  }
};

struct KnownConnection {
  std::optional<spec::Uuid> path_uuid;
  std::uint16_t recon_cnt = 0;
  bool from_start = false;     // its beginning is in the trace, so `requests` counts all
  std::uint64_t requests = 0;  // number of requests that were sent or arrived
  Moment last;                 // last arrival
};

// State of a session at the end of the trace.
struct FollowedSession {
  bool client = false;
  bool has_devices = false;
  std::uint32_t depth = 0;  // 0: unknown
  std::map<spec::Key, KnownConnection> connections;
  std::map<std::uint16_t, bool> connected;                          // by path
  std::unordered_map<std::uint16_t, OpenRequest> requests, parked;  // by permit or chunk
  Moment heard;                                                     // last arrival from the other side
  std::map<std::uint32_t, std::string> devices;                     // names, by device id
};

class RequestFollower {
 public:
  // `counts_only`: the trace has no actions (a dump of the ring). `taken`: Origin::taken.
  explicit RequestFollower(bool counts_only, std::uint64_t taken = 0)
      : counts_only_(counts_only), taken_(taken) {}
  // `instance`: of the machine in the trace.
  void on(unsigned instance, const spec::Event&);
  void on(unsigned instance, const spec::DeviceEvent&);
  const std::map<unsigned, FollowedSession>& sessions() const noexcept { return sessions_; }
  // Stages of the request that the last event completed, or that the upper layer of the server answered with
  // it.
  const std::optional<StageTimes>& ended() const noexcept { return ended_; }
  // End of the trace: the last record, or the later time at which a ring was dumped.
  std::uint64_t last_time() const noexcept { return std::max(last_time_, taken_); }
  // False if the trace does not tell which requests of the session were answered: a dump without its depth.
  bool knows_answers(const FollowedSession& session) const noexcept {
    return !counts_only_ || !session.client || session.depth != 0;
  }

 private:
  FollowedSession* session_of(unsigned instance, const spec::Event&);
  void connection(FollowedSession&, const spec::Event&);
  void client(FollowedSession&, const spec::Event&);
  void server(FollowedSession&, const spec::Event&);
  void answered(FollowedSession&, const spec::Event&) const;
  void arrived(FollowedSession&, const spec::Event&);
  void lost(FollowedSession&, std::uint16_t path, const Moment&);
  void on_server_devices(FollowedSession&, unsigned instance, const spec::DeviceEvent&);
  void on_client_devices(FollowedSession&, const spec::DeviceEvent&);
  OpenRequest* request_of(FollowedSession&, std::uint64_t request);

  bool counts_only_;
  std::uint64_t taken_ = 0;
  std::uint64_t last_time_ = 0;
  std::optional<StageTimes> ended_;
  std::map<unsigned, FollowedSession> sessions_;  // by instance
  std::set<unsigned> registries_;                 // instances that have begun
  // Requests by (instance of the devices, operation of storage).
  std::map<std::pair<unsigned, std::uint16_t>, std::uint64_t> operations_;
  // Names of devices that are being opened, by (instance, request or token).
  std::map<std::pair<unsigned, std::uint64_t>, std::string> opening_;
};

}  // namespace rtrs::trace
