// The server that cases against a client work with: honest, with one memory disk, up to what a case spoils.
// The client comes by itself and comes back by itself; the tester only waits for it.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/endpoint.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::conformance {

struct ClientSetup {
  Deadlines deadlines;
  Nanos first_wait = seconds(120);  // for the client to come at all
};

// One attempt of the client to bring up a path.
struct Attempt {
  std::uint16_t number = 0;
  std::vector<Message> requests;           // CON_REQs as they came, in order
  std::vector<wire::ConnReq> parsed;       // likewise
  std::vector<Con*> cons;                  // by cid; null: not there yet
  std::optional<Message> info;             // INFO_REQ
  bool answered = false;                   // INFO_RSP is out
  bool joins_data = false;                 // granted: the answer of a READ carries its data
  unsigned joined = 0;                     // READs that were answered so
  unsigned io = 0;                         // requests that were answered
  std::vector<std::string> breaches;       // of rules that every request has to keep
  std::vector<std::string> user_messages;  // kinds of RNBD messages in order, as long as they are few
  std::vector<RemoteKeyId> remote_keys;    // of the chunks, where each has its own

  bool up() const noexcept;
  bool over() const noexcept;
};

struct ClientRequest {
  Attempt* attempt = nullptr;
  Con* con = nullptr;
  wire::IoRequest io;
  Message user;
};

class ClientTester {
 public:
  static constexpr std::uint16_t kDepth = 32;
  static constexpr std::uint32_t kChunk = 131072;

  ClientTester(Endpoint&, const ClientSetup&);
  ~ClientTester();
  ClientTester(const ClientTester&) = delete;
  ClientTester& operator=(const ClientTester&) = delete;
  bool usable() const noexcept { return chunks_.id != kNoRegion; }

  Endpoint& endpoint() noexcept { return endpoint_; }
  const Deadlines& deadlines() const noexcept { return setup_.deadlines; }
  Nanos now() { return endpoint_.now(); }
  // As Endpoint::wait(), serving the client meanwhile.
  bool wait(const std::function<bool()>& done, Nanos limit);

  // A path of the client that is up and whose heartbeat is answered. Fails when it does not come back.
  Attempt& healthy();
  Attempt& healthy_within(Nanos limit);
  // The path is closed from here; what comes next is spoiled.
  void drop(Attempt&);
  // The attempt has to be given up by the client within `limit`.
  void expect_given_up(const Attempt&, Nanos limit, const char* because);
  // The next attempt that begins, in whatever state.
  Attempt& next_attempt(std::size_t seen);
  std::size_t attempts() const noexcept { return attempts_.size(); }
  // Waits for a request that the case answers itself.
  ClientRequest take_request();
  void answer(const ClientRequest&, int error);
  // Answers with these immediates, all at once and nothing else.
  void answer_with(std::initializer_list<std::uint32_t> immediates, const ClientRequest&);
  // One HB_MSG there, one HB_ACK back; what was sent before has been dealt with by then.
  void expect_alive(Attempt&, const char* after);
  // Undoes what a case spoiled.
  void be_honest();

  // --- what a case may spoil ---
  std::function<void(std::uint16_t cid, Message&)> spoil_accept;
  std::function<int(std::uint16_t cid)> reject_with;  // negative: accept
  std::function<bool(Message&)> spoil_info;           // false: send nothing
  std::uint16_t runs = 1;                             // descriptors of INFO_RSP
  std::uint32_t flags = 0;                            // of the accept
  bool grants_data_with_answer = false;               // to a client that asks for it
  bool hold_requests = false;                         // take_request() gets them

 private:
  void serve();
  bool answers_heartbeat(Attempt&);
  void judge_alive(const Attempt&, bool answered, const char* after) const;
  void take_request(const Incoming&);
  void take_arrivals(Attempt&);
  void take_message(Attempt&, Con&, const Arrival&);
  void take_imm(Attempt&, Con&, std::uint32_t imm);
  void send_info(Attempt&);
  void judge_request(Attempt&, const wire::IoRequest&, std::uint16_t cid);
  int carry_out(const ClientRequest&, std::span<std::byte> room);
  int open(const ClientRequest&, std::span<std::byte> room);
  int io(const ClientRequest&, std::span<std::byte> room);
  Attempt& attempt_of(const wire::ConnReq&);
  std::span<std::byte> chunk(std::uint32_t index) const;

  Endpoint& endpoint_;
  ClientSetup setup_;
  Region chunks_;
  RemoteKey whole_;
  std::deque<Attempt> attempts_;
  std::vector<bool> busy_;  // chunks
  std::deque<ClientRequest> held_;
  std::vector<std::byte> disk_;
  bool trial_seen_ = false;  // a path was given up right after it came up; that is excused once in a run
};

}  // namespace rtrs::conformance
