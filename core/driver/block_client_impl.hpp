// Implementation of rtrs::BlockClient.
#pragma once
#include <array>
#include <vector>

#include "core/driver/affinity_run.hpp"
#include "core/driver/block_client.hpp"
#include "core/driver/index_queue.hpp"
#include "core/driver/ring.hpp"
#include "core/record/recorder.hpp"

namespace rtrs {

struct BlockClient::Impl {
  // Maximum number of unanswered messages: SESS_INFO, and one OPEN and one CLOSE per device.
  static constexpr unsigned kMaxMessages = 1 + 2 * rnbd::kMaxClientDevices;
  static constexpr std::uint64_t kMessage = std::uint64_t{1} << 63;  // set in user_data of messages
  static constexpr std::size_t kEvents = 1024;
  static constexpr std::uint32_t kNoCache = 0xffffffff;
  static constexpr std::uint32_t kNoOpening = 0xffffffff;

  struct Result {
    Errc result = Errc::ok;
    std::uint16_t error = 0;
    explicit operator bool() const noexcept { return result != Errc::ok; }  // true if failed
  };
  // True if the peer answered, with 0 or an errno. Otherwise it is unknown whether the peer executed the
  // message.
  static bool was_answered(Errc result) noexcept { return result == Errc::ok || result == Errc::peer_error; }
  // True if the message is unanswered and a server may still execute it.
  static bool may_still_execute(Errc result) noexcept {
    return result == Errc::no_path || result == Errc::request_timeout || result == Errc::session_closed;
  }
  struct Request {
    BlockRequest io;
    rnbd::IoArrival arrival{};
    rnbd::DeviceHandle device = 0;
    Nanos since = 0;                // time of submission
    std::uint64_t sent = 0;         // bytes already split into pieces
    std::uint32_t outstanding = 0;  // unfinished pieces
    std::uint32_t next = kNoIndex;
    bool all_sent = false;
    bool all_fua = true;             // every piece was a write with FUA
    std::uint32_t cache = kNoCache;  // oldest cache that contains a change of a piece, see IoTicket
    // Oldest opening of the device in which a piece made a change that still needs a flush to be durable.
    std::uint32_t opening = kNoOpening;
    bool flushing = false;  // all pieces are written and the final flush is pending
    bool misfit = false;    // a piece does not fit the reopened device: the whole request is split again
    Result result{};
  };
  struct Piece {
    std::uint32_t request = kNoIndex;
    std::uint32_t next = kNoIndex;
    wire::rnbd::Io what;
    rnbd::IoTicket ticket;
    std::uint64_t at = 0;  // offset of the piece in the request's data, in bytes
  };
  struct Message {
    std::array<std::byte, wire::rnbd::kOpenRspBytes> response{};
    std::uint64_t token = 0;  // token of the unanswered message; 0: this slot is free
    std::uint16_t length = 0;
  };
  struct Device {
    rnbd::DeviceHandle handle = 0;
    bool writable = false;
    IndexQueue again;              // pieces to resend, before new pieces
    IndexQueue backlog;            // requests with unsent pieces
    Nanos refused_since = kNever;  // time of the first refusal since the device was last open
  };

  Impl(const BlockClientOptions&, Recorder*);
  ~Impl();

  // Session and devices; defined in block_client.cpp.
  template <class Input>
  void feed(Fabric&, Nanos now, const Input&);
  // Feeds an input, except begin_io(), to the devices: records it, steps the state machine, leaves its
  // actions in `actions`.
  template <class Input>
  auto step(Nanos now, Input input) {
    input.now = now;
    if (recorder != nullptr) recorder->input(kClientDevices, trace::recorded(input));
    actions.clear();
    if constexpr (std::is_void_v<decltype(devices.on(input, actions))>) {
      devices.on(input, actions);
      if (recorder != nullptr) recorder->device_actions(kClientDevices, actions);
    } else {
      const auto outcome = devices.on(input, actions);
      if (recorder != nullptr) recorder->device_actions(kClientDevices, actions, outcome);
      return outcome;
    }
  }
  void begin_record(Nanos now);
  void perform(Fabric&, Nanos now);
  bool send(Fabric&, Nanos now, const rnbd::SendMessage&);
  void on_news(Fabric&, Nanos now, const PathEvent&);
  void on_done(Fabric&, Nanos now, const IoCompletion&);
  void on_message_done(Fabric&, Nanos now, std::size_t message, const IoCompletion&);
  void run_timers(Fabric&, Nanos now);
  void close_session(Fabric&, Nanos now);
  void tell(BlockEvent&&);

  // Requests and their pieces; defined in block_client_io.cpp.
  std::uint32_t take_request(rnbd::DeviceHandle, Nanos now, const BlockRequest&);
  void begin(Fabric&, Nanos now, std::uint32_t request);
  void issue(Fabric&, Nanos now);
  rnbd::Gate gate_of(Nanos now, std::uint32_t request) const noexcept;
  bool issue_one(Fabric&, Nanos now, Device&);
  void issue_next(Fabric&, Nanos now, Device&, rnbd::Gate);
  Result next_piece(Request&, Piece&) const;
  bool still_fits(const Piece&) const noexcept;
  void send_piece(Fabric&, Nanos now, std::uint32_t piece);
  rnbd::IoNature nature_of(const Piece&) const;
  Result refusal(rnbd::DeviceHandle) const noexcept;
  std::uint32_t take_piece(std::uint32_t request);
  void on_piece_done(Fabric&, Nanos now, std::uint32_t piece, Errc, std::uint16_t peer_errno);
  void end_piece(std::uint32_t piece, const Result&);
  void finish_if_done(std::uint32_t request);
  bool has_lost_piece(const Request&) const noexcept;
  bool flushed_elsewhere(const Request&) const noexcept;
  void restart_request(std::uint32_t request);
  static void reset_progress(Request&) noexcept;
  void finish(std::uint32_t request);
  void abandon(Device&, const Result&);

  // Requests that wait; defined in block_client_holds.cpp.
  void note_held(const Request&) noexcept;
  void note_change(Nanos now, const rnbd::DeviceChanged&) noexcept;
  void update_idle_since(Nanos now) noexcept;
  Nanos hold_ends(Nanos since) const noexcept;
  Nanos refusal_ends(const Request&) const noexcept;
  Nanos held_until() const noexcept;
  Result expired(const Request&, Nanos now) const noexcept;
  void end_held(Nanos now);
  Device& device_of(rnbd::DeviceHandle handle) noexcept { return devices_by_slot[rnbd::slot_of(handle)]; }
  const Device& device_of(rnbd::DeviceHandle handle) const noexcept {
    return devices_by_slot[rnbd::slot_of(handle)];
  }

  Client session;
  Recorder* recorder;
  bool begun = false;  // the recorder has started to record the devices
  std::uint32_t max_requests;
  Nanos queue_timeout;
  std::uint32_t max_pieces;  // maximum number of pieces in the session; leaves room for device messages
  bool can_open;
  rnbd::ClientDevices devices;
  rnbd::ClientActions actions;
  FixedVector<std::uint64_t, kMaxMessages> unsent;  // tokens of messages that the session did not accept
  std::array<Message, kMaxMessages> messages;
  std::array<Device, rnbd::kMaxClientDevices> devices_by_slot;
  unsigned slots = 0;  // number of slots ever used in devices_by_slot
  unsigned turn = 0;   // slot of the device that sent last; the next slot may send first
  std::vector<Request> requests;
  std::vector<Piece> pieces;
  IndexQueue free_requests;
  IndexQueue free_pieces;
  IndexQueue finished;          // completed requests that poll() has not returned yet
  std::uint32_t queued = 0;     // entries in `again` and `backlog` of all devices
  Nanos oldest_held = kNever;   // no queued request was submitted before this time
  Nanos refusals_end = kNever;  // no request of a refused device is overdue before this time
  Nanos idle_since = kNever;    // time since which requests are held and the session has no piece
  std::uint32_t in_flight = 0;  // pieces that the session holds or has sent, without a result
  std::uint32_t under_way = 0;  // requests whose completion poll() has not returned yet
  AffinityRun affinity;
  Ring<BlockEvent> events;
  // Buffer of one poll(). A member, because initialising it in each call costs more than an empty poll.
  std::array<IoCompletion, 64> completions;
  PathEvent path_event;
  Nanos retry_at = kNever;
  Nanos reopen_at = kNever;
  Nanos grace_ends = kNever;
  bool opened = false;
  bool close_begun = false;
  bool session_closing = false;
};

}  // namespace rtrs
