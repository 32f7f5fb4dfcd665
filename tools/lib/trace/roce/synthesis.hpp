// Generates from wire notes the frames that a RoCEv2 network would have carried. Network addresses, queue
// pairs and sequence numbers are invented, but equal in each run. Private data, messages, memory addresses
// and keys come from the notes. If a trace has user data only as a digest, the digest is repeated in place of
// the data.
//
// If both ends of a connection were recorded, the frames match the recording: a message that never arrived is
// never acknowledged. If only one end was recorded, the behaviour of the other end is inferred. A client's
// trace does not contain the data of reads, so data of the requested length is generated. With a client's
// trace, a message counts as acknowledged when the server has responded to it. With a server's trace, it
// counts as acknowledged when the client has sent again on the path.
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
  std::uint32_t path_mtu = 1024;  // bytes of payload per packet; a value of mtu_bytes()
  std::uint16_t port = 1234;      // port of the RTRS server
  bool exact = false;             // do not add a payload to invalidations; see kInvalidationFiller
};

struct SynthesisCounters {
  std::uint64_t frames = 0;
  std::uint64_t messages = 0;
  std::uint64_t connections = 0;
  std::uint64_t without_setup = 0;    // connections whose setup is not in the trace
  std::uint64_t generated_reads = 0;  // reads whose data was generated, because no trace has it
  std::uint64_t unplaced_writes = 0;  // requests in a server's trace whose chunk address is unknown
  std::uint64_t unread_requests = 0;  // left out: the server did not read them, so it recorded no content
};

class Synthesis {
 public:
  using Out = std::function<void(Nanos time, Bytes frame)>;
  Synthesis(const Recordings& recordings, const SynthesisOptions& options, Out out);
  // Generates all frames. Call once.
  void run();
  [[nodiscard]] const SynthesisCounters& counters() const noexcept { return counters_; }

 private:
  // One direction of a connection.
  struct Lane {
    struct End {
      std::uint64_t serial = 0;
      std::uint32_t psn = 0;  // number of the last packet of the message
      // The receiver notices the message and would record it; false for writes without immediate.
      bool noticed = false;
    };
    std::uint32_t next_psn = 0;
    std::uint64_t posted = 0;        // number of messages, and serial of the last one
    std::uint64_t acknowledged = 0;  // number of acknowledged messages
    std::deque<End> ends;            // unacknowledged messages
    std::uint64_t arrivals = 0;      // later notes of the receiver about messages of this direction
  };
  struct Link {
    bool known = false;
    bool setup = false;  // the trace contains the connect request
    bool replied = false;
    bool ready = false;   // the client has received the reply
    bool closed = false;  // the connection was rejected or disconnected
    bool ends = false;    // the recording contains the end of the connection
    Address client;
    Address server;
    std::uint32_t client_qpn = 0;
    std::uint32_t server_qpn = 0;
    std::uint64_t transaction = 0;
    std::uint16_t port = 0;
    std::string attempt;  // key of the attempt in attempts_
    // Used if only the client was recorded: for each awaited response, the serial of the message to the
    // server that waits for it.
    std::map<std::uint32_t, std::uint64_t> awaiting;
    std::vector<Message> held;  // invalidations that wait for the response that follows them
    Lane to_server;
    Lane to_client;
  };
  // Common state of the connections of one attempt of a path.
  struct Attempt {
    ChunkTable chunks;
    std::map<std::uint32_t, wire::Descriptor> reads;  // destinations of the reads in flight, by chunk
    std::vector<std::uint32_t> connections;
  };

  // Order of the messages (synthesis.cpp).
  void place(Link& link, const Half& half);
  void tell(const StoredNote& note);
  void cm(Link& link, const Half& half, const StoredNote& note);
  void connected(Link& link, const Half& half, const StoredNote& note, bool alone);
  void disconnect(Link& link, bool from_client);
  void post_held(Link& link);
  void acknowledge_arrivals(Link& link);
  void said(Link& link, const Half& half, const StoredNote& note);

  // Inferred behaviour of the end that was not recorded (synthesis_alone.cpp).
  void learn(Link& link, bool to_server, const StoredNote& note);
  void client_alone(Link& link, const StoredNote& note);
  void server_alone(Link& link, const StoredNote& note);
  void answered(Link& link, std::uint32_t awaited);
  void acknowledge_all_to_client(const Link& link);
  void set_request_address(const Link& link, const StoredNote& note, Message& message);
  void respond(Link& link, const StoredNote& note);

  // Packets of the messages (synthesis_packets.cpp).
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
  std::vector<Link> links_;  // indexed by connection number
  std::map<std::string, std::uint32_t> session_numbers_;
  std::map<std::string, std::uint32_t> path_numbers_;
  std::map<std::string, Attempt> attempts_;
};

}  // namespace rtrs::roce
