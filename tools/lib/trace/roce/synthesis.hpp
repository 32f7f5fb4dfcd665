// From wire notes to the frames that a network with RoCEv2 would have carried. Addresses, queue pairs and
// sequence numbers are made up (they are the same every time); private data, messages, addresses of memory
// and keys are those of the notes. User data that a trace has only as a digest is that digest repeated.
//
// With both ends of a connection everything is as it was: a message that never arrived is never
// acknowledged. With one end, what the other did is what it must have done: the client's trace has no data of
// reads, so they are written as the request asks; a message counts as acknowledged when the other side has
// answered it (client) or spoken again on the path (server).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/lib/trace/roce/chunk_table.hpp"
#include "tools/lib/trace/roce/cm.hpp"
#include "tools/lib/trace/roce/message.hpp"
#include "tools/lib/trace/roce/recordings.hpp"

namespace rtrs::roce {

struct SynthesisOptions {
  std::uint32_t path_mtu = 1024;  // bytes of payload a packet; a value of mtu_bytes()
  std::uint16_t port = 1234;      // of the RTRS server
  bool exact = false;             // invalidations without payload, as real ones; see invalidation_filler()
};

struct SynthesisCounters {
  std::uint64_t frames = 0;
  std::uint64_t messages = 0;
  std::uint64_t connections = 0;
  std::uint64_t without_setup = 0;    // connections that began before their trace
  std::uint64_t made_up_reads = 0;    // data of reads that no trace has
  std::uint64_t unplaced_writes = 0;  // requests that a server's trace has without the chunks' addresses
};

class Synthesis {
 public:
  using Out = std::function<void(Nanos time, Bytes frame)>;
  Synthesis(const Recordings& recordings, const SynthesisOptions& options, Out out);
  // All of it, once.
  void run();
  [[nodiscard]] const SynthesisCounters& counters() const noexcept { return counters_; }

 private:
  // One direction of a connection.
  struct Lane {
    struct End {
      std::uint64_t serial = 0;
      std::uint32_t psn = 0;  // of its last packet
      bool noticed = false;   // the receiver's trace has it
    };
    std::uint32_t next_psn = 0;
    std::uint64_t posted = 0;        // messages; the serial of the last one
    std::uint64_t acknowledged = 0;  // messages
    std::deque<End> ends;            // of messages that are not acknowledged yet
  };
  struct Link {
    bool known = false;
    bool setup = false;  // its connect request is there
    bool replied = false;
    bool ready = false;   // the client has had the reply
    bool closed = false;  // rejected or disconnected
    bool ends = false;    // the story tells of that, sooner or later
    Address client;
    Address server;
    std::uint32_t client_qpn = 0;
    std::uint32_t server_qpn = 0;
    std::uint64_t transaction = 0;
    std::uint16_t port = 0;
    std::string attempt;  // key into attempts_
    // Client alone: serials of messages to the server by what they wait for.
    std::map<std::uint32_t, std::uint64_t> awaiting;
    std::vector<Message> held;  // invalidations that wait for their response
    Lane to_server;
    Lane to_client;
  };
  // What the connections of one attempt of a path share.
  struct Attempt {
    ChunkTable chunks;
    std::map<std::uint32_t, wire::Descriptor> reads;  // in flight, by chunk
    std::vector<std::uint32_t> connections;
  };

  // synthesis.cpp: who says what
  void place(Link& link, const Half& half);
  void tell(const StoredNote& note);
  void cm(Link& link, const Half& half, const StoredNote& note);
  void connected(Link& link, const Half& half, const StoredNote& note, bool alone);
  void disconnect(Link& link, bool from_client);
  void said(Link& link, const Half& half, const StoredNote& note);

  // synthesis_alone.cpp: what the end without a trace must have done
  void learn(Link& link, bool to_server, const StoredNote& note);
  void client_alone(Link& link, const StoredNote& note);
  void server_alone(Link& link, const StoredNote& note);
  void answered(Link& link, std::uint32_t awaited);
  void client_was_there(const Link& link);
  void put_in_place(const Link& link, const StoredNote& note, Message& message);
  void respond(Link& link, const StoredNote& note);

  // synthesis_packets.cpp
  [[nodiscard]] static Message message_of(const StoredNote& note);
  void post(Link& link, bool to_server, const Message& message, bool noticed);
  void acknowledge(Link& link, bool to_server, std::uint64_t until);
  void acknowledge_next(Link& link, bool to_server);
  void acknowledge_all(Link& link, bool to_server) { acknowledge(link, to_server, ~std::uint64_t{0}); }
  void send_cm(const Link& link, bool from_client, CmMessage message);
  [[nodiscard]] Packet packet_of(const Link& link, bool to_server) const;
  void emit(const Packet& packet);

  const Recordings& recordings_;
  SynthesisOptions options_;
  Out out_;
  SynthesisCounters counters_;
  Nanos now_ = 0;
  Nanos last_frame_ = 0;
  std::uint32_t cm_psn_ = 0;
  std::vector<Link> links_;  // by connection
  std::map<std::string, std::uint32_t> session_numbers_;
  std::map<std::string, std::uint32_t> path_numbers_;
  std::map<std::string, Attempt> attempts_;
};

}  // namespace rtrs::roce
