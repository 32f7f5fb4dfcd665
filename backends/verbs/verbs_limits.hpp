// Measured limits of a device's queue pairs. The limits that a device reports hold for only one kind of work
// request; a send queue that also binds windows has fewer entries.
#pragma once
#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

namespace rtrs::verbs {

struct Limits {
  std::uint32_t send_depth = 0;    // maximum with messages of `inline_bytes`
  std::uint32_t inline_bytes = 0;  // maximum per work request
  std::uint64_t send_ops = 0;      // enum ibv_qp_create_send_ops_flags; 0: no ibv_wr_*()
};

// Maximum size in bytes of messages on the IO path: heartbeats, keys of chunks.
inline constexpr std::uint32_t kSmallMessage = 96;

// Creates a queue pair with these capabilities. Starts with `inline_bytes` and accepts less. Stores the
// granted capabilities in `cap`. `send_ops` are the operations posted with ibv_wr_*(). Returns nullptr on
// failure; errno has the reason.
ibv_qp* make_queue_pair(ibv_pd*, ibv_qp_init_attr&, std::uint32_t inline_bytes, std::uint64_t send_ops);

// Returns the ibv_wr_*() interface for `send_ops`. Returns nullptr if the queue pair was not created for
// them, or if its library grants operations that it does not implement.
ibv_qp_ex* calls_of(ibv_qp&, std::uint64_t send_ops) noexcept;

// Measures the limits by creating queue pairs: with `send_ops`, or without if the library does not support
// all of them. Returns nullopt if not even a small one could be created; errno has the reason.
std::optional<Limits> try_queue_pairs(ibv_context*, ibv_pd*, std::uint32_t most, std::uint64_t send_ops);

}  // namespace rtrs::verbs
