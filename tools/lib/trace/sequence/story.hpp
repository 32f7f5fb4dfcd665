// Data model of a sequence diagram, built from one or more traces: steps in causal order, messages between
// steps, requests, and path states. Not changed after it is built.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/trace/hangs/pauses.hpp"
#include "tools/lib/trace/reader/time_base.hpp"

namespace rtrs::tools::sequence {

using trace::Pause;
using Index = std::int32_t;
inline constexpr Index kNone = -1;

enum class Side : std::uint8_t { client, server };

// Topic of a step, used as a filter.
enum class Group : std::uint8_t { io, connect, heartbeat, fence, state, local, wire, control };
inline constexpr unsigned kGroups = 8;
const char* to_string(Group) noexcept;

// Event of the step for a pause of the process, which is inserted before the record that ended it.
inline constexpr std::string_view kPauseEvent = "pause";

// Where the line of a step starts and ends.
enum class Shape : std::uint8_t {
  point,     // at the machine's own lane
  send,      // from the machine to a connection
  receive,   // from a connection to the machine
  submit,    // from the application to the client
  complete,  // from the client to the application
  deliver,   // from the server to storage
  answer,    // from storage to the server
};
const char* to_string(Shape) noexcept;

enum class Tone : std::uint8_t { normal, good, warning, bad };
const char* to_string(Tone) noexcept;

struct TraceFile {
  std::string name;  // file name as given
  std::string tool, role, backend;
  std::vector<std::string> options;
  std::uint64_t seed = 0;
  std::uint64_t records = 0;
  bool beginning_missing = false;
  std::string stopped;  // reason why reading stopped early; empty: the file was read to its end
  bool has_client = false, has_server = false;
  std::int64_t clock = 0;     // ns to add to the times of this file to get common times
  Nanos first = 0;            // time of the first record, as recorded
  trace::TimeBase times;      // shows recorded times of this file with the common origin
  std::vector<Pause> pauses;  // times in which the process did not run
};

// A state machine in one file, from its begin record to its end record. An instance that begins again becomes
// another Machine.
struct Machine {
  Index file = kNone;
  std::uint16_t instance = 0;
  Side side = Side::client;
  bool registry = false;
  std::uint16_t session = 0;  // server only: session index, which is a part of the path in the keys
  std::uint32_t depth = 0;    // number of chunks or permits; 0: not known yet
  bool generations = false;   // generations were negotiated
  std::uint16_t start = 0;    // counts the starts of this instance, from 0
  bool begun = false;         // the state is known: the machine began in the trace, or a snapshot told it
  // Requests in flight at the snapshot in record `resumed_at`.
  struct Carried {
    std::uint16_t number = 0;  // permit or chunk
    std::uint8_t generation = 0;
    bool write = false;
    std::uint32_t bytes = 0;
    std::uint16_t serial = 0;  // server only
    Index connection = kNone;  // server only
  };
  std::vector<Carried> carried;
  std::uint64_t resumed_at = kNever;  // kNever: none
};

// One incarnation of a connection, as recorded by one side.
struct Connection {
  Index machine = kNone;
  ConKey key;
  std::uint16_t attempt = 0;  // reconnect counter in the connect request
  std::string path_uuid;      // server: from the connect request; client: from a wire note, if any
  Index peer = kNone;         // the Connection of the other side
  Index lane = kNone;
  Index path = kNone;  // index in Story::paths
  // Sent messages that are lost if no step received them. Only a trace of the other side can show this.
  enum class Lost : std::uint8_t { none, connect_request, all } lost = Lost::none;
  // Steps of this connection, in recorded order; empty unless the story holds all steps.
  std::vector<Index> sent, received;
};

struct Step {
  Index file = kNone;
  std::uint64_t record = 0;  // number of the record in its file
  Nanos time = 0;            // time as recorded, in ns
  std::int64_t at = 0;       // common time in ns; 0 is the start of the earliest run
  // Common time of the cause: of the peer of a receive, of the first step of a request that completes.
  std::int64_t since = 0;
  Index machine = kNone;
  Shape shape = Shape::point;
  Group group = Group::local;
  Tone tone = Tone::normal;
  bool lost = false;        // the peer's trace shows that the sent message never arrived
  bool may_vanish = false;  // the step is not marked as lost if its receive is missing
  Index connection = kNone;
  Index path = kNone;  // index in Story::paths
  Index io = kNone;
  Index device = kNone;         // index in Story::devices
  Index peer = kNone;           // step at the other end of the message
  std::uint64_t signature = 0;  // equal at both ends of a message; 0: none
  std::string event;            // name of the recorded event
  std::string title;            // text of the step in the diagram
  std::string fields;           // lines of name=value
  std::string mark;             // violation at this step, reported by the caller
};

// A request from its submission to its end, if the traces contain both.
struct Request {
  Index first = kNone, last = kNone;       // steps; `last` is kNone if the request has no end in the traces
  std::int64_t first_at = 0, last_at = 0;  // common times of these steps
  Index machine = kNone;
  bool write = false;
  bool failed_over = false;
  bool failed = false;
  std::uint32_t bytes = 0;
  std::uint16_t permit = 0;  // permit; chunk if only the server was recorded
  Index device = kNone;      // index in Story::devices; kNone: the traces do not tell
};

// A path of a client. If only the server was recorded, each server session is shown as a client.
struct Path {
  Index owner = kNone;  // index in Story::clients
  std::uint16_t number = 0;
  std::string uuid;
};
struct PathSpan {
  Index path = kNone;
  Side side = Side::client;
  std::string state;
  std::string reason;
  Index from = kNone, to = kNone;  // steps; `to` is kNone if the span lasts until the end
};
// Time span in which storage executes a request.
struct StorageSpan {
  Index io = kNone;
  Index from = kNone, to = kNone;
};

struct ClientView {
  Index file = kNone;  // kNone: the client was not recorded and is known only from the server's trace
  std::uint16_t instance = 0;
  std::string name;
};

struct Lane {
  enum class Kind : std::uint8_t { client, connection, server, storage } kind = Kind::client;
  std::string name;
  Index owner = kNone;  // index of the client; in server and storage lanes, of the file
  Index path = kNone;
  std::uint16_t con = 0;
  bool recorded = true;  // the machine of the lane was recorded
};

struct Mark {
  Index step = kNone;
  std::string text;
};

// The steps of a story by their numbers, which are their places in causal order. Holds all steps, or only the
// steps that an output needs. Access to a step that is not held is an error of the caller.
class Steps {
 public:
  std::size_t size() const noexcept { return size_; }  // with the steps that are not held
  bool empty() const noexcept { return size_ == 0; }
  Step& operator[](std::size_t number) noexcept { return held_[place(number)]; }
  const Step& operator[](std::size_t number) const noexcept { return held_[place(number)]; }
  bool holds(std::size_t number) const noexcept {
    const std::size_t at = place(number);
    return at < numbers_.size() && static_cast<std::size_t>(numbers_[at]) == number;
  }

  // The steps that are held.
  std::size_t held() const noexcept { return held_.size(); }
  std::size_t number_at(std::size_t place) const noexcept {
    return static_cast<std::size_t>(numbers_[place]);
  }
  auto begin() const noexcept { return held_.begin(); }
  auto end() const noexcept { return held_.end(); }
  auto begin() noexcept { return held_.begin(); }
  auto end() noexcept { return held_.end(); }
  const Step& front() const noexcept { return held_.front(); }
  const Step& back() const noexcept { return held_.back(); }

  // Both take the next number.
  void hold(Step step) {
    numbers_.push_back(static_cast<Index>(size_++));
    held_.push_back(std::move(step));
  }
  void skip() noexcept { ++size_; }

 private:
  std::size_t place(std::size_t number) const noexcept {
    if (held_.size() == size_) return number;
    const auto found = std::lower_bound(numbers_.begin(), numbers_.end(), static_cast<Index>(number));
    return static_cast<std::size_t>(found - numbers_.begin());
  }

  std::vector<Step> held_;
  std::vector<Index> numbers_;  // of the steps in held_
  std::size_t size_ = 0;
};

// Steps [from, to).
struct Range {
  std::size_t from = 0, to = 0;
};

struct Story {
  std::vector<TraceFile> files;
  std::vector<Machine> machines;
  std::vector<Connection> connections;
  std::vector<ClientView> clients;
  std::vector<Path> paths;
  std::vector<Lane> lanes;
  Steps steps;
  std::vector<Request> requests;
  std::vector<PathSpan> path_spans;
  std::vector<StorageSpan> storage_spans;
  std::vector<Mark> marks;
  std::vector<std::string> devices;  // names of block devices
  unsigned groups = 0;               // groups that have steps (bit number = Group)
  bool same_clock = true;            // the messages between the files show no clock offset
  std::int64_t length = 0;           // common time of the last step

  Index lane_of(const Step& step) const noexcept;  // returns the lane of the step's machine
  bool has(Side side) const noexcept;
  // Returns the file whose times stand for the common times: the first one that knows the wall time.
  const TraceFile& clock_file() const noexcept;
};

}  // namespace rtrs::tools::sequence
