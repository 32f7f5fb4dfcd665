// One connection: its queue pair, what is outstanding on it and where it receives.
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

// Whose a communication identifier is; its context points to one of these.
struct Owner {
  enum class Kind : std::uint8_t { listener, request, connection, leaving };
  Kind kind;
  void* object;
};

// What a connection needs of its fabric.
struct Surroundings {
  const VerbsOptions& options;
  Memory& memory;
  VerbsStats& stats;
};

// A queue pair that does nothing any more, and whose number is not given to another one.
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

  Connection(const Surroundings&, ConKey, const ConnectionParams&, bool is_client,
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
  // The peer is gone: what has arrived is still reported, then the loss.
  void set_ending(Reason reason) noexcept { ending_ = reason; }
  Reason ending() const noexcept { return ending_; }

  // The identifier, which outlives the queue pair.
  IdHandle id;
  Owner owner{Owner::Kind::connection, this};
  // The peer was sent the last word but one of connecting, and may be there any time.
  bool accepted = false;
  // The connection manager holds it established, so the peer has to be told of its end.
  bool established = false;
  // Both sides know of the end, and packets of before may still be on their way.
  bool in_timewait = false;

  // Asks for no more than the device can hold; before the rest.
  void fit(Device&);
  // Of a completion queue, for all that may be outstanding.
  std::uint32_t entries() const noexcept;
  // Makes the queue pair on the device and posts the receives that were waiting for it. The reason of a
  // failure is logged. The queue has room, or there is none (errno says why).
  bool open(Device&, SharedQueue*);
  SharedQueue* queue() const noexcept { return queue_; }
  const Retries& retries() const noexcept { return retries_; }
  // Through the states of a queue pair to the one that can send.
  bool make_ready();
  // Ends all use of memory and device; bytes of events stay.
  void close() noexcept;
  // The same, and the number of the queue pair stays taken; nullptr: there is none.
  std::unique_ptr<Shell> close_but_number() noexcept;

  // Takes those of the first requests that are this connection's and for which there is room; their number.
  // With fewer than it could be, failed() tells whether that was for lack of room. They go out with flush(),
  // as what bind() and post_receive() ask for does: what one step asks for rings one doorbell.
  std::size_t post(std::span<const WorkRequest>) noexcept;
  bool failed() const noexcept { return failed_; }
  Reason failure() const noexcept { return short_of_memory_ ? Reason::no_resources : Reason::post_failed; }
  void post_receive(unsigned count, std::uint32_t bytes) noexcept;
  // The same of one more as the last; false: not so, and nothing was done.
  bool post_receive_again(unsigned count, std::uint32_t bytes) noexcept {
    return stage_ == Stage::up && !failed_ && receives_.post_again(tag_, count, bytes);
  }
  // Binds a window; its completion is reported as ChunkInvalidated when `report`. Goes out when there is
  // room, and before what is posted after it.
  bool bind(const WindowBind&, Bind, std::uint64_t cookie, bool report) noexcept;
  // Before a window is bound again: a chain binds it once, for the library reads from it which key it has.
  void end_chain_of(RemoteKeyId) noexcept;
  bool has_done(std::uint64_t number) const noexcept { return qp_ == nullptr || number < done_sends_; }
  // Receives that its peer has filled.
  std::uint64_t heard() const noexcept { return heard_; }
  // Until that work request, which names it, is done.
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
  // What waits for room is not bound any more.
  void forget_window(const ibv_mw& window) noexcept {
    if (!waiting_.empty()) forget_waiting(window);
  }
  void forget_windows_of(RegionId) noexcept;

  // A completion of this connection; true: it makes an event. After ConnectionLost nothing is reported.
  bool translate(const ibv_wc&, FabricEvent&) noexcept;
  // The same of a connection that nobody wants to hear of any more.
  void settle(const ibv_wc&) noexcept;
  void lost(FabricEvent&, Reason) noexcept;
  void reuse_shown() noexcept { receives_.reuse_shown(); }
  bool has_shown() const noexcept { return receives_.has_shown(); }

  // Kept by the fabric: its loss is to be reported, it is to be flushed by the next poll(), it shows bytes
  // until the next poll().
  bool in_ending_list = false;
  bool in_unposted_list = false;
  bool in_shown_list = false;

 private:
  struct SendSlot {
    std::uint64_t cookie = 0;
    enum class What : std::uint8_t { work, binding, killing } what = What::work;
    bool report = false;
    bool bounced = false;      // from bounces_
    bool tries_chain = false;  // a window of type 1, as Device::type_1_chains says
    std::unique_ptr<std::byte[]> bounce;
    std::uint32_t bounce_size = 0;
    MemoryHandle bounce_handle;
  };
  // Work requests that go to the device by one call. Each leads to the next and to its pieces for good.
  struct Chain {
    static constexpr std::size_t kMost = 32;
    std::array<ibv_send_wr, kMost> requests;
    std::array<std::array<ibv_sge, 2>, kMost> pieces;
    // Of messages that go inline, which are the caller's. Devices grant more than was asked for, and a longer
    // message than this is rare.
    static constexpr std::size_t kCopied = 128;
    std::array<std::array<std::byte, kCopied>, kMost> copies;
    std::array<std::uint32_t, kMost> old_keys, shown_keys;  // of windows that are bound
    std::array<std::uint8_t, kMost> binds;                  // which of the work requests do that
    std::size_t size = 0, bind_count = 0;
    Chain() noexcept;
  };

  // A binding of a window, which shows its new key from now on.
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
  // Where messages wait that are too long for a work request of the device; used in turn.
  struct Bounces {
    std::unique_ptr<std::byte[]> memory;
    MemoryHandle handle;
    std::uint32_t count = 0, free = 0, next = 0;
  };

  bool has_room() const noexcept { return next_send_ - done_sends_ < depth(); }
  inline bool place(const Binding&) noexcept;
  // On a device that was not asked yet whether it binds windows of type 1 in a chain, or does not.
  bool place_first(const Binding&, unsigned flags) noexcept;
  bool wait_for_room(const Binding&) noexcept;
  void forget_waiting(const ibv_mw&) noexcept;
  void place_waiting() noexcept;
  bool make_bounces(const Device&);
  bool needs_bounce(const WorkRequest&) const noexcept;
  std::uint32_t depth() const noexcept { return params_.send_depth + params_.key_depth; }
  inline ibv_send_wr& next_in_chain() noexcept;
  inline void close_link() noexcept;
  // What has found room.
  void flush_placed() noexcept;
  inline int send_chain() noexcept;
  // By ibv_wr_*() (verbs_calls.cpp).
  bool fits_calls() const noexcept;
  int call_chain() noexcept;
  inline void call(const ibv_send_wr&, std::uint32_t old_key) noexcept;
  inline void call_for_data(const ibv_send_wr&) noexcept;
  void refused_chain(int error) noexcept;
  inline void bind_in_chain(const Binding&, unsigned flags) noexcept;
  // False: the device refuses windows of type 1 so, and nothing was asked of it.
  bool try_bind_in_chain(const Binding&, unsigned flags) noexcept;
  // By the call that is made for windows of type 1.
  bool bind_alone(const Binding&, unsigned flags) noexcept;
  // How a binding of type 1 in a chain ended.
  void judge_chains(ibv_wc_status) noexcept;
  std::uint64_t number_of(std::uint64_t wr_id) const noexcept;
  bool create_queue_pair(Device&);
  bool change(ibv_qp_state state);
  // Before the queue pair is gone, or nothing of it but its number is left. False: it cannot be stopped.
  bool stop() noexcept;
  // True when the next work request has to ask for a completion.
  bool ask_for_completion(bool wanted) noexcept;
  inline bool fill(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>, SendSlot&) noexcept;
  bool fill_message(const WorkRequest&, ibv_send_wr&, ibv_sge&, SendSlot&) noexcept;
  inline bool fill_write(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>) noexcept;
  bool register_and_fill(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>) noexcept;
  bool translate_receive(const ibv_wc&, FabricEvent&) noexcept;
  void show_message(const ibv_wc&, std::uint32_t place, FabricEvent&) noexcept;
  bool retire(std::uint64_t wr_id, FabricEvent&) noexcept;
  bool translate_error(const ibv_wc&, FabricEvent&) noexcept;

  Surroundings around_;
  ConKey key_;
  ConnectionParams params_;
  bool is_client_;
  std::vector<std::byte> private_data_;
  Stage stage_ = Stage::pending;
  Reason ending_ = Reason::none;
  bool failed_ = false;
  bool short_of_memory_ = false;  // and that is why
  bool told_of_data_ = false;
  Device* device_ = nullptr;
  std::uint32_t inline_limit_ = 0;
  Retries retries_;

  std::vector<SendSlot> sends_;  // ring; its size is a power of two
  std::size_t send_mask_;
  std::uint32_t signal_every_;
  std::uint64_t next_send_ = 0;
  std::uint64_t done_sends_ = 0;
  std::uint64_t heard_ = 0;
  std::uint32_t outstanding_work_ = 0;  // of the caller; the rest binds windows
  std::uint32_t since_signal_ = 0;
  Chain chain_;
  std::deque<Waiting> waiting_;  // for room
  Bounces bounces_;

  std::vector<std::pair<std::uint64_t, WindowHandle>> kept_windows_;
  Receives receives_;
  std::vector<std::pair<unsigned, std::uint32_t>> early_receives_;  // before there was a queue pair

  SharedQueue* queue_ = nullptr;
  std::uint64_t tag_ = 0;  // of its work requests in the queue
  QpHandle qp_;
  ibv_qp_ex* calls_ = nullptr;  // the same; nullptr: it takes no ibv_wr_*()
};

}  // namespace rtrs::verbs
