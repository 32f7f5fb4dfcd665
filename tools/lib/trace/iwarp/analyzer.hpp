// Reconstructs RTRS traffic of the fabric tcp from TCP segments: connections from MPA requests and replies,
// messages from the bytes behind them.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/iwarp/greeting.hpp"
#include "tools/lib/trace/iwarp/message_reader.hpp"
#include "tools/lib/trace/roce/wire_event.hpp"

namespace rtrs::iwarp_capture {

struct AnalyzerCounters {
  std::uint64_t segments = 0;       // segments of iWARP connections, and those counted below
  std::uint64_t retransmitted = 0;  // segments with payload that contain nothing new
  std::uint64_t gaps = 0;
  std::uint64_t lost_bytes = 0;      // bytes that the capture lacks
  std::uint64_t undecoded = 0;       // bytes after a gap or fault that were not decoded
  std::uint64_t unacknowledged = 0;  // dropped messages to clients that did not acknowledge them
  std::uint64_t strangers = 0;  // segments from or to the RTRS port whose connection has no readable setup
  std::uint64_t sealed = 0;     // segments from or to the RTRS port that are encrypted by TLS
  std::uint64_t faults = 0;     // directions with an invalid iWARP message
  iwarp::Fault first_fault = iwarp::Fault::none;
};

class Analyzer {
 public:
  using Sink = std::function<void(const roce::WireEvent&)>;
  // `port`: of RTRS servers. Connections to other ports are recognised by their MPA request.
  Analyzer(std::uint16_t port, Sink sink) : port_(port), sink_(std::move(sink)) {}

  // Processes the next segment. Returns false if it belongs to no iWARP connection. `time` is in ns; if it is
  // earlier than the previous segment's time, that time is used instead.
  bool segment(std::uint64_t time, Segment&& segment);
  // Reports all pending events. Call once, after the last segment.
  void finish();

  [[nodiscard]] const AnalyzerCounters& counters() const noexcept { return counters_; }

 private:
  // Time in ns after which a message to a client without an acknowledgement no longer delays the events of
  // other connections. Longer than the delay of TCP acknowledgements.
  static constexpr std::uint64_t kPatience = 1'000'000'000;
  // Maximum number of connections to remember besides the open ones. A late segment of a forgotten one counts
  // as that of a stranger.
  static constexpr std::size_t kMostRemembered = std::size_t{1} << 15;
  // Maximum payload in bytes of pending messages.
  static constexpr std::size_t kMaxPending = std::size_t{64} << 20;

  // Segments of a connection that may follow a segment in the capture although they were sent before it.
  static constexpr unsigned kMostDisorder = 16;

  enum class Stage : std::uint8_t {
    request,  // the request is incomplete
    reply,    // the reply is incomplete
    open,
    ended,
    sealed,   // TLS
    unknown,  // on the RTRS port, but without a readable setup
  };
  struct Direction {
    std::unique_ptr<Reassembly> bytes;
    std::unique_ptr<iwarp::GreetingReader> greeting;
    std::unique_ptr<MessageReader> messages;
    Position hole_end = 0;  // a gap was reported for missing bytes before this position
  };
  struct Held {
    Segment segment;
    unsigned passed = 0;  // segments that came after it
  };
  struct Connection;
  using ConnectionRef = std::shared_ptr<Connection>;
  struct Pending {
    ConnectionRef connection;
    roce::WireEvent event;
    Position end = 0;
    bool waits = false;  // the message waits for the acknowledgement of all bytes before `end`
  };
  struct Connection {
    roce::ConnectionNumber number = 0;  // valid from Stage::reply on
    Endpoint client;
    Endpoint server;
    std::uint32_t first = 0;  // sequence number of the client's first byte
    Stage stage = Stage::request;
    Direction to_server;
    Direction to_client;
    iwarp::Wishes wishes;                  // of the request
    bool closed = false;                   // a closed event was reported
    std::deque<Held> held;                 // segments that acknowledge bytes which the capture contains later
    std::optional<std::uint32_t> sent[2];  // sequence number after the last byte: [0] of the server
    Position received = 0;                 // all bytes to the client before this position have arrived
    std::list<Pending> unreceived;         // messages that waited longer than kPatience
    std::size_t unreceived_bytes = 0;
  };
  using Ends = std::pair<Endpoint, Endpoint>;  // the smaller one first

  [[nodiscard]] ConnectionRef find(const Segment& segment);
  [[nodiscard]] ConnectionRef begin(const Segment& segment, bool from_client);
  void put_in_order(const ConnectionRef& connection, Segment&& segment);
  void take_held(const ConnectionRef& connection);
  void forget_oldest();
  void take(const ConnectionRef& connection, Segment&& segment);
  void read(const ConnectionRef& connection, bool to_server);
  static void report_holes(Direction& direction);
  [[nodiscard]] bool step(const ConnectionRef& connection, bool to_server);
  void greet(const ConnectionRef& connection, Direction& direction, Bytes bytes, bool to_server);
  void requested(const ConnectionRef& connection, const iwarp::Greeting& request);
  void replied(const ConnectionRef& connection, const iwarp::Greeting& reply);
  [[nodiscard]] std::unique_ptr<MessageReader> reader(const ConnectionRef& connection, bool to_server,
                                                      const iwarp::Wishes& agreed);
  void unreadable(const ConnectionRef& connection, bool sealed);
  void closed(const ConnectionRef& connection, bool to_server);
  void end(const ConnectionRef& connection);
  void end_direction(Direction& direction);
  void acknowledged(Connection& connection);
  void add(const ConnectionRef& connection, roce::WireEvent&& event, Position end = 0, bool waits = false);
  void report(roce::WireEvent& event);
  void set_aside(Pending&& pending);
  void release(bool all);

  std::uint16_t port_;
  Sink sink_;
  AnalyzerCounters counters_;
  std::uint64_t now_ = 0;
  std::uint64_t reported_ = 0;  // time of the last reported event
  roce::ConnectionNumber connections_ = 0;
  std::map<Ends, ConnectionRef> by_ends_;
  std::deque<Ends> begun_;  // in the order of their beginning; some are not in by_ends_ any more
  std::deque<Pending> pending_;
  std::size_t pending_bytes_ = 0;
};

}  // namespace rtrs::iwarp_capture
