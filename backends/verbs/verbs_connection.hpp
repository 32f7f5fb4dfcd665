// One connection: its queue pair, a completion queue of its own, what is outstanding on it and where it
// receives. Its queue has room for all of that, so that it cannot overrun.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/verbs/verbs_device.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "backends/verbs/verbs_memory.hpp"
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

  // The identifier, which outlives the queue pair.
  IdHandle id;
  Owner owner{Owner::Kind::connection, this};
  // The peer was sent the last word but one of connecting, and may be there any time.
  bool accepted = false;
  // The connection manager holds it established, so the peer has to be told of its end.
  bool established = false;

  // Makes queue and queue pair on the device and posts the receives that were waiting for them. The reason of
  // a failure is logged.
  bool open(Device&);
  // Through the states of a queue pair to the one that can send.
  bool make_ready();
  // Ends all use of memory and device; bytes of events stay.
  void close() noexcept;

  // Posts those of the first requests that are this connection's and for which there is room; their number.
  // With fewer than it could be, failed() tells whether that was for lack of room.
  std::size_t post(std::span<const WorkRequest>) noexcept;
  bool failed() const noexcept { return failed_; }
  Reason failure() const noexcept { return short_of_memory_ ? Reason::no_resources : Reason::post_failed; }
  void post_receive(unsigned count, std::uint32_t bytes) noexcept;
  // Binds a window; its completion is reported as ChunkInvalidated when `report`. Goes out with the next
  // post() or flush(), whichever comes first.
  bool bind(const WindowBind&, Bind, std::uint64_t cookie, bool report) noexcept;
  void flush() noexcept;
  bool has_unposted() const noexcept { return chain_.size != 0; }

  // Reads completions; each makes at most one event. After ConnectionLost nothing is reported. `drained`:
  // nothing is left to read.
  std::size_t read(std::span<FabricEvent>, bool& drained) noexcept;
  // Asks the device to name this connection when something completes; false when something has already.
  bool arm() noexcept;
  void reuse_shown() noexcept { receives_.reuse_shown(); }
  bool has_shown() const noexcept { return receives_.has_shown(); }

  // Kept by the fabric: to be read by each poll(), and to be flushed by the next.
  bool in_active_list = false;
  bool in_unposted_list = false;

 private:
  struct SendSlot {
    std::uint64_t cookie = 0;
    enum class What : std::uint8_t { work, binding, killing } what = What::work;
    bool report = false;
    std::unique_ptr<std::byte[]> bounce;
    std::uint32_t bounce_size = 0;
    MemoryHandle bounce_handle;
  };
  // Work requests that go to the device by one call.
  struct Chain {
    std::array<ibv_send_wr, 16> requests;
    std::array<std::array<ibv_sge, 2>, 16> pieces;
    std::array<std::uint32_t, 16> old_keys;  // of windows that are bound
    std::size_t size = 0;
  };

  std::uint32_t depth() const noexcept { return params_.send_depth + params_.key_depth; }
  ibv_send_wr& next_in_chain() noexcept;
  void close_link() noexcept;
  bool create_queue_pair(Device&);
  bool change(ibv_qp_state state);
  // True when the next work request has to ask for a completion.
  bool ask_for_completion(bool wanted) noexcept;
  bool fill(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>, SendSlot&) noexcept;
  bool fill_message(const WorkRequest&, ibv_send_wr&, ibv_sge&, SendSlot&) noexcept;
  void fill_write(const WorkRequest&, ibv_send_wr&, std::span<ibv_sge, 2>) noexcept;
  bool translate(const ibv_wc&, FabricEvent&) noexcept;
  bool translate_receive(const ibv_wc&, FabricEvent&) noexcept;
  bool retire(std::uint64_t number, FabricEvent&) noexcept;
  bool translate_error(const ibv_wc&, FabricEvent&) noexcept;
  void lost(FabricEvent&, Reason) noexcept;

  Surroundings around_;
  ConKey key_;
  ConnectionParams params_;
  bool is_client_;
  std::vector<std::byte> private_data_;
  Stage stage_ = Stage::pending;
  Reason ending_ = Reason::none;
  bool failed_ = false;
  bool short_of_memory_ = false;  // and that is why
  Device* device_ = nullptr;
  std::uint32_t inline_limit_ = 0;

  std::vector<SendSlot> sends_;  // ring; its size is a power of two
  std::uint64_t next_send_ = 0;
  std::uint64_t done_sends_ = 0;
  std::uint32_t outstanding_work_ = 0;  // of the caller; the rest binds windows
  std::uint32_t since_signal_ = 0;
  Chain chain_;

  Receives receives_;
  std::vector<std::pair<unsigned, std::uint32_t>> early_receives_;  // before there was a queue pair

  std::array<ibv_wc, 16> stash_;  // read when the queue was armed
  unsigned stashed_ = 0;
  QueueHandle queue_;
  QpHandle qp_;
};

}  // namespace rtrs::verbs
