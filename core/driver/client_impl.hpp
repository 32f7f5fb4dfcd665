// Implementation of rtrs::Client. Holds, per permit, the bulk data that does not affect the protocol:
// buffers, headers, remote addresses and keys.
#pragma once
#include <array>
#include <vector>

#include "core/base/assert.hpp"
#include "core/driver/client.hpp"
#include "core/driver/post_queue.hpp"
#include "core/driver/ring.hpp"
#include "core/driver/wire_tap.hpp"
#include "core/proto/client_session.hpp"
#include "core/record/recorder.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

struct Client::Impl {
  // Room for the user header and the RTRS header of one request.
  static constexpr std::size_t kHeaderBytes = kMaxUserHeader + wire::kMaxIoHeaderBytes;
  static constexpr std::size_t kNewsCapacity = 256;
  static constexpr InstanceId kInstance = 0;

  struct Slot {
    std::uint64_t user_data = 0;
    std::span<std::byte> data;    // application memory
    RegionId region = kNoRegion;  // region that contains `data`
    std::uint32_t region_offset = 0;
    std::uint32_t usr_len = 0;
    Direction direction = Direction::read;
    bool copied = false;   // data is copied through `buffers`
    RemoteKey remote_key;  // READ: the destination's key, if only this request uses it
    ConKey key_on{};       // connection that the key belongs to; keys on other devices may have equal values
    Nanos posted = 0;      // time of the last post
  };
  struct Waiting {
    IoRequest request;
    Nanos since = 0;
    std::array<std::byte, kMaxUserHeader> header;
  };
  struct PathData {
    PathAddress address;
    std::string peer;   // Fabric::describe() of the first connection
    DevicePort device;  // Fabric::device_of() of the first connection
    std::uint64_t ios_before_reset = 0;
    wire::Uuid uuid{};
    std::vector<wire::Descriptor> chunks;  // indexed by permit; empty while the path is down
    std::array<AnswerTimes, 2> times;      // indexed by direction
  };

  Impl(const ClientOptions&, Recorder*);
  ~Impl();

  // Binds the client to its first fabric: keys, regions and events of another fabric would be invalid.
  void bind(const Fabric& fabric) noexcept {
    if (bound == nullptr) bound = &fabric;
    RTRS_ASSERT(bound == &fabric);
  }
  const Fabric* bound = nullptr;

  // Feeds an input: records it, steps the state machine, performs its actions.
  template <class Input>
  void feed(Fabric& fabric, const Input& input) {
    if (recorder != nullptr) recorder->input(kInstance, input);
    ClientActions actions;
    session.on(input, actions);
    deadline_known = false;
    if (recorder != nullptr) recorder->actions(kInstance, actions);
    for (const ClientAction& action : actions)
      std::visit([this, &fabric, at = input.now](const auto& one) { this->perform(fabric, at, one); },
                 action);
    posts.flush(fabric);
  }

  // Fabric events; defined in client_events.cpp.
  void handle(Fabric&, Nanos now, const FabricEvent&);
  void note(Nanos now, const FabricEvent&);
  void handle_connected(Fabric&, Nanos now, const event::Connected&);
  void handle_message(Fabric&, Nanos now, const event::MessageReceived&);
  void handle_info(Fabric&, Nanos now, const event::MessageReceived&);
  void refuse(Fabric&, Nanos now, ConKey, wire::Refusal);
  std::uint16_t permit_of(ConKey, std::uint32_t rkey) const noexcept;

  // Actions of the session; defined in client_actions.cpp.
  void perform(Fabric&, Nanos, const PostRequest&);
  void perform(Fabric&, Nanos, const PostImm&);
  void perform(Fabric&, Nanos, const PostReceive&);
  void perform(Fabric&, Nanos, const Complete&);
  void perform(Fabric&, Nanos, const StoreKey&);
  void perform(Fabric&, Nanos, const ClientControlAction&);

  void push(const Fabric& fabric, Nanos now, const WorkRequest& work) {
    tap.sent(kInstance, now, fabric, work);
    posts.push(work);
  }

  void control(Fabric&, Nanos, const Connect&);
  void control(Fabric&, Nanos, const Disconnect&);
  void control(Fabric&, Nanos, const SendInfoReq&);
  void control(Fabric&, Nanos, const SendFenceReq&);
  void control(Fabric&, Nanos, const PathChanged&);
  void control(Fabric&, Nanos, const LinkChanged&);
  void control(Fabric&, Nanos, const FailedOver&);
  void control(Fabric&, Nanos, const ReleasePath&);
  void control(Fabric&, Nanos, const EndSession&);
  void control(Fabric&, Nanos, const ProbeDelivery&);

  // Defined in client.cpp.
  std::size_t take_batch(Fabric&, Nanos now);
  void take_events(Fabric&, Nanos now);
  void start(Fabric&, Nanos now, const IoRequest&, std::span<const std::byte> header);
  void start_waiting(Fabric&, Nanos now);
  void fail_waiting(Nanos now) noexcept;
  // Time at which the oldest request without a permit fails.
  Nanos waiting_deadline() noexcept {
    return waiting.empty() ? kNever : session.path_wait_ends(waiting.front().since);
  }
  // Number of successful requests over the path.
  std::uint64_t completed_ios(unsigned path) const noexcept {
    const PathData& data = path_data[path];
    return data.ios_before_reset + data.times[0].count() + data.times[1].count();
  }
  // Creates an empty PathData for the path. Returns false if out of memory.
  bool provide_path(unsigned index);
  bool prepare_memory(Fabric&);
  RemoteKey destination(Fabric&, std::uint16_t permit);
  std::size_t append_header(std::uint16_t permit, const PostRequest&, const RemoteKey&) noexcept;
  void finish(std::uint64_t user_data, Errc, std::uint16_t peer_errno) noexcept;
  void queue_event(PathEvent::Kind, Nanos at) noexcept;
  Nanos next_deadline() const noexcept {
    if (!deadline_known) deadline = session.next_deadline();
    deadline_known = true;
    return deadline;
  }

  ClientOptions options;
  Recorder* recorder;
  WireTap tap;
  ClientSession session;
  PostQueue posts;
  // Indexed by path; contains all paths ever used.
  std::vector<PathData> path_data;
  std::vector<PathStatus> status;
  std::vector<Slot> slots;  // indexed by permit
  Region headers;           // kHeaderBytes bytes per permit
  Region buffers;           // max_io_size bytes per permit, for data that is copied
  RemoteKey buffers_key;
  std::vector<RemoteKey> remote_keys;  // indexed by RegionId: keys of memory that the application registered
  Ring<Waiting> waiting;               // requests that wait for a permit
  Ring<IoCompletion> finished;
  Ring<PathEvent> news;
  std::vector<std::byte> scratch;  // buffer for messages being built
  // Buffer of one poll(). A member, because initialising it in each call costs more than an empty poll.
  std::array<FabricEvent, 64> fabric_events;
  ClientStats stats;
  // Cache of the session's next deadline, valid until the next step, because most polls have nothing to do
  // and should be fast.
  mutable Nanos deadline = 0;
  mutable bool deadline_known = false;
  unsigned inflight = 0;
  bool ended = false;
};

}  // namespace rtrs
