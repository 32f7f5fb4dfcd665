// One connection: its queue pair, outstanding work and receive buffers.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/verbs/verbs_device.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "backends/verbs/verbs_memory.hpp"
#include "backends/verbs/verbs_patience.hpp"
#include "backends/verbs/verbs_queue.hpp"
#include "backends/verbs/verbs_receives.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::verbs {

// The context of a communication identifier points to an Owner, which says what the identifier belongs to.
struct Owner {
  enum class Kind : std::uint8_t { listener, request, connection, leaving };
  Kind kind;
  void* object;
};

// Parts of the fabric that a connection uses.
struct FabricParts {
  const VerbsOptions& options;
  Memory& memory;
  VerbsStats& stats;
};

// A stopped queue pair that is kept so that its number is not reused.
struct Shell {
  Shell(QpHandle pair, Device& on) noexcept;
  ~Shell();
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  const Device& device() const noexcept { return device_; }

 private:
  QpHandle qp_;
  Device& device_;
};

class Connection {
 public:
  enum class Stage : std::uint8_t { pending, up, lost };
  enum class Bind : std::uint8_t { open, close };

  Connection(const FabricParts&, ConKey, const ConnectionParams&, bool is_client,
             std::span<const std::byte> private_data);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  ConKey key() const noexcept { return key_; }
  bool is_client() const noexcept { return is_client_; }
  Stage stage() const noexcept { return stage_; }
  void set_stage(Stage stage) noexcept { stage_ = stage; }
  Device* device() noexcept { return device_; }
  const Device* device() const noexcept { return device_; }
  ibv_qp* qp() noexcept { return qp_.get(); }
  std::span<const std::byte> private_data() const noexcept { return private_data_; }
  std::string describe() const;
  DevicePort device_port() const;
  // The peer has disconnected: data that has arrived is still reported, then the loss.
  void set_ending(Reason reason) noexcept { ending_ = reason; }
  Reason ending() const noexcept { return ending_; }

  // Communication identifier; outlives the queue pair.
  IdHandle id;
  Owner owner{Owner::Kind::connection, this};
  // The accept was sent, but the peer's confirmation is still missing. The peer may already send.
  bool accepted = false;
  // The connection manager considers the connection established, so the peer must be notified of its end.
  bool established = false;
  // Both sides know that the connection has ended, but earlier packets may still be in flight.
  bool in_timewait = false;

  // Reduces the requested depths to the limits of the device. Call before the functions below.
  void fit(Device&);
  // Number of completion queue entries that the connection needs if all its work requests and receives are
  // outstanding.
  std::uint32_t entries() const noexcept;
  // Creates the queue pair on the device and posts the receives that were waiting for it. Logs the reason of
  // a failure. The queue must have room; nullptr means that it could not be created (errno has the reason).
  bool open(Device&, SharedQueue*);
  SharedQueue* queue() const noexcept { return queue_; }
  const Retries& retries() const noexcept { return retries_; }
  // Moves the queue pair through its states until it can send.
  bool make_ready();
  // Ends all use of memory and device; the bytes of reported events stay valid.
  void close() noexcept;
  // Like close(), but keeps the queue pair so that its number stays reserved; returns nullptr if there is no
  // queue pair.
  std::unique_ptr<Shell> close_keeping_number() noexcept;

  // Accepts requests from the start of the span while they belong to this connection and there is room;
  // returns their number. If it accepts fewer, failed() is true unless the reason was lack of room. Requests
  // are sent by flush(), together with those of bind() and post_receive(), so that one step rings one
  // doorbell.
  std::size_t post(std::span<const WorkRequest>) noexcept;
  bool failed() const noexcept { return failed_; }
  Reason failure() const noexcept { return short_of_memory_ ? Reason::no_resources : Reason::post_failed; }
  void post_receive(unsigned count, std::uint32_t bytes) noexcept;
  // Fast path to post one more receive of the size of the last one. Returns false without effect if that is
  // not possible.
  bool post_receive_again(unsigned count, std::uint32_t bytes) noexcept {
    return stage_ == Stage::up && !failed_ && receives_.post_again(tag_, count, bytes);
  }
  // Binds a window; its completion is reported as ChunkInvalidated if `report`. The binding is posted when
  // there is room, before any request that is posted later.
  bool bind(const WindowBind&, Bind, std::uint64_t cookie, bool report) noexcept;
  // Call before a window is bound again: a chain may bind a window only once, because the library reads the
  // current key from the window.
  void flush_chain_with(RemoteKeyId) noexcept;
  bool has_done(std::uint64_t number) const noexcept { return qp_ == nullptr || number < done_sends_; }
  // Number of receives filled by the peer.
  std::uint64_t heard() const noexcept { return heard_; }
  // Keeps the window until work request `number`, which uses it, has completed.
  void keep(std::uint64_t number, WindowHandle);
  void flush() noexcept;
  bool has_unposted_bind_of(const ibv_mw& window) const noexcept {
    for (std::size_t i = 0; i < chain_.bind_count; ++i)
      if (chain_.requests[chain_.binds[i]].bind_mw.mw == &window) return true;
    return false;
  }
  bool has_unposted() const noexcept {
    return chain_.size != 0 || !waiting_.empty() || receives_.has_unposted();
  }
  // Cancels bindings of the window that wait for room.
  void forget_window(const ibv_mw& window) noexcept {
    if (!waiting_.empty()) forget_waiting(window);
  }
  void forget_windows_of(RegionId) noexcept;

  // Processes a completion of this connection. Returns true if it produces an event. Reports nothing after
  // ConnectionLost.
  bool translate(const ibv_wc&, FabricEvent&) noexcept;
  // Processes a completion of a connection that reports no events any more.
  void settle(const ibv_wc&) noexcept;
  void lost(FabricEvent&, Reason) noexcept;
  void reuse_shown() noexcept { receives_.reuse_shown(); }
  bool has_shown() const noexcept { return receives_.has_shown(); }

  // Maintained by the fabric. Ending: the loss is to be reported. Unposted: the next poll() posts collected
  // work. Shown: reported bytes are in use until the next poll().
  bool in_ending_list = false;
  bool in_unposted_list = false;
  bool in_shown_list = false;

 private:
  struct SendSlot {
    std::uint64_t cookie = 0;
    enum class What : std::uint8_t { work, binding, killing } what = What::work;
    bool report = false;
    bool bounced = false;      // uses a buffer of bounces_
    bool tries_chain = false;  // type 1 window bound in a chain to test it, see Device::type_1_chains
    std::unique_ptr<std::byte[]> bounce;
    std::uint32_t bounce_size = 0;
    MemoryHandle bounce_handle;
  };
  // Work requests posted by one call. Each is permanently linked to the next one and to its pieces.
  struct Chain {
    static constexpr std::size_t kMost = 32;
    std::array<ibv_send_wr, kMost> requests;
    std::array<std::array<ibv_sge, 2>, kMost> pieces;
    // Messages of up to this many bytes are copied here and sent inline. Devices may allow longer inline
    // messages than requested, but messages longer than this are rare.
    static constexpr std::size_t kCopied = 128;
    std::array<std::array<std::byte, kCopied>, kMost> copies;
    std::array<std::uint32_t, kMost> old_keys, shown_keys;  // keys of the windows in `binds`
    std::array<std::uint8_t, kMost> binds;                  // indices of the work requests that bind windows
    std::size_t size = 0, bind_count = 0;
    Chain() noexcept;
  };

  // A binding of a window. The rkey field of the window already holds `new_key`.
  struct Binding {
    const WindowBind& what;
    Bind how;
    std::uint64_t cookie;
    bool report;
    std::uint32_t old_key, new_key;
  };
  struct Waiting {
    WindowBind what;
    Bind how;
    std::uint64_t cookie;
    bool report;
    std::uint32_t old_key, new_key;
  };
  // Buffers for messages that are too long for inline data; used in turn.
  struct Bounces {
    std::unique_ptr<std::byte[]> memory;
    MemoryHandle handle;
    std::uint32_t count = 0, free = 0, next = 0;
  };

  bool has_room() const noexcept { return next_send_ - done_sends_ < depth(); }
  inline bool place(const Binding&) noexcept;
  // Variant of place() for devices that are not known to bind type 1 windows in a chain.
  bool place_first(const Binding&, unsigned flags) noexcept;
  bool wait_for_room(const Binding&) noexcept;
  void forget_waiting(const ibv_mw&) noexcept;
  void place_waiting() noexcept;
  bool make_bounces(const Device&);
  bool needs_bounce(const WorkRequest&) const noexcept;
  std::uint32_t depth() const noexcept { return params_.send_depth + params_.key_depth; }
  inline ibv_send_wr& next_in_chain() noexcept;
  inline void close_link() noexcept;
  // Posts the prepared receives and the prepared chain of work requests.
  void flush_placed() noexcept;
  inline int send_chain() noexcept;
  // Posts with ibv_wr_*() (verbs_calls.cpp).
  bool fits_calls() const noexcept;
  int call_chain() noexcept;
  inline void call(const ibv_send_wr&, std::uint32_t old_key) noexcept;
  inline void call_for_data(const ibv_send_wr&) noexcept;
  void refused_chain(int error) noexcept;
  inline void bind_in_chain(const Binding&, unsigned flags) noexcept;
  // Returns false if the device does not support type 1 windows in a chain; nothing was posted then.
  bool try_bind_in_chain(const Binding&, unsigned flags) noexcept;
  // Binds with ibv_bind_mw(), the separate call for type 1 windows.
  bool bind_alone(const Binding&, unsigned flags) noexcept;
  // Sets Device::type_1_chains from the status of the first type 1 binding in a chain.
  void judge_chains(ibv_wc_status) noexcept;
  std::uint64_t number_of(std::uint64_t wr_id) const noexcept;
  bool create_queue_pair(Device&);
  bool change(ibv_qp_state state);
  // Call before the queue pair is destroyed or kept as a shell. Returns false if it cannot be stopped.
  bool stop() noexcept;
  // True if the next work request must request a completion.
  bool ask_for_completion(bool wanted) noexcept;
  inline bool fill(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>, SendSlot&) noexcept;
  bool fill_message(const WorkRequest&, ibv_send_wr&, ibv_sge&, SendSlot&) noexcept;
  inline bool fill_write(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>) noexcept;
  bool register_and_fill(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>) noexcept;
  bool translate_receive(const ibv_wc&, FabricEvent&) noexcept;
  void show_message(const ibv_wc&, std::uint32_t place, FabricEvent&) noexcept;
  bool retire(std::uint64_t wr_id, FabricEvent&) noexcept;
  bool translate_error(const ibv_wc&, FabricEvent&) noexcept;

  FabricParts fabric_parts_;
  ConKey key_;
  ConnectionParams params_;
  bool is_client_;
  std::vector<std::byte> private_data_;
  Stage stage_ = Stage::pending;
  Reason ending_ = Reason::none;
  bool failed_ = false;
  bool short_of_memory_ = false;  // failed_ is set because of a lack of memory
  bool comm_est_notified_ = false;
  Device* device_ = nullptr;
  std::uint32_t inline_limit_ = 0;
  Retries retries_;

  std::vector<SendSlot> sends_;  // ring; its size is a power of two
  std::size_t send_mask_;
  std::uint32_t signal_every_;
  std::uint64_t next_send_ = 0;
  std::uint64_t done_sends_ = 0;
  std::uint64_t heard_ = 0;
  std::uint32_t outstanding_work_ = 0;  // number of outstanding work requests, except those that bind windows
  std::uint32_t since_signal_ = 0;
  Chain chain_;
  std::deque<Waiting> waiting_;  // bindings that wait for room
  Bounces bounces_;

  std::vector<std::pair<std::uint64_t, WindowHandle>> kept_windows_;
  Receives receives_;
  // Receives requested before the queue pair existed.
  std::vector<std::pair<unsigned, std::uint32_t>> early_receives_;

  SharedQueue* queue_ = nullptr;
  std::uint64_t tag_ = 0;  // tag of this connection's work requests in the queue
  QpHandle qp_;
  // `qp_` with its ibv_wr_*() interface; nullptr if the library does not support this interface.
  ibv_qp_ex* calls_ = nullptr;
};

}  // namespace rtrs::verbs
