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
};

// Messages of the IO path are not longer: heartbeats, keys of chunks.
inline constexpr std::uint32_t kSmallMessage = 96;

// A queue pair with these capabilities; `inline_bytes` is what is asked for first, and less is taken. `cap`
// becomes what was granted. nullptr: errno says why.
ibv_qp* make_queue_pair(ibv_pd*, ibv_qp_init_attr&, std::uint32_t inline_bytes);

// Makes queue pairs until it knows. Nothing: not even a small one could be made, and errno says why.
std::optional<Limits> try_queue_pairs(ibv_context*, ibv_pd*, std::uint32_t most);

}  // namespace rtrs::verbs
