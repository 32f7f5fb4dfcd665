// Checks wire messages against the protocol, from the notes of one side or from a capture. Kernel peers and
// urtrs peers are checked alike.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/spec/findings.hpp"
#include "conformance/spec/possible_states.hpp"

namespace rtrs::spec {

struct KnownSession;

struct WireCounts {
  std::uint64_t connections = 0;
  std::uint64_t resumed = 0;   // connections of which a snapshot told
  std::uint64_t unplaced = 0;  // messages on connections whose beginning was not seen
  std::uint64_t early = 0;     // answers and ends of connections whose request was not seen
  std::uint64_t partial = 0;   // attempts whose setup was seen only in part
  std::uint64_t gaps = 0;
  std::uint64_t restarts = 0;   // captures: times that a client process began again with the same uuids
  std::uint64_t excused = 0;    // violations that a missing message may explain; not reported
  std::uint64_t reordered = 0;  // captures: places where another order of the messages breaks fewer rules
  void add(const WireCounts& other) noexcept;
};

class WireSpec {
 public:
  // `capture_heartbeat`: heartbeat interval of both peers, for recordings without begin events; 0: unknown.
  WireSpec(Findings& findings, Time capture_heartbeat)
      : findings_(findings), capture_heartbeat_(capture_heartbeat) {}
  // The begin event of a state machine names the side that recorded the following notes.
  void begin(unsigned machine, const Event&);
  // Begins the notes of a session in the middle of a run, unless its beginning was seen.
  void resume(unsigned machine, const KnownSession&);
  void on(unsigned machine, const Event&);
  // Call after the last event.
  void finish();
  // Complete after finish().
  const WireCounts& counts() const noexcept { return counts_; }

 private:
  struct Buffer {
    std::uint64_t addr = 0;
    std::uint32_t key = 0;
    std::uint32_t len = 0;
    bool operator==(const Buffer&) const = default;
  };
  enum class Phase : std::uint8_t { idle, under_way };
  static constexpr std::uint16_t kNoRnbd = 0xffff;
  // RNBD state of one session.
  struct Rnbd {
    bool known = false;
    bool introduced = false;             // SESS_INFO was sent
    bool agreed = false;                 // SESS_INFO was answered
    std::size_t opened = 0;              // OPENs with a successful response
    std::vector<std::uint32_t> devices;  // device ids seen in IO and CLOSE
    std::vector<std::uint32_t> closed;   // devices closed since the last OPEN
  };
  struct Slot {
    Phase phase = Phase::idle;
    std::uint8_t generation = 0;
    bool reads = false;
    bool has_buffer = false;
    bool need_invalidate = false;
    bool data_written = false;
    bool invalidated = false;
    std::uint16_t rnbd = kNoRnbd;  // type of the RNBD message
    std::uint32_t device = 0;      // only set for IO and CLOSE
    std::uint32_t path = 0;        // index of the Path
    Key key;
    Buffer buffer;
    bool operator==(const Slot&) const = default;
  };
  struct Session {
    Uuid uuid{};
    std::uint32_t depth = 0;  // 0: unknown
    std::uint32_t max_io_size = 0;
    std::uint32_t max_hdr_size = 0;
    bool open = false;  // a message is missing: slots that no later message names may be in any state
    std::vector<PossibleStates<Slot>> slots;
    std::string name;  // of the first INFO_REQ
    Rnbd rnbd;
  };
  // One incarnation of a path.
  struct Path {
    Uuid uuid{};
    Uuid session{};
    std::uint32_t number = 0;
    std::uint16_t recon_cnt = 0;
    std::uint16_t cid_num = 0;
    std::uint8_t extensions = 0;
    std::uint32_t depth = 0;
    std::uint32_t chunk_size = 0;
    std::uint32_t flags = 0;
    std::vector<std::uint16_t> asked;     // cids with a connect request
    std::vector<std::uint16_t> accepted;  // cids that were accepted
    bool foreign_depth = false;           // depth differs from the session's
    bool partial = false;                 // some of its requests and answers are missing
    bool open = false;                    // a message is missing: negotiated values and requests are unknown
    bool info_asked = false;
    bool info_answered = false;
    bool resumed = false;  // the setup is not in the trace; of a client the UUIDs are then unknown
    bool was_up = false;   // the path was used, or may have been used
    bool over = false;     // a connection of the path ended
    bool left = false;     // this side started to close the path
    Time up = 0;
    Time heard = 0;                     // of the last message of either side
    std::vector<Buffer> chunks;         // empty: unknown
    std::vector<std::uint32_t> fences;  // serial numbers of unanswered fences
  };
  struct Connection {
    Key key;
    std::uint32_t path = 0;
    bool answered = false;
    bool first_conn = false;
    bool closed_locally = false;  // this side closed the connection
    bool closed = false;
    // Record of the last message, [0] from the recording side, [1] from its peer.
    std::uint64_t last_seq[2] = {0, 0};
    // Heartbeats: [0] from the recording side, [1] from its peer.
    std::uint64_t heartbeats[2] = {0, 0};
    std::uint64_t acknowledged[2] = {0, 0};
  };
  struct Recording {
    bool side_known = false;
    bool client = false;
    bool machine = false;  // recorded by a driver, not imported from a capture
    bool sees_data = false;
    Settings settings;
    Uuid session{};  // of a client: the first paths_uuid
    std::map<Key, Connection> connections;
    std::vector<Path> paths;
    std::vector<Session> sessions;
    std::map<Uuid, std::uint16_t> last_recon;  // keyed by path uuid
    bool earlier = false;  // captures: there were attempts before, so the client may have unseen paths
    // For captures: violations held back until no later gap can explain them.
    Findings found{kMaxHeld};
    WireCounts counts;
  };
  struct HeldEvent {
    Event event;
    std::string bytes;
  };
  using Held = std::shared_ptr<const HeldEvent>;
  using Messages = std::vector<Held>;
  // A capture has the messages of different connections, and of the two directions, in an order that is
  // not exact. The judgement waits for the next messages, and a violation makes it try other orders.
  struct Order {
    std::deque<Held> next;  // not judged yet
    Messages done;          // judged since `saved`
    Recording saved;
    unsigned tries = 0;
    std::size_t work = 0;  // spent on other orders
  };
  // A request, decoded from its header.
  struct Request {
    bool reads = false;
    bool has_buffer = false;
    bool need_invalidate = false;
    std::uint8_t generation = 0;
    std::uint32_t usr_len = 0;
    std::uint32_t header = 0;  // size in bytes
    Buffer buffer;
  };

  static constexpr std::size_t kMaxHeld = 4096;
  static constexpr std::size_t kLookAhead = 128;  // messages of a capture that wait for their judgement

  RuleContext context() const {
    return RuleContext{of_->machine ? findings_ : of_->found, *event_, machine_};
  }
  bool sent() const noexcept {
    return event_->kind == Kind::WireCm ? event_->sent : event_->kind == Kind::WireSent;
  }
  Session& session_of(const Path& path);
  bool limits_are_held(const Path& path);
  bool agreed(const Path& path, std::uint32_t flag, std::uint8_t extension) const noexcept {
    return (path.flags & flag) != 0 && (path.extensions & extension) != 0;
  }
  void forget_slots(Session& session);
  PossibleStates<Slot>* slot_of(Session& session, std::uint32_t id);

  // Defined in wire_connect.cpp.
  void cm();
  void requested();
  Path* resumed_attempt(const Uuid& uuid, const Uuid& session);
  Path& attempt(const Uuid& uuid, const Uuid& session, std::uint16_t recon_cnt, std::uint16_t cid_num,
                std::uint16_t cid);
  bool may_be_restart(std::uint16_t recon_cnt) const noexcept;
  void client_restarted(const Uuid& session);
  void accepted(Connection& con);
  void rejected(const Connection*);
  void same_session(const Path& path);
  void same_name(const Path& path, std::string_view field);
  void ended(Connection& con);
  void info_request(Path& path);
  void info_response(Path& path);
  void read_chunks(Path& path);

  // wire_order.cpp: of captures
  static bool order_matters(Rule rule) noexcept;
  static std::size_t suspicions(const Recording& recording);
  static bool breaks_no_other_rule(const Recording& other, const Recording& given);
  void judge_next(unsigned machine);
  void judge_held(unsigned machine);
  void try_other_orders(unsigned machine);
  static Messages with_moved(const Messages& all, const std::vector<std::size_t>& moved, std::size_t target,
                             bool behind);
  static std::vector<Messages> other_orders(const Order& order);
  Recording judged(unsigned machine, const Recording& from, const Messages& messages, std::size_t count);

  // wire.cpp
  void judge(unsigned machine, Recording& recording, const Event& event);
  void gap();
  void incomplete(Path& path);
  bool may_be_capture_end(const Recording& recording, const Finding& finding) const;
  void message(Connection& con, Path& path);
  void from_client(Connection& con, Path& path);
  void from_server(Connection& con, Path& path);
  void heartbeat(Connection& con, Path& path);
  void silence(Path& path);
  void fence(Path& path, bool question);
  bool form(bool holds, const char* allowed);
  // `other`: connection whose missing message would explain the violation.
  void report(Rule rule, const Key& other, std::string seen, std::string allowed) const;

  // Defined in wire_requests.cpp.
  void request(Connection& con, Path& path);
  std::optional<Request> read_header(const Path& path, std::uint32_t off) const;
  void check_target(const Path& path, const Request& request, std::uint32_t buf_id, std::uint32_t off);
  void take_slot(Connection& con, Path& path, const Request& request, std::uint32_t buf_id,
                 std::uint32_t off);
  void response(Connection& con, Path& path);
  void response_form(Connection& con, Path& path, bool has_key);
  void check_response(const Path& path, const Slot& slot);
  void data(Connection& con, Path& path);
  void invalidation(Connection& con, Path& path);

  // Defined in wire_rnbd.cpp.
  bool well_formed(const Request& request, std::string_view user, std::uint32_t data_len) const;
  void rnbd_request(const Path& path, const Request& request, std::uint32_t off, Slot& slot);
  void rnbd_order(const Path& path, Rnbd& rnbd, const Slot& slot);
  void rnbd_response(const Path& path, const Slot& slot, std::uint16_t error);

  Findings& findings_;
  Time capture_heartbeat_ = 0;
  std::map<unsigned, Recording> recordings_;
  std::map<unsigned, Order> orders_;
  Recording* of_ = nullptr;  // recording of the current event
  unsigned machine_ = 0;
  const Event* event_ = nullptr;
  WireCounts counts_;
};

}  // namespace rtrs::spec
