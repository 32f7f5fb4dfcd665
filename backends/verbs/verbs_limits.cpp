#include "backends/verbs/verbs_limits.hpp"

#include <algorithm>

#include "backends/verbs/verbs_handles.hpp"

namespace rtrs::verbs {
namespace {

// Every RTRS connection needs as many.
constexpr std::uint32_t kSmallDepth = 64;
constexpr std::uint32_t kInlineStep = 32;

}  // namespace

ibv_qp* make_queue_pair(ibv_pd* domain, ibv_qp_init_attr& wanted, std::uint32_t inline_bytes) {
  for (;; inline_bytes -= kInlineStep) {
    ibv_qp_init_attr attempt = wanted;
    attempt.cap.max_inline_data = inline_bytes;
    if (ibv_qp* const made = ibv_create_qp(domain, &attempt)) {
      wanted.cap = attempt.cap;
      return made;
    }
    if (inline_bytes < kInlineStep) return nullptr;
  }
}

std::optional<Limits> try_queue_pairs(ibv_context* context, ibv_pd* domain, std::uint32_t most) {
  const QueueHandle queue(ibv_create_cq(context, 2 * kSmallDepth, nullptr, nullptr, 0));
  if (queue == nullptr) return std::nullopt;
  const auto attempt = [&](std::uint32_t depth, std::uint32_t& inline_bytes) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = depth,
                  .max_recv_wr = kSmallDepth,
                  .max_send_sge = 2,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    const std::uint32_t asked = inline_bytes;
    const QpHandle made(make_queue_pair(domain, wanted, asked));
    if (made != nullptr) inline_bytes = wanted.cap.max_inline_data;
    return made != nullptr;
  };
  Limits limits{kSmallDepth, kSmallMessage};
  if (!attempt(kSmallDepth, limits.inline_bytes)) return std::nullopt;
  // The greatest that is as good with data inline.
  std::uint32_t too_many = most + 1;
  for (std::uint32_t depth = most; limits.send_depth + 1 < too_many;) {
    std::uint32_t granted = std::min(limits.inline_bytes, kSmallMessage);
    const std::uint32_t needed = granted;
    if (attempt(depth, granted) && granted >= needed)
      limits.send_depth = depth;
    else
      too_many = depth;
    depth = limits.send_depth + (too_many - limits.send_depth) / 2;
  }
  return limits;
}

}  // namespace rtrs::verbs
