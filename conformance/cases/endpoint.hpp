// The connections of the tester, which send any bytes that a case chooses. An Endpoint answers heartbeats and
// replaces used receives; everything else that arrives waits in the inbox of its connection.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "conformance/cases/bench.hpp"
#include "core/driver/wire_tap.hpp"
#include "core/fabric/fabric.hpp"
#include "core/wire/bytes.hpp"

namespace rtrs::conformance {

using Message = std::vector<std::byte>;

struct Arrival {
  enum class Kind : std::uint8_t { immediate, message, invalidation } kind = Kind::immediate;
  bool has_imm = false;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  Message bytes;
  Nanos at = 0;
};

struct Con {
  enum class State : std::uint8_t { connecting, up, refused, lost };
  ConKey key{};
  State state = State::connecting;
  Reason reason = Reason::none;  // why the connection was refused or lost
  bool closed = false;           // the fabric has released the connection
  bool mute = false;             // heartbeats are not answered
  Message answer;                // private data of the accept or reject
  Nanos lost_at = 0;
  unsigned heartbeats = 0;             // HB_MSGs from the peer
  unsigned heartbeat_acks = 0;         // HB_ACKs from the peer
  std::uint32_t receive_bytes = 64;    // size of receives that replace used ones
  std::optional<Nanos> last_received;  // time of the last arrival of any kind
  std::deque<Arrival> inbox;
  // The connect request, kept to answer a challenge.
  PathAddress to;
  Message asked;
  bool answers_challenge = false;

  bool up() const noexcept { return state == State::up; }
  bool over() const noexcept { return state == State::refused || state == State::lost; }
};

struct Incoming {  // connect request that is not accepted or rejected yet
  std::uint32_t request = 0;
  Message bytes;
  Nanos at = 0;
};

class Endpoint {
 public:
  static constexpr unsigned kReceives = 128;  // per established connection, in addition to the one for INFO
  // Size of the memory from which sources and destinations of writes are taken in turn.
  static constexpr std::size_t kMemory = std::size_t{16} << 20;

  Endpoint(Fabric&, Bench&);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  // False if the work memory could not be allocated.
  bool usable() const noexcept { return memory_.id != kNoRegion; }

  Fabric& fabric() noexcept { return fabric_; }
  Nanos now() { return bench_.now(); }
  // Records the wire traffic from now on; null stops recording.
  void record(Recorder* recorder) { tap_ = WireTap(recorder); }

  // For host names: the maximum number of addresses that a name resolved to, and the index of the one to use.
  std::uint16_t addresses() const noexcept { return addresses_; }
  void use_address(std::uint16_t index) noexcept { address_ = index; }

  Con& connect(std::uint16_t path, std::uint16_t cid, const PathAddress&, wire::Bytes private_data);
  Con& accept(const Incoming&, std::uint16_t path, std::uint16_t cid, wire::Bytes private_data);
  void reject(const Incoming&, wire::Bytes private_data);
  void post_receives(Con&, unsigned count, std::uint32_t bytes_each);
  void disconnect(Con&);
  // mark() returns a position in the sequence of connections. forget_since() disconnects every connection
  // made since `mark` and waits until the fabric has released them. Returns false if that takes longer than
  // `limit`.
  std::uint32_t mark() const noexcept { return epoch_; }
  bool forget_since(std::uint32_t mark, Nanos limit);

  void send(Con&, wire::Bytes message);
  void send_imm(Con&, std::uint32_t imm, wire::Bytes message);
  void send_inv(Con&, std::uint32_t rkey);
  // Posts an RDMA write of `payload` with an immediate. The last `head` bytes of the payload are the headers
  // that the peer parses.
  void write_imm(Con&, std::uint32_t imm, wire::Bytes payload = {}, std::size_t head = 0,
                 std::uint64_t remote_addr = 0, std::uint32_t rkey = 0);
  // Posts an RDMA write without an immediate.
  void write(Con&, wire::Bytes payload, std::uint64_t remote_addr, std::uint32_t rkey);
  // write_work() prepares a request; post() posts several prepared requests together, so that they reach the
  // peer at once.
  WorkRequest write_work(Con&, std::uint32_t imm, wire::Bytes payload, std::size_t head,
                         std::uint64_t remote_addr, std::uint32_t rkey);
  void post(std::span<const WorkRequest>);

  // Returns `bytes` bytes of memory for the peer to write to, valid until kMemory more bytes were requested.
  struct Landing {
    std::span<std::byte> bytes;
    std::uint64_t addr = 0;
    std::uint32_t key = 0;
  };
  Landing landing(const Con&, std::size_t bytes);

  // Polls until `done` returns true; returns false on timeout.
  bool wait(const std::function<bool()>& done, Nanos limit);
  // Handles pending events without waiting.
  void pump();

  std::deque<Incoming>& incoming() noexcept { return incoming_; }
  // Called for each arrival before it goes to the inbox. Returns true if it has been handled.
  std::function<bool(Con&, const Arrival&)> on_arrival;

 private:
  struct Piece {
    std::span<std::byte> bytes;
    std::uint32_t offset = 0;
  };
  ConnectionParams params() const noexcept;
  Piece cut(std::size_t bytes);
  Con& add(std::uint16_t path, std::uint16_t cid);
  void handle(const FabricEvent&);
  void take_request(const event::ConnectRequested&);
  void answer_challenge(std::uint32_t epoch);
  void ended(Con&, Con::State, Reason);
  void arrived(Con&, Arrival);
  bool is_heartbeat(Con&, const Arrival&);

  Fabric& fabric_;
  Bench& bench_;
  WireTap tap_{nullptr};
  Region memory_;
  RemoteKey remote_key_;
  std::size_t cut_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint16_t addresses_ = 1;
  std::uint16_t address_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Con>> cons_;  // keyed by epoch
  std::deque<Incoming> incoming_;
};

}  // namespace rtrs::conformance
