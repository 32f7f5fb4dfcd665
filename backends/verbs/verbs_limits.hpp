// What queue pairs of a device can really be: what a device says of itself holds for one kind of work
// request, and a send queue of those that bind windows holds fewer.
#pragma once
#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

namespace rtrs::verbs {

struct Limits {
  std::uint32_t send_depth = 0;    // with `inline_bytes`
  std::uint32_t inline_bytes = 0;  // of a work request
  std::uint64_t send_ops = 0;      // enum ibv_qp_create_send_ops_flags; 0: no ibv_wr_*()
};

// Messages of the IO path are not longer: heartbeats, keys of chunks.
inline constexpr std::uint32_t kSmallMessage = 96;

// A queue pair with these capabilities; `inline_bytes` is what is asked for first, and less is taken. `cap`
// becomes what was granted. `send_ops` are to be posted by ibv_wr_*(). nullptr: errno says why.
ibv_qp* make_queue_pair(ibv_pd*, ibv_qp_init_attr&, std::uint32_t inline_bytes, std::uint64_t send_ops);

// What `send_ops` are posted to it by; nullptr: it was not made for them, or its library grants more than it
// has.
ibv_qp_ex* calls_of(ibv_qp&, std::uint64_t send_ops) noexcept;

// Makes queue pairs until it knows: with `send_ops`, and without where the library has not all of them.
// Nothing: not even a small one could be made, and errno says why.
std::optional<Limits> try_queue_pairs(ibv_context*, ibv_pd*, std::uint32_t most, std::uint64_t send_ops);

}  // namespace rtrs::verbs
