// What one or more traces tell, as a sequence diagram needs it: steps in the order of cause and effect, the
// messages that join them, the requests they belong to, and the states of the paths. Built once, then only
// read.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto/ids.hpp"

namespace rtrs::tools::sequence {

using Index = std::int32_t;
inline constexpr Index kNone = -1;

enum class Side : std::uint8_t { client, server };

// What a step is about; pages and terminals filter by it.
enum class Group : std::uint8_t { io, connect, heartbeat, fence, state, local, wire, control };
inline constexpr unsigned kGroups = 8;
const char* to_string(Group) noexcept;

// Where a step begins and ends.
enum class Shape : std::uint8_t {
  point,     // on the machine's own lane
  send,      // machine to connection
  receive,   // connection to machine
  submit,    // application to client
  complete,  // client to application
  deliver,   // server to storage
  answer,    // storage to server
};
const char* to_string(Shape) noexcept;

enum class Tone : std::uint8_t { normal, good, warning, bad };
const char* to_string(Tone) noexcept;

struct TraceFile {
  std::string name;  // as given
  std::string tool, role, backend;
  std::vector<std::string> options;
  std::uint64_t seed = 0;
  std::uint64_t records = 0;
  bool beginning_missing = false;
  std::string stopped;  // why reading ended before the trace did; empty when it did not
  bool has_client = false, has_server = false;
  std::int64_t clock = 0;  // ns to add to its times to get common ones
};

// A machine of one file from its begin to its end; one that begins again is another.
struct Machine {
  Index file = kNone;
  std::uint16_t instance = 0;
  Side side = Side::client;
  bool registry = false;
  std::uint16_t session = 0;  // server: index, which the path of its keys begins with
  std::uint32_t depth = 0;    // chunks or permits, 0: not known yet
  bool generations = false;   // negotiated
  std::uint16_t start = 0;    // of this instance, from 0
};

// One incarnation of a connection as one side saw it.
struct Connection {
  Index machine = kNone;
  ConKey key;
  std::uint16_t attempt = 0;  // reconnect counter of its connect request
  std::string path_uuid;      // server: of the connect request; client: where a note tells it
  Index peer = kNone;         // the other side's view of it
  Index lane = kNone;
  Index path = kNone;                 // in Story::paths
  std::vector<Index> sent, received;  // steps, in order
};

struct Step {
  Index file = kNone;
  std::uint64_t record = 0;  // number of the record in its file
  Nanos time = 0;            // as recorded
  std::int64_t at = 0;       // common time, 0 is the first step
  Index machine = kNone;
  Shape shape = Shape::point;
  Group group = Group::local;
  Tone tone = Tone::normal;
  bool lost = false;        // sent, and the peer's trace shows that it never arrived
  bool may_vanish = false;  // nobody waits for it: not lost when it does not arrive
  Index connection = kNone;
  Index path = kNone;  // in Story::paths
  Index io = kNone;
  Index peer = kNone;           // the other end of the message
  std::uint64_t signature = 0;  // equal at both ends of a message, 0: none
  std::string event;            // name of the record
  std::string title;            // in a few words
  std::string fields;           // name=value, a line each
  std::string mark;             // what is wrong here, from outside
};

// A request from its submission to its end, as far as the traces reach.
struct Request {
  Index first = kNone, last = kNone;  // steps; last is kNone while it is open at the end
  Index machine = kNone;
  bool write = false;
  bool failed_over = false;
  bool failed = false;
  std::uint32_t bytes = 0;
  std::uint16_t permit = 0;  // or chunk, where only the server was recorded
};

// A path of a client. Where only the server was recorded, of one of its sessions.
struct Path {
  Index owner = kNone;  // in Story::clients
  std::uint16_t number = 0;
  std::string uuid;
};
struct PathSpan {
  Index path = kNone;
  Side side = Side::client;
  std::string state;
  std::string reason;
  Index from = kNone, to = kNone;  // steps; `to` is kNone: until the end
};
// A request in the hands of storage.
struct StorageSpan {
  Index io = kNone;
  Index from = kNone, to = kNone;
};

struct ClientView {
  Index file = kNone;  // kNone: not recorded, known by its server
  std::uint16_t instance = 0;
  std::string name;
};

struct Lane {
  enum class Kind : std::uint8_t { client, connection, server, storage } kind = Kind::client;
  std::string name;
  Index owner = kNone;  // client; of server and storage the file
  Index path = kNone;
  std::uint16_t con = 0;
  bool recorded = true;  // by a trace that was given
};

struct Mark {
  Index step = kNone;
  std::string text;
};

struct Story {
  std::vector<TraceFile> files;
  std::vector<Machine> machines;
  std::vector<Connection> connections;
  std::vector<ClientView> clients;
  std::vector<Path> paths;
  std::vector<Lane> lanes;
  std::vector<Step> steps;
  std::vector<Request> requests;
  std::vector<PathSpan> path_spans;
  std::vector<StorageSpan> storage_spans;
  std::vector<Mark> marks;
  std::uint64_t left_out_before = 0, left_out_after = 0;  // steps cut away by a window
  bool same_clock = true;  // of all files, as far as the messages between them tell

  Index lane_of(const Step& step) const noexcept;  // of its machine
  bool has(Side side) const noexcept;
};

}  // namespace rtrs::tools::sequence
