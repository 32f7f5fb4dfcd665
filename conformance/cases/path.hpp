// A client's path to the server under test: connects, sends requests and checks the form of every response. A
// case can corrupt any message.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/endpoint.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::conformance {

struct Identity {
  wire::Uuid session{};
  wire::Uuid path{};
  std::string name;
};

// One request. Fields that are not set get the values that a correct client would send.
struct Ask {
  Direction direction = Direction::read;
  std::uint16_t cid = 0;
  std::uint16_t chunk = 0;
  Message user;            // user header
  Message data;            // data of a write
  std::uint32_t room = 0;  // for a read: number of requested bytes
  bool need_inval = false;
  bool descriptor = true;  // a read with `room` has a descriptor
  // Values that override fields of the RTRS header and of the immediate.
  std::optional<std::uint16_t> type, usr_len, flags, sg_cnt;
  std::optional<std::uint32_t> desc_len, desc_key, off, chunk_key;
  std::optional<std::uint64_t> desc_addr;
};

struct Answer {
  int error = 0;             // 0 or a positive errno
  bool invalidated = false;  // the immediate's type says that the key was invalidated
  std::uint16_t cid = 0;
  Message data;      // for a read: bytes that the peer wrote
  Message overflow;  // bytes that the peer wrote behind the buffer
};

class Path {
 public:
  static constexpr std::size_t kGuard = 256;  // bytes behind a read buffer that the peer must not write

  Path(Endpoint&, const Deadlines&, PathAddress to, Identity, std::uint16_t con_num, std::uint16_t index);
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // --- handshake ---
  wire::ConnReq request(std::uint16_t cid) const;
  static Message encoded(const wire::ConnReq&);
  // Requests one connection and waits until it is accepted or refused.
  Con& try_connect(std::uint16_t cid, wire::Bytes private_data);
  Con& try_connect(std::uint16_t cid) { return try_connect(cid, encoded(request(cid))); }
  // Like try_connect(), but fails unless accepted.
  Con& connect(std::uint16_t cid);
  void connect_all();
  Message info_request() const;
  // exchange_info() sends INFO_REQ, and parses and stores the response. send_info() sends any message instead
  // of INFO_REQ.
  void exchange_info();
  void send_info(wire::Bytes message);
  // Waits for the response. Returns false if the server closed the path.
  bool await_info();
  void open() {
    connect_all();
    exchange_info();
  }
  // Repeats open() until it succeeds or `limit` has passed, because the server may still have an older path.
  void open_within(Nanos limit);

  // --- requests ---
  void send(const Ask&);
  // Posts all requests together.
  void send_all(const std::vector<Ask>&);
  std::optional<Answer> await_answer(std::uint16_t chunk, Nanos limit);
  // Fails unless the request is answered.
  Answer ask(const Ask&);
  enum class Fate : std::uint8_t { answered, cut_off, neither };
  // Waits for the outcome of the last request on the chunk.
  Fate fate(std::uint16_t chunk, Answer* answer = nullptr);
  // Number of responses without an outstanding request.
  unsigned surplus_answers() const noexcept { return surplus_; }
  unsigned invalidations() const noexcept { return invalidations_; }

  // --- disconnect ---
  // Fails unless the server closes every connection in time.
  void expect_cut_off(const char* because);
  bool cut_off_within(Nanos limit);
  bool whole() const noexcept;  // every connection is established
  void disconnect();

  // The connection must exist.
  Con& con(std::uint16_t cid) const;
  std::uint16_t con_num() const noexcept { return con_num_; }
  Identity& identity() noexcept { return identity_; }
  const wire::ConnRsp& limits() const noexcept { return limits_; }
  std::uint32_t chunk_size() const noexcept { return static_cast<std::uint32_t>(limits_.chunk_size()); }
  std::uint16_t depth() const noexcept { return limits_.queue_depth; }
  bool fresh_keys() const noexcept { return (limits_.flags & wire::kConnRspNewRkey) != 0; }
  // True if both ends agreed that the response of a READ carries its data and keeps the chunk's key.
  bool joins_data() const noexcept {
    return has(offered_ & wire::granted_extensions(limits_.flags), wire::Extensions::data_with_answer);
  }
  const Message& info() const noexcept { return info_; }
  wire::Descriptor& chunk(std::uint16_t index) { return chunks_.at(index); }
  void set_recon_cnt(std::uint16_t count) noexcept { recon_cnt_ = count; }
  void set_first(bool first) noexcept { first_ = first; }
  void offer(wire::Extensions extensions) noexcept { offered_ = extensions; }
  Endpoint& endpoint() noexcept { return endpoint_; }
  const Deadlines& deadlines() const noexcept { return deadlines_; }

 private:
  struct Outstanding {
    bool waits = false;
    bool read = false;
    Endpoint::Landing landing;
    std::uint32_t room = 0;
    std::uint32_t key = 0;  // offered for invalidation
    std::optional<Answer> answer;
  };
  struct Prepared {
    Message payload;
    std::size_t head = 0;
    std::uint32_t imm = 0;
    std::uint64_t addr = 0;
    std::uint32_t key = 0;
  };
  Prepared prepare(const Ask&);
  WorkRequest work(const Ask&);
  void judge_accept(const Con&);
  void take_arrivals();
  void take(Con&, const Arrival&);
  void store_key(const Arrival&, std::uint32_t msg_id);
  void complete(Con&, const wire::IoRspImm&);

  Endpoint& endpoint_;
  const Deadlines& deadlines_;
  PathAddress to_;
  Identity identity_;
  std::uint16_t con_num_;
  std::uint16_t index_;
  std::uint16_t recon_cnt_ = 1;
  bool first_ = true;
  wire::Extensions offered_ = wire::Extensions::none;
  std::vector<Con*> cons_;
  wire::ConnRsp limits_;
  Message info_;
  std::vector<wire::Descriptor> chunks_;
  std::vector<Outstanding> asked_;
  unsigned surplus_ = 0;
  unsigned invalidations_ = 0;
};

}  // namespace rtrs::conformance
