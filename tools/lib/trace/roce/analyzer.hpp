// Reconstructs RTRS traffic from packets: connections from CM messages, messages from sequence numbers.
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tools/lib/trace/roce/cm.hpp"
#include "tools/lib/trace/roce/stream.hpp"
#include "tools/lib/trace/roce/wire_event.hpp"

namespace rtrs::roce {

struct ConnectionInfo {
  Address client;
  Address server;
  std::uint64_t service = 0;
  std::uint32_t client_qpn = 0;
  std::uint32_t server_qpn = 0;  // 0 until the reply
  std::uint32_t path_mtu = 0;    // in bytes
};

struct AnalyzerCounters {
  std::uint64_t packets = 0;
  std::uint64_t bad_icrc = 0;          // packets with a wrong ICRC, which the analyzer uses nevertheless
  std::uint64_t retransmitted = 0;     // number of retransmitted data packets
  std::uint64_t cm_retransmitted = 0;  // number of retransmitted CM messages
  std::uint64_t rnr_naks = 0;
  std::uint64_t sequence_naks = 0;
  std::uint64_t fatal_naks = 0;
  std::uint64_t gaps = 0;
  std::uint64_t lost_packets = 0;
  std::uint64_t unacknowledged =
      0;  // dropped messages and CM replies to a client whose acknowledgement is not in the capture
  std::uint64_t acknowledgements = 0;  // number of ACKs and NAKs
  // Messages to a client that are assumed to be received, because the capture has no acknowledgements.
  std::uint64_t unproven = 0;
  std::uint64_t strangers = 0;  // packets of queue pairs whose connection request is not in the capture
};

class Analyzer {
 public:
  using Sink = std::function<void(const WireEvent&)>;
  explicit Analyzer(Sink sink) : sink_(std::move(sink)) {}

  // Processes the next packet. `time` is in ns; if it is earlier than the previous packet's time, that time
  // is used instead.
  void packet(std::uint64_t time, Packet&& packet);
  // Reports all pending events. Call once, after the last packet.
  void finish();

  [[nodiscard]] const AnalyzerCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const ConnectionInfo& connection(ConnectionNumber number) const {
    return connections_[number]->info;
  }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

 private:
  // Time in ns after which a message to a client without an acknowledgement no longer delays the events of
  // other connections.
  static constexpr std::uint64_t kPatience = 120'000'000'000;
  // Maximum number of such messages of one connection.
  static constexpr std::size_t kMostSetAside = 4096;

  struct Pending {
    WireEvent event;
    Stream::Psn last = 0;
    bool waits = false;  // the message waits for its acknowledgement; a reply waits until the client is ready
    bool late = false;   // the message was sent after the end of the connection
  };
  struct Connection {
    ConnectionInfo info;
    std::uint64_t transaction = 0;
    std::uint32_t request_psn = 0;
    std::uint32_t client_id = 0;
    std::uint32_t server_id = 0;
    bool replied = false;
    bool ready = false;  // the client has received the reply
    bool closed = false;
    bool doubted = false;  // a gap event was reported, because it is unknown what the client received
    std::unique_ptr<Stream> to_server;
    std::unique_ptr<Stream> to_client;
    std::deque<Pending> unreceived;  // messages that waited longer than kPatience
  };
  struct QueuePair {
    Address address;
    std::uint32_t qpn = 0;
    auto operator<=>(const QueuePair&) const = default;
  };
  struct End {
    ConnectionNumber connection = 0;
    // True for the server's queue pair, false for the client's.
    bool at_server = false;
  };

  [[nodiscard]] static bool arrived(const Pending& pending, const Connection& connection);
  void report(WireEvent& event);
  void set_aside(Connection& connection, Pending&& pending);
  void report_late(Connection& connection);
  void doubt(const Pending& pending, Connection& connection);
  void cm(const Packet& packet, CmMessage&& message);
  void cm_request(const Packet& packet, CmMessage&& message);
  void cm_reply(const Packet& packet, CmMessage&& message);
  void cm_reject(const Packet& packet, CmMessage&& message);
  void cm_ready(const Packet& packet, const CmMessage& message);
  void cm_disconnect(const Packet& packet, const CmMessage& message);
  void transport(Packet&& packet);
  void acknowledge(Connection& connection, bool at_server, const Packet& packet);
  std::unique_ptr<Stream> stream(ConnectionNumber number, bool to_server, std::uint32_t psn);
  void add(WireEvent&& event, Stream::Psn last = 0, bool waits = false);
  void release(bool all);

  Sink sink_;
  AnalyzerCounters counters_;
  std::uint64_t now_ = 0;
  std::uint64_t reported_ = 0;  // time of the last reported event
  std::vector<std::unique_ptr<Connection>> connections_;
  // Connections by the CM id of the client (stored in QueuePair::qpn).
  std::map<QueuePair, ConnectionNumber> by_client_id_;
  std::map<QueuePair, End> ends_;
  std::deque<Pending> pending_;
};

}  // namespace rtrs::roce
