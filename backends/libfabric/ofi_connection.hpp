// One connection: its endpoint, its own completion queue, its outstanding work requests and its receive
// buffers.
//
// The queue is not shared, because the completion of a peer's write does not identify the endpoint
// (docs/fabric.md).
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "backends/libfabric/ofi_memory.hpp"
#include "backends/platform/address/socket_address.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::ofi {

// Parts of the fabric that a connection uses.
struct FabricParts {
  const OfiOptions& options;
  const Device& device;
  Memory& memory;
  OfiStats& stats;
};

class Connection {
 public:
  enum class Stage : std::uint8_t { pending, up, lost };
  enum class Posted : std::uint8_t { yes, try_later, failed };
  struct Read {
    std::size_t events = 0;
    bool drained = false;  // nothing is left to read
  };

  Connection(const FabricParts&, ConKey, const ConnectionParams&, bool is_client);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Creates the endpoint for `info`, which may be changed, and binds it to `events`. Returns 0 or a negative
  // libfabric error.
  int open(fi_info& info, fid_eq* events);
  // Call when the provider starts to connect the endpoint; close() then disconnects it.
  void set_begun() noexcept { begun_ = true; }
  // Stops the provider from using the connection's memory. May be called repeatedly.
  void close() noexcept;

  ConKey key() const noexcept { return key_; }
  bool is_client() const noexcept { return is_client_; }
  fid_ep* endpoint() noexcept { return endpoint_.get(); }
  fid_cq* queue() noexcept { return queue_.get(); }
  int wait_fd() const noexcept { return wait_fd_; }
  Stage stage() const noexcept { return stage_; }
  void set_stage(Stage stage) noexcept { stage_ = stage; }
  // The peer has disconnected: data that has arrived is still reported, then the loss.
  void set_ending(Reason reason) noexcept { ending_ = reason; }
  std::uint32_t outstanding() const noexcept { return static_cast<std::uint32_t>(next_send_ - done_sends_); }
  void set_addresses(const net::SocketAddress& client, const net::SocketAddress& server);
  // Reads the addresses from the endpoint.
  void read_addresses(unsigned undelivered_ms);
  const std::string& description() const noexcept { return description_; }

  Posted post(const WorkRequest&) noexcept;
  // Returns false if the provider rejected a receive.
  bool post_receive(std::uint32_t bytes) noexcept;
  // Reads completions; each produces at most one event. Reports nothing after ConnectionLost.
  Read read(std::span<FabricEvent>) noexcept;
  // Lets the buffers of events from earlier reads be reused.
  void reuse_delivered() noexcept;
  bool has_delivered() const noexcept { return !delivered_.empty(); }

  // Maintained by the poller: true while the connection is in the list of queues to read, or in the list of
  // queues to arm before sleeping.
  bool in_ready_list = false;
  bool in_unarmed_list = false;
  // Consecutive reads without a result since the last post.
  unsigned quiet_reads = 0;

 private:
  struct SendSlot {
    fi_context context;  // scratch space of the provider; first, because completions point to it
    std::uint64_t number;
    std::uint64_t cookie;
    bool report;
    Buffer bounce;
  };
  struct ReceiveSlot {
    fi_context context;
    Buffer buffer;
  };

  ssize_t submit(const WorkRequest&, SendSlot&, std::uint64_t flags) noexcept;
  ssize_t submit_write(const WorkRequest&, SendSlot&, std::uint64_t flags) noexcept;
  ssize_t submit_send(const WorkRequest&, SendSlot&, std::uint64_t flags) noexcept;
  bool translate(const fi_cq_data_entry&, FabricEvent&) noexcept;
  bool retire(const fi_cq_data_entry&, FabricEvent&) noexcept;
  // Removes one error completion from the queue. Returns true if it is the first sign of the loss.
  bool take_error(Reason&) noexcept;
  event::ConnectionLost lost(Reason) noexcept;

  FabricParts fabric_parts_;
  ConKey key_;
  ConnectionParams params_;
  bool is_client_;
  bool begun_ = false;
  Stage stage_ = Stage::pending;
  Reason ending_ = Reason::none;
  int wait_fd_ = -1;
  std::string description_ = "? > ?";

  std::vector<SendSlot> sends_;  // ring; its size is a power of two
  std::uint64_t next_send_ = 0;
  std::uint64_t done_sends_ = 0;
  std::uint32_t since_signal_ = 0;

  std::deque<ReceiveSlot> receives_;
  std::vector<ReceiveSlot*> free_receives_;
  std::vector<ReceiveSlot*> delivered_;

  // The endpoint is destroyed before the queue: provider tcp only partly frees a queue that is still in use.
  CompletionQueue queue_;
  Endpoint endpoint_;
};

}  // namespace rtrs::ofi
