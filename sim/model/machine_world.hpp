// The protocol machines of one client and its server, and everything that travels between them, as a value:
// no drivers, no bytes, no pointers. What may happen next is a list; trying the other order is a copy and a
// step. A world steps the same way on every machine and compiler.
//
// Law of the connections, as in sim::Network: messages of one connection and direction arrive in order; what
// was sent before a connection broke may still arrive until the receiving end is closed, and never at another
// incarnation; an end reports its closing exactly once, after Disconnect. Messages take no time: the clock
// moves only to deadlines.
//
// The application goes on with each block again and again, with one request outstanding a block; which block
// it goes on with, and when, is a step too. The data of a READ travels in front of its response and may still
// land when the client knows that the connection is lost. Keys last for ever: neither always_invalidate nor
// offer_invalidation may be set. A server that crashes forgets everything but its disk and is back at once.
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

// A mistake between the machines, for searches that must find it.
enum class MachinePlant : std::uint8_t {
  none,
  fence_too_early,  // the server answers a fence without closing and draining anything
  never_drained,    // an end of a broken connection at the server is never reported closed
};

struct MachineConfig {
  std::uint16_t paths = 2;   // 1 .. kMaxPaths
  std::uint16_t ios = 2;     // requests in all; request i goes to block i % blocks
  std::uint16_t blocks = 1;  // at least 1
  std::uint16_t reads = 0;   // bit n: the n-th request of each block is a READ, else it is a write
  std::uint16_t cuts = 0;    // connections that may break
  // Deadlines that may pass although something else is still under way. Without, time stands still until
  // nothing else can happen.
  std::uint16_t early_deadlines = 0;
  std::uint16_t losses = 0;  // connect requests and accepts that may get lost though somebody waits for them
  // Times that an operator has a path of the client reconnected, or one of the server disconnected.
  std::uint16_t operators = 0;
  std::uint16_t crashes = 0;  // of the server
  bool close = false;         // the application may close the session at any time
  // What a client sent over a connection never arrives once its end there is closed. No network promises
  // that.
  bool drop_late = false;
  MachinePlant plant = MachinePlant::none;
  ClientConfig client;
  ServerConfig server;
};
// The rules that a replay without a fence can break.
inline constexpr const char* kLostUpdate = "no older write takes effect after a newer acknowledged one";
inline constexpr const char* kChunkRace = "a request is executed with its own data";
// What reads must not show.
inline constexpr const char* kWrongRead = "a READ returns what was acknowledged last";
inline constexpr const char* kLateData = "data lands only in the buffer of a request that waits for it";
// Both ends of a world keep the protocol, with a fence and without.
inline constexpr const char* kBlamed = "nobody is blamed for breaking the protocol";

// Two connections a path, no jitter, heartbeats further away than any run, requests that wait for ever.
MachineConfig small_machine_config(std::uint16_t depth);

// One thing that may happen next.
struct MachineStep {
  enum class Kind : std::uint8_t {
    to_server,       // the oldest message of connection `which` arrives
    to_client,       //
    forget,          // the connect request of `which`, given up by its client, gets lost
    server_lost,     // an end of `which` learns that it is gone
    client_lost,     //
    server_closed,   // an end of `which` is drained
    client_closed,   //
    storage,         // operation `which` finishes
    submit,          // the application writes block `which`
    deadline,        // the earliest one passes
    early_deadline,  // the same, though something else is still under way
    cut,             // connection `which` breaks
    lose,            // the connect request of `which`, or its accept, gets lost
    reconnect,       // an operator has the client reconnect path `which`
    disconnect,      // an operator disconnects path `which` of the server's first session
    crash,           // the server does
    close,           // the application closes the session
  };
  Kind kind = Kind::deadline;
  std::uint32_t which = 0;  // connection: its id; storage: index; submit: block; operators: path
  bool operator==(const MachineStep&) const = default;
  // What breaks, comes at the wrong time, or is somebody's wish: a world must be able to finish without it.
  bool is_fault() const noexcept { return kind >= Kind::early_deadline; }
};
const char* to_string(MachineStep::Kind) noexcept;

class MachineWorld {
 public:
  explicit MachineWorld(const MachineConfig&);

  // In the calm order: always taking the first runs a world without faults in order of arrival. Empty when
  // all is done, or when the world is stuck. No two are equal.
  std::vector<MachineStep> enabled() const;
  // `step` is one of enabled().
  void apply(const MachineStep& step);
  // Every write acknowledged and nothing under way but deadlines.
  bool done() const;
  // Every write is answered, and with a closed session, the client has ended. What is left is cleaning up.
  bool finished() const;
  // What `step`, one of enabled(), is about: for readers.
  std::string describe(const MachineStep& step) const;
  // Of everything that decides what can happen; equal worlds have equal ones. Counters do not count.
  std::uint64_t fingerprint() const;
  // Name of the first rule that was broken, or null. A world with a broken rule is not stepped further.
  const char* violation() const noexcept { return violation_; }

  const ClientSession& client() const noexcept { return client_; }
  std::size_t sessions() const noexcept { return sessions_.size(); }
  const ServerSession& session(std::size_t index) const noexcept { return sessions_[index]; }
  unsigned acknowledged() const noexcept;
  Nanos now() const noexcept { return now_; }

  // --- the parts of a world, for those who store and compare whole ones ---

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
    std::uint8_t extensions = 0;  // connect; request: the generation
    bool first_conn = false;
    std::uint16_t path = 0;   // connect, fence_req: path of the client; request, data: chunk
    std::uint16_t recon = 0;  // connect, fence_req
    std::uint16_t peer_errno = 0;
    std::uint16_t cid_num = 0;
    std::uint16_t io = 0;           // request, data: the request
    std::uint16_t content = kNoIo;  // data: the write that it comes from
    std::uint32_t number = 0;       // imm; fence: serial; accept: flags
    std::uint64_t cookie = 0;
    RTRS_FIELDS(kind, extensions, first_conn, path, recon, peer_errno, cid_num, io, content, number, cookie)
  };
  enum class End : std::uint8_t { none, connecting, open, closing, closed };
  struct Connection {
    std::uint32_t id = 0;  // from 1; handle of the connect request and epoch at the server
    ConKey client_key;
    ConKey server_key;
    End client = End::connecting;
    End server = End::none;
    bool broken = false;
    std::vector<Message> to_server;
    std::vector<Message> to_client;
    RTRS_FIELDS(id, client_key, server_key, client, server, broken, to_server, to_client)
  };
  // A chunk as the server's driver sees it: headers are copied at arrival, data stays in the chunk.
  struct ChunkMemory {
    std::uint16_t data = kNoIo;  // the write whose data is there
    std::uint16_t header = kNoIo;
    std::uint16_t parked_header = kNoIo;
    std::uint16_t served = kNoIo;  // whose header storage got
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

  // What the machines asked for. `session` is that of the server side.
  void client_asks(const ClientAction&);
  void client_asks(const ClientControlAction&);
  void server_asks(std::uint16_t session, const ServerAction&);
  void server_asks(std::uint16_t session, const ServerControlAction&);
  void completed(const Complete&);

  Connection* find(std::uint32_t id);
  const Connection* find(std::uint32_t id) const { return const_cast<MachineWorld*>(this)->find(id); }
  Connection* by_client(ConKey);
  Connection* by_server(ConKey);
  static void send(Connection*, bool to_server, const Message&);
  bool is_read(std::uint16_t io) const noexcept { return (config_.reads >> (io / config_.blocks) & 1) != 0; }
  // The newest write of the block before request `io`, whose data a READ there must return.
  std::uint16_t write_before(std::uint16_t io) const noexcept;
  std::string request_text(std::uint16_t io) const;
  std::string message_text(const Connection&, const Message&) const;
  static bool is_over(const Connection&);
  static bool server_learns(const Connection&);
  static bool client_learns(const Connection&);
  static bool waits_for_datagram(const Connection&);
  void list(const Connection&, std::vector<MachineStep>&) const;
  void list_wishes(std::vector<MachineStep>&) const;
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
  void break_rule(const char* name) noexcept {
    if (violation_ == nullptr) violation_ = name;
  }

  MachineConfig config_;
  ClientSession client_;
  ServerRegistry registry_;
  std::vector<ServerSession> sessions_;
  std::vector<Connection> connections_;
  std::vector<StorageOp> storage_;
  std::vector<ChunkMemory> memory_;       // by session * depth + chunk
  std::vector<std::uint16_t> permit_io_;  // by permit
  std::vector<std::uint16_t> buffers_;    // by permit: the write whose data a READ got
  std::vector<IoState> ios_;              // by request
  std::vector<std::uint16_t> disk_;       // by block: the write whose data is there
  std::uint16_t cuts_;
  std::uint16_t early_deadlines_;
  std::uint16_t losses_;
  std::uint16_t operators_;
  std::uint16_t crashes_;
  bool closing_ = false;  // the application asked for it
  std::uint32_t next_connection_ = 1;
  Nanos now_ = seconds(1);
  const char* violation_ = nullptr;
};

}  // namespace rtrs::sim
