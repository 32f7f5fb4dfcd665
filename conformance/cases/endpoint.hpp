// The tester's end of the wire: connections that say whatever a case wants, bytes and all. Answers heartbeats
// and replaces used receives; everything else that arrives waits in the inbox of its connection.
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
  Reason reason = Reason::none;  // of refused and lost
  bool closed = false;           // the fabric has forgotten it
  bool mute = false;             // heartbeats are not answered
  Message answer;                // private data of the accept or reject
  Nanos lost_at = 0;
  unsigned heartbeats = 0;             // HB_MSGs of the peer
  unsigned heartbeat_acks = 0;         // HB_ACKs of the peer
  std::uint32_t receive_bytes = 64;    // of the receives that replace used ones
  std::optional<Nanos> last_received;  // anything
  std::deque<Arrival> inbox;
  // Of the connect request, to answer a challenge with.
  PathAddress to;
  Message asked;
  bool answers_challenge = false;

  bool up() const noexcept { return state == State::up; }
  bool over() const noexcept { return state == State::refused || state == State::lost; }
};

struct Incoming {  // a connect request, until it is accepted or rejected
  std::uint32_t request = 0;
  Message bytes;
  Nanos at = 0;
};

class Endpoint {
 public:
  static constexpr unsigned kReceives = 128;  // of an established connection, beside that of the INFO message
  // Bytes of work memory: sources and destinations of writes are cut from it in turn.
  static constexpr std::size_t kMemory = std::size_t{16} << 20;

  Endpoint(Fabric&, Bench&);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  // False: there is no memory to work with.
  bool usable() const noexcept { return memory_.id != kNoRegion; }

  Fabric& fabric() noexcept { return fabric_; }
  Nanos now() { return bench_.now(); }
  // Notes what goes over the wire from now on; null ends that.
  void record(Recorder* recorder) { tap_ = WireTap(recorder); }

  // Of targets that are host names: the most addresses that one was found to have, and which one is used.
  std::uint16_t addresses() const noexcept { return addresses_; }
  void use_address(std::uint16_t index) noexcept { address_ = index; }

  Con& connect(std::uint16_t path, std::uint16_t cid, const PathAddress&, wire::Bytes private_data);
  Con& accept(const Incoming&, std::uint16_t path, std::uint16_t cid, wire::Bytes private_data);
  void reject(const Incoming&, wire::Bytes private_data);
  void post_receives(Con&, unsigned count, std::uint32_t bytes_each);
  void disconnect(Con&);
  // Ends every connection that was made since `mark` and waits until the fabric has forgotten them. False
  // when it did not within `limit`.
  std::uint32_t mark() const noexcept { return epoch_; }
  bool forget_since(std::uint32_t mark, Nanos limit);

  void send(Con&, wire::Bytes message);
  void send_imm(Con&, std::uint32_t imm, wire::Bytes message);
  void send_inv(Con&, std::uint32_t rkey);
  // Writes `payload`, of which the last `head` bytes are what the peer parses, and raises the immediate.
  void write_imm(Con&, std::uint32_t imm, wire::Bytes payload = {}, std::size_t head = 0,
                 std::uint64_t remote_addr = 0, std::uint32_t rkey = 0);
  // Without an immediate.
  void write(Con&, wire::Bytes payload, std::uint64_t remote_addr, std::uint32_t rkey);
  // Several at once, so that the peer finds all of them; prepared by write_work().
  WorkRequest write_work(Con&, std::uint32_t imm, wire::Bytes payload, std::size_t head,
                         std::uint64_t remote_addr, std::uint32_t rkey);
  void post(std::span<const WorkRequest>);

  // Memory for the peer to write into, `bytes` long; valid until kMemory more were asked for.
  struct Landing {
    std::span<std::byte> bytes;
    std::uint64_t addr = 0;
    std::uint32_t key = 0;
  };
  Landing landing(const Con&, std::size_t bytes);

  // Polls until `done`; false when it did not come true in time.
  bool wait(const std::function<bool()>& done, Nanos limit);
  // Takes what there is, without waiting.
  void pump();

  std::deque<Incoming>& incoming() noexcept { return incoming_; }
  // Called for everything that arrives, before it is put into its inbox; true: it was dealt with.
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
  std::map<std::uint32_t, std::unique_ptr<Con>> cons_;  // by epoch
  std::deque<Incoming> incoming_;
};

}  // namespace rtrs::conformance
