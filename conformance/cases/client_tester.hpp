// The server that client cases use: correct, with one memory disk, except for what a case corrupts. The
// client connects and reconnects on its own; the tester waits for that.
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
  Nanos first_wait = seconds(120);  // maximum wait until the client first connects
};

// One attempt of the client to bring up a path.
struct Attempt {
  std::uint16_t number = 0;
  std::vector<Message> requests;           // CON_REQs as received, in order
  std::vector<wire::ConnReq> parsed;       // the same CON_REQs, parsed
  std::vector<Con*> cons;                  // by cid; null: not connected yet
  std::optional<Message> info;             // the received INFO_REQ
  bool answered = false;                   // INFO_RSP was sent
  bool joins_data = false;                 // granted: the response of a READ carries its data
  unsigned joined = 0;                     // READs whose response carried the data
  unsigned io = 0;                         // requests that were answered
  std::vector<std::string> breaches;       // broken rules that apply to every request
  std::vector<std::string> user_messages;  // types of the first RNBD messages, in order
  std::vector<RemoteKeyId> remote_keys;    // keys of the chunks, if each chunk has a separate one

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
  // As Endpoint::wait(), but serves the client in the meantime.
  bool wait(const std::function<bool()>& done, Nanos limit);

  // Returns a connected path whose client answers heartbeats. Fails the case if the client does not reconnect
  // in time.
  Attempt& healthy();
  Attempt& healthy_within(Nanos limit);
  // Disconnects the path, so that the client reconnects and the case can corrupt the next handshake.
  void drop(Attempt&);
  // Fails unless the client abandons the attempt within `limit`.
  void expect_given_up(const Attempt&, Nanos limit, const char* because);
  // Waits for an attempt after the first `seen` ones. The attempt may be in any state.
  Attempt& next_attempt(std::size_t seen);
  std::size_t attempts() const noexcept { return attempts_.size(); }
  // Waits for a request that the case answers itself.
  ClientRequest take_request();
  void answer(const ClientRequest&, int error);
  // Posts these immediates together, without data.
  void answer_with(std::initializer_list<std::uint32_t> immediates, const ClientRequest&);
  // Sends HB_MSG and waits for HB_ACK, which proves that the client has processed everything sent before.
  void expect_alive(Attempt&, const char* after);
  // Resets everything that a case corrupts.
  void stop_misbehaving();

  // --- settings with which a case misbehaves ---
  std::function<void(std::uint16_t cid, Message&)> spoil_accept;
  std::function<int(std::uint16_t cid)> reject_with;  // returns the errno of a reject; negative to accept
  std::function<bool(Message&)> spoil_info;           // returns false to send no INFO_RSP
  std::uint16_t runs = 1;                             // number of descriptors in INFO_RSP
  std::uint32_t flags = 0;                            // flags of the accept
  bool grants_data_with_answer = false;               // grants the extension to clients that request it
  bool hold_requests = false;                         // requests wait for take_request()

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
  int execute(const ClientRequest&, std::span<std::byte> room);
  int open(const ClientRequest&, std::span<std::byte> room);
  int io(const ClientRequest&, std::span<std::byte> room);
  Attempt& attempt_of(const wire::ConnReq&);
  std::span<std::byte> chunk(std::uint32_t index) const;

  Endpoint& endpoint_;
  ClientSetup setup_;
  Region chunks_;
  RemoteKey whole_;
  std::deque<Attempt> attempts_;
  std::vector<bool> busy_;  // indexed by chunk
  std::deque<ClientRequest> held_;
  std::vector<std::byte> disk_;
  bool trial_seen_ = false;  // a path closed right after it connected; allowed once per run
};

}  // namespace rtrs::conformance
