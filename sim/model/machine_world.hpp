// A model of the protocol state machines of one client and its server, and of all messages in flight between
// them, as a copyable value: no drivers, no bytes, no pointers. enabled() lists the possible next steps; to
// try another order, copy the world and apply another step. Steps give the same result on every machine and
// compiler.
//
// Rules of the connections, as in sim::Network: messages of one connection and direction arrive in order.
// Messages that were sent before a connection broke may still arrive until the receiving end is closed, but
// never at another incarnation. An end reports its closing exactly once, after Disconnect. Messages take no
// time: the clock only advances to deadlines.
//
// The application has at most one outstanding request per block; submitting the next request of a block is a
// step. The data of a READ travels before its response and may still arrive after the client has detected the
// loss of the connection. Keys are never invalidated: neither always_invalidate nor offer_invalidation may be
// set. A crashed server loses everything but its disk and restarts at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/reflect.hpp"
#include "core/proto/client_session.hpp"
#include "core/proto/server_registry.hpp"
#include "core/proto/server_session.hpp"

namespace rtrs::sim {

// Planted bug of the model, which a search must find.
enum class MachinePlant : std::uint8_t {
  none,
  fence_too_early,  // the server answers a fence without closing and draining connections
  never_drained,    // the server never reports its end of a broken connection as closed
};

struct MachineConfig {
  std::uint16_t paths = 2;   // 1 .. kMaxPaths
  std::uint16_t ios = 2;     // total number of requests; request i goes to block i % blocks
  std::uint16_t blocks = 1;  // at least 1
  std::uint16_t reads = 0;   // bit n: the n-th request of each block is a READ; otherwise a write
  std::uint16_t cuts = 0;    // number of connections that may break
  // Number of deadlines that may pass while other steps are possible. Other deadlines pass only when nothing
  // else can happen.
  std::uint16_t early_deadlines = 0;
  // Number of connect requests and accepts that may be lost while one end waits for them.
  std::uint16_t losses = 0;
  // Number of times that an operator reconnects a client path or disconnects a server path.
  std::uint16_t operators = 0;
  std::uint16_t crashes = 0;  // number of times that the server may crash
  bool close = false;         // the application may close the session at any time
  // When a connection is closed at the client, drops all messages that the client has sent on it. No real
  // network guarantees this.
  bool drop_late = false;
  MachinePlant plant = MachinePlant::none;
  ClientConfig client;
  ServerConfig server;
};
// Rules that a client can violate if it replays requests without a fence.
inline constexpr const char* kLostUpdate = "no older write takes effect after a newer acknowledged one";
inline constexpr const char* kChunkRace = "a request is executed with its own data";
// Rules for READs.
inline constexpr const char* kWrongRead = "a READ returns what was acknowledged last";
inline constexpr const char* kLateData = "data lands only in the buffer of a request that waits for it";
// Both ends follow the protocol, with or without a fence, so that no end may accuse the other.
inline constexpr const char* kBlamed = "no peer is reported for breaking the protocol";

// Returns a configuration with two connections per path, no jitter, heartbeat intervals longer than any run,
// and requests that wait without limit.
MachineConfig small_machine_config(std::uint16_t depth);

// A possible next step.
struct MachineStep {
  enum class Kind : std::uint8_t {
    to_server,       // the oldest message of connection `which` arrives
    to_client,       // the oldest message to the client of connection `which` arrives
    forget,          // the connect request of `which` is lost after the client gave up the connection
    server_lost,     // the server end of `which` detects the lost connection
    client_lost,     // the client end of `which` detects the loss
    server_closed,   // the server end of `which` is drained
    client_closed,   // the client end of `which` is drained
    storage,         // storage operation `which` completes
    submit,          // the application submits the next request of block `which`
    deadline,        // the earliest deadline passes
    early_deadline,  // the earliest deadline passes while other steps are possible
    cut,             // connection `which` breaks
    lose,            // the connect request of `which`, or its accept, is lost
    reconnect,       // an operator reconnects path `which` of the client
    disconnect,      // an operator disconnects path `which` of the server's first session
    crash,           // the server crashes and restarts
    close,           // the application closes the session
  };
  Kind kind = Kind::deadline;
  std::uint32_t which = 0;  // connection: its id; storage: index; submit: block; operators: path
  bool operator==(const MachineStep&) const = default;
  // True for faults, early deadlines and operator actions. A world must be able to finish without such steps.
  bool is_fault() const noexcept { return kind >= Kind::early_deadline; }
};
const char* to_string(MachineStep::Kind) noexcept;

class MachineWorld {
 public:
  explicit MachineWorld(const MachineConfig&);

  // Possible next steps, all different. Always taking the first one gives a run without faults, in order of
  // arrival. Empty if everything is done or the world is stuck.
  std::vector<MachineStep> enabled() const;
  // `step` must be one of enabled().
  void apply(const MachineStep& step);
  // Makes this world equal to `before`. `client_differs`, `server_differs`: whether that end of `before` may
  // differ from the world passed to the last undo(). Faster than an assignment, because a step usually
  // changes one end only.
  void undo(const MachineWorld& before, bool client_differs = false, bool server_differs = false);
  // True if a step may have changed this end since undo(), or since the world was made.
  bool client_changed() const noexcept { return client_changed_; }
  bool server_changed() const noexcept { return server_changed_; }
  // True if every request is acknowledged and only deadlines are pending.
  bool done() const;
  // True if every request is answered and, if the session was closed, the client has ended. Only clean-up is
  // left.
  bool finished() const;
  // Description of `step`, which must be one of enabled(), for human readers.
  std::string describe(const MachineStep& step) const;
  // Hash of all state that determines the future; equal worlds have equal hashes. Excludes statistics.
  std::uint64_t fingerprint() const;
  // Name of the first violated rule, or nullptr. No step may follow a violation.
  const char* violation() const noexcept { return violation_; }

  const ClientSession& client() const noexcept { return client_; }
  std::size_t sessions() const noexcept { return sessions_.size(); }
  const ServerSession& session(std::size_t index) const noexcept { return sessions_[index]; }
  unsigned acknowledged() const noexcept;
  Nanos now() const noexcept { return now_; }

  // --- the state of a world, for code that stores and compares worlds ---

  static constexpr std::uint16_t kNoIo = 0xffff;
  struct Message {
    enum class Kind : std::uint8_t {
      connect,
      accept,
      reject,
      info_req,
      info_rsp,
      request,
      imm,
      data,
      fence_req,
      fence_rsp,
    };
    Kind kind = Kind::connect;
    std::uint8_t extensions = 0;  // connect: offered extensions; request: generation
    bool first_conn = false;
    std::uint16_t path = 0;   // connect, fence_req: client path index; request, data: chunk
    std::uint16_t recon = 0;  // connect, fence_req: reconnect counter
    std::uint16_t peer_errno = 0;
    std::uint16_t cid_num = 0;
    std::uint16_t io = 0;           // request, data: number of the request
    std::uint16_t content = kNoIo;  // data: number of the write whose data this is
    std::uint32_t number = 0;       // imm: immediate; fence: serial; accept: flags
    std::uint64_t cookie = 0;
    RTRS_FIELDS(kind, extensions, first_conn, path, recon, peer_errno, cid_num, io, content, number, cookie)
  };
  enum class End : std::uint8_t { none, connecting, open, closing, closed };
  struct Connection {
    std::uint32_t id = 0;  // from 1; also the connect request's handle, and the server's epoch
    ConKey client_key;
    ConKey server_key;
    End client = End::connecting;
    End server = End::none;
    bool broken = false;
    std::vector<Message> to_server;
    std::vector<Message> to_client;
    RTRS_FIELDS(id, client_key, server_key, client, server, broken, to_server, to_client)
  };
  // A chunk as in the server's driver: headers are copied at arrival, data stays in the chunk.
  struct ChunkMemory {
    std::uint16_t data = kNoIo;  // number of the write whose data the chunk contains
    std::uint16_t header = kNoIo;
    std::uint16_t parked_header = kNoIo;
    std::uint16_t served = kNoIo;  // number of the request that was passed to storage
    RTRS_FIELDS(data, header, parked_header, served)
  };
  struct StorageOp {
    std::uint16_t session = 0;
    std::uint16_t chunk = 0;
    std::uint16_t serial = 0;
    std::uint16_t io = kNoIo;
    RTRS_FIELDS(session, chunk, serial, io)
  };
  enum class IoState : std::uint8_t { unsent, outstanding, acknowledged, failed };

  const MachineConfig& config() const noexcept { return config_; }
  RTRS_FIELDS(client_, registry_, sessions_, connections_, storage_, memory_, permit_io_, buffers_, ios_,
              disk_, cuts_, early_deadlines_, losses_, operators_, crashes_, closing_, next_connection_, now_)

 private:
  template <class Input>
  void feed_client(const Input& input);
  template <class Input>
  void feed_server(ConKey key, const Input& input);

  // Executes actions of the state machines. `session`: index of the server session.
  void run_client_action(const ClientAction&);
  void run_client_action(const ClientControlAction&);
  void run_server_action(std::uint16_t session, const ServerAction&);
  void run_server_action(std::uint16_t session, const ServerControlAction&);
  void completed(const Complete&);

  Connection* find(std::uint32_t id);
  const Connection* find(std::uint32_t id) const { return const_cast<MachineWorld*>(this)->find(id); }
  Connection* by_client(ConKey);
  Connection* by_server(ConKey);
  static void send(Connection*, bool to_server, const Message&);
  bool is_read(std::uint16_t io) const noexcept { return (config_.reads >> (io / config_.blocks) & 1) != 0; }
  // Last write to the block before request `io`, whose data a READ must return.
  std::uint16_t write_before(std::uint16_t io) const noexcept;
  std::string request_text(std::uint16_t io) const;
  std::string message_text(const Connection&, const Message&) const;
  static bool is_over(const Connection&);
  static bool server_may_detect_loss(const Connection&);
  static bool client_may_detect_loss(const Connection&);
  static bool waits_for_datagram(const Connection&);
  void list(const Connection&, std::vector<MachineStep>&) const;
  void list_operator_steps(std::vector<MachineStep>&) const;
  bool unfinished() const;

  void arrive_at_server(std::uint32_t id);
  void arrive_at_client(std::uint32_t id);
  void connect_arrives(std::uint32_t id, const Message&);
  void request_arrives(ConKey, const Message&);
  void lose(std::uint32_t id, bool server_end);
  void close(std::uint32_t id, bool server_end);
  void finish_storage(std::size_t index);
  void data_lands(const Message&);
  void crash();
  void submit(std::uint16_t block);
  void pass_deadline();
  void retire(std::uint32_t id, bool from_client, std::uint64_t cookie);
  void set_violation(const char* name) noexcept {
    if (violation_ == nullptr) violation_ = name;
  }

  MachineConfig config_;
  ClientSession client_;
  ServerRegistry registry_;
  std::vector<ServerSession> sessions_;
  std::vector<Connection> connections_;
  std::vector<StorageOp> storage_;
  std::vector<ChunkMemory> memory_;       // indexed by session * depth + chunk
  std::vector<std::uint16_t> permit_io_;  // indexed by permit
  std::vector<std::uint16_t> buffers_;    // indexed by permit: the write whose data a READ received
  std::vector<IoState> ios_;              // indexed by request
  std::vector<std::uint16_t> disk_;       // indexed by block: the write whose data the block holds
  std::uint16_t cuts_;
  std::uint16_t early_deadlines_;
  std::uint16_t losses_;
  std::uint16_t operators_;
  std::uint16_t crashes_;
  bool closing_ = false;  // the application has closed the session
  std::uint32_t next_connection_ = 1;
  Nanos now_ = seconds(1);
  const char* violation_ = nullptr;
  bool client_changed_ = true;
  bool server_changed_ = true;
};

}  // namespace rtrs::sim
