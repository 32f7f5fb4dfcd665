// Implementation of rtrs::Server. Holds, per session and chunk, the bulk data that does not affect the
// protocol: memory, keys, headers, names.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/assert.hpp"
#include "core/driver/access.hpp"
#include "core/driver/deadline_heap.hpp"
#include "core/driver/post_queue.hpp"
#include "core/driver/request_store.hpp"
#include "core/driver/ring.hpp"
#include "core/driver/server.hpp"
#include "core/driver/service_times.hpp"
#include "core/driver/wire_tap.hpp"
#include "core/proto/server_registry.hpp"
#include "core/proto/server_session.hpp"
#include "core/record/recorder.hpp"

namespace rtrs {

struct Server::Impl {
  static constexpr InstanceId kRegistry = 0;
  static constexpr std::size_t kNewsCapacity = 1024;
  static constexpr std::size_t kFabricBatch = 64;
  // Maximum number of events that are handled before a due deadline, and in one poll, so that a flooding peer
  // cannot delay deadlines further.
  static constexpr std::size_t kMostEvents = 4096;
  // Each step of a connection set-up takes this thread 50 us (TCP) to 20 ms (registering memory with an RDMA
  // device). Steps beyond the share of one poll are delayed, so that the IO of other sessions does not wait
  // for a storm of connections.
  static constexpr unsigned kSetUpShare = 8;
  static constexpr unsigned kConnectCost = 1;
  static constexpr unsigned kInfoCost = 4;  // cost of an INFO_REQ: path memory and keys
  static constexpr std::size_t kMaxSetups = 4096;
  // A poll that delays set-ups counts as this many events in `events_since_due`.
  static constexpr std::size_t kEventsOfShare = 128;

  // A connect request or an INFO_REQ.
  using SetUpEvent = std::variant<event::ConnectRequested, event::MessageReceived>;
  struct SetUp {
    SetUpEvent event;
    std::vector<std::byte> bytes;  // copy of the bytes that the event's span refers to
  };

  struct Path {
    std::vector<RemoteKey> chunk_keys;  // one key for all chunks, or one key per chunk
    bool up = false;
    std::string peer;  // client address of the last attempt
    DevicePort device{};
    Traffic traffic;
    std::unique_ptr<ServiceTimes> times;  // set when the path is connected
    Nanos since = 0;                      // time at which the path entered its state
  };
  struct Session {
    Session(const ServerConfig& config, std::uint16_t index)
        : machine(config, index), always_invalidate(config.always_invalidate) {}
    ServerSession machine;
    bool always_invalidate;
    // `requests` and `chunks` are empty until the first INFO_REQ, because sending a connect request costs a
    // client almost nothing.
    RequestStore requests{0, 0};
    Region chunks;            // queue_depth * chunk_size bytes
    std::vector<Path> paths;  // up to the highest index that a connect request has used
    Path& path_of(ConKey key) noexcept { return paths[key.path]; }
    std::string name;
    std::string refused_name;    // name of the last INFO_REQ that was refused for its name
    std::string identity;        // identity of the client that created the session
    bool opened = false;         // session_opened was reported or is pending
    bool timer_changed = false;  // this step may have moved the machine's deadline to an earlier time
    // Connection for which an action failed; treated as lost after the step's actions.
    ConKey failed{};
  };

  Impl(const ServerConfig& options, Recorder* r);
  ~Impl();

  // Binds the server to its first fabric: keys, regions and events of another fabric would be invalid.
  void bind(const Fabric& fabric) noexcept {
    if (bound == nullptr) bound = &fabric;
    RTRS_ASSERT(bound == &fabric);
  }
  const Fabric* bound = nullptr;

  // Feeds one input to a session: records it, steps the state machine, performs the actions and everything
  // that follows without an outside event. The session may be destroyed afterwards.
  template <class Input>
  void feed(Fabric& fabric, Session& session, const Input& input) {
    step(fabric, session, input);
    while (true) {
      if (session.failed.epoch != 0) {
        const ConKey key = std::exchange(session.failed, ConKey{});
        step(fabric, session, ConnectionLost{input.now, key, Reason::no_resources});
      } else if (session.machine.wants_to_continue()) {
        step(fabric, session, Continued{input.now});
      } else {
        break;
      }
    }
    // The posts are flushed before the session ends, because responses are sent from session memory.
    if (!gathering || session.machine.ended()) posts.flush(fabric);
    if (session.machine.ended()) return retire(fabric, input.now, session);
    if (std::exchange(session.timer_changed, false)) set_timer(session);
  }
  template <class Input>
  void step(Fabric& fabric, Session& session, const Input& input) {
    const InstanceId instance = instance_of(session);
    if (recorder != nullptr) recorder->input(instance, input);
    ServerActions actions;
    session.machine.on(input, actions);
    if (recorder != nullptr) recorder->actions(instance, actions);
    for (const ServerAction& action : actions) {
      // The two actions of every request are tested first, for speed.
      if (const auto* deliver = std::get_if<Deliver>(&action))
        perform(fabric, input.now, session, *deliver);
      else if (const auto* respond = std::get_if<PostResponse>(&action))
        perform(fabric, input.now, session, *respond);
      else
        std::visit([&, this](const auto& one) { this->perform(fabric, input.now, session, one); }, action);
    }
  }
  static InstanceId instance_of(const Session& session) noexcept {
    return session_instance(session.machine.index());
  }
  template <class Input>
  void ask_registry(const Input& input, RegistryActions& answer) {
    if (recorder != nullptr) recorder->input(kRegistry, input);
    registry.on(input, answer);
    if (recorder != nullptr) recorder->actions(kRegistry, answer);
  }

  // Fabric events; defined in server_events.cpp.
  void handle(Fabric&, Nanos now, const FabricEvent&);
  void on(Fabric&, Nanos now, Session&, const event::ImmReceived&);
  void on(Fabric&, Nanos now, Session&, const event::MessageReceived&);
  void on(Fabric&, Nanos now, Session&, const event::SendDone&);
  void on(Fabric&, Nanos now, Session&, const event::ConnectionLost&);
  void on(Fabric&, Nanos now, Session&, const event::ConnectionClosed&);
  void on(Fabric&, Nanos now, Session&, const event::KeyInvalidated&);
  void on(Fabric&, Nanos now, Session&, const event::ChunkInvalidated&);
  // A server opens no connections.
  void on(Fabric&, Nanos, Session&, const event::Connected&) {}
  void on(Fabric&, Nanos, Session&, const event::AddressesFound&) {}
  void on(Fabric&, Nanos, Session&, const event::ConnectFailed&) {}
  // Records messages from the peer as wire notes. Messages of this side are recorded when they are posted.
  void note(Nanos now, Session&, const event::ImmReceived&);
  void note(Nanos now, Session&, const event::MessageReceived&);
  void note(Nanos now, Session&, const event::KeyInvalidated&);
  void note(Nanos now, Session&, const event::ConnectionLost&);
  void note(Nanos now, Session&, const event::ConnectionClosed&);
  void note(Nanos, Session&, const event::SendDone&) {}
  void note(Nanos, Session&, const event::ChunkInvalidated&) {}
  void note(Nanos, Session&, const event::Connected&) {}
  void note(Nanos, Session&, const event::AddressesFound&) {}
  void note(Nanos, Session&, const event::ConnectFailed&) {}
  // Returns true if the share of this poll is used up; then continue_setups() handles the event later, in
  // the order of arrival.
  bool delay_set_up(const SetUpEvent&, wire::Bytes bytes, unsigned cost) noexcept;
  void continue_setups(Fabric&, Nanos now);
  void handle_connect(Fabric&, Nanos now, const event::ConnectRequested&);
  void admit(Fabric&, Nanos now, const event::ConnectRequested&, const wire::ConnReq&, const AdmitSession&);
  void handle_info(Fabric&, Nanos now, Session&, const event::MessageReceived&);
  void handle_request(Fabric&, Nanos now, Session&, const event::ImmReceived&);
  void refuse(Fabric&, Nanos now, Session&, ConKey, wire::Refusal);

  // Actions of sessions; defined in server_actions.cpp.
  void perform(Fabric&, Nanos, Session&, const PostResponse&);
  void perform(Fabric&, Nanos, Session&, const PostImm&);
  void perform(Fabric&, Nanos, Session&, const PostReceive&);
  void perform(Fabric&, Nanos, Session&, const Deliver&);
  void perform(Fabric&, Nanos, Session&, const InvalidateChunk&);
  void perform(Fabric&, Nanos, Session&, const ServerControlAction&);

  void control(Fabric&, Nanos, Session&, const Accept&);
  void control(Fabric&, Nanos, Session&, const Reject&);
  void control(Fabric&, Nanos, Session&, const Disconnect&);
  void control(Fabric&, Nanos, Session&, const SendInfoRsp&);
  void control(Fabric&, Nanos, Session&, const SendFenceRsp&);
  void control(Fabric&, Nanos, Session&, const PathChanged&);
  void control(Fabric&, Nanos, Session&, const LinkChanged&);
  void control(Fabric&, Nanos, Session&, const ReleasePath&);
  void control(Fabric&, Nanos, Session&, const EndSession&);
  void control(Fabric&, Nanos, Session&, const ProbeDelivery&);
  // Returns false if memory or keys cannot be allocated.
  bool provide_chunks(Fabric&, Session&);
  bool make_chunk_keys(Fabric&, Session&, ConKey);
  // Reports a refused connect request. `fill` sets the peer and the identity.
  template <class Fill>
  void report_refused(Nanos now, Reason reason, std::uint16_t refusal, Fill&& fill) noexcept {
    tell(PathEvent::Kind::refused, now, [&](PathEvent& one) {
      one.reason = reason;
      one.refusal = refusal;
      fill(one);
    });
  }
  void reject(Fabric&, Nanos now, InstanceId instance, ConKey key, const Reject&);
  void push(const Fabric& fabric, Nanos now, const Session& session, const WorkRequest& work) {
    tap.sent(instance_of(session), now, fabric, work);
    posts.push(work);
  }

  // Defined in server.cpp.
  Session* find(std::uint16_t index) const noexcept {
    return index < sessions.size() ? sessions[index].get() : nullptr;
  }
  ServerConfig config_over(const Fabric&, std::uint32_t request) const noexcept;
  Session* create(Nanos now, std::uint16_t index, const Fabric&, std::uint32_t request);
  // Returns false if out of memory.
  static bool provide_path(Session&, unsigned path) noexcept;
  // If out of memory, the path shows no address and no device.
  static void note_peer(Path&, const Fabric&, std::uint32_t request) noexcept;
  static void note_peer(Path&, const Fabric&, ConKey accepted) noexcept;
  void retire(Fabric&, Nanos now, Session&);
  std::string holder_of(const std::string& name) const;  // defined in server_actions.cpp
  void forget(Nanos now, std::uint16_t index);
  void drop(Nanos now, std::uint16_t index);
  std::size_t take_batch(Fabric&, Nanos now);
  bool may_hold_more(Fabric&, std::size_t got, bool due, unsigned& empty);
  void run_deadlines(Fabric&, Nanos now);
  void set_timer(const Session& session) noexcept {
    deadlines.set(session.machine.index(), session.machine.next_deadline());
  }
  void announce(ServerEvent::Kind, const Session&);
  std::size_t take(std::span<ServerEvent> out);
  void reserve_events();
  // Stores an event for operators. If out of memory, the event is dropped.
  template <class Fill>
  void tell(PathEvent::Kind kind, Nanos now, Fill&& fill) noexcept try {
    PathEvent one;
    one.kind = kind;
    one.at = now;
    fill(one);
    if (news.size() == kNewsCapacity) news.pop_front();
    news.push_back(std::move(one));
  } catch (const std::bad_alloc&) {
  }

  ServerConfig config;
  Recorder* recorder;
  WireTap tap;
  ServerRegistry registry;
  AccessRules access;
  bool where_it_protects = false;
  std::vector<std::unique_ptr<Session>> sessions;  // indexed by session
  std::vector<std::unique_ptr<Session>> retired;   // ended sessions with events to hand out
  PostQueue posts;
  // Events that the application has not polled yet. An event refers to memory of its session, so an ended
  // session stays in `retired` until its events are handed out.
  Ring<ServerEvent> events;
  std::size_t event_capacity = 0;
  std::deque<PathEvent> news;
  std::vector<std::byte> scratch;  // buffer for INFO_RSP
  // Buffer of one poll(). A member, because initialising it in each call costs more than an empty poll.
  std::array<FabricEvent, kFabricBatch> fabric_events;
  std::vector<wire::Descriptor> runs;
  std::uint32_t epoch = 0;
  ConKey judged{};  // key of the connect request that a session answers in this step
  unsigned live = 0;
  bool listening = false;
  bool gathering = false;  // a ResponseBatch exists
  bool closing = false;
  bool invalidates = false;  // a key was invalidated in this batch
  // Indexed by session. An entry may be earlier than its state machine's deadline, never later.
  DeadlineHeap deadlines;
  std::size_t events_since_due = 0;  // events taken since a deadline became due
  std::deque<SetUp> set_ups;
  unsigned setup_cost = 0;  // total cost of the set-ups in this poll
  ServerStats counted;
  ServerSession::Counters of_retired;
  mutable ServerStats shown;
};

}  // namespace rtrs
