#include "backends/verbs/verbs_limits.hpp"

#include <algorithm>

#include "backends/verbs/verbs_handles.hpp"

namespace rtrs::verbs {
namespace {

// Minimum number of send queue entries that an RTRS connection needs.
constexpr std::uint32_t kSmallDepth = 64;
constexpr std::uint32_t kInlineStep = 32;

ibv_qp* create(ibv_pd* domain, ibv_qp_init_attr& wanted, std::uint64_t send_ops) {
  if (send_ops == 0) return ibv_create_qp(domain, &wanted);
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = wanted.qp_context;
  extended.send_cq = wanted.send_cq;
  extended.recv_cq = wanted.recv_cq;
  extended.cap = wanted.cap;
  extended.qp_type = wanted.qp_type;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  extended.pd = domain;
  extended.send_ops_flags = send_ops;
  ibv_qp* const made = ibv_create_qp_ex(domain->context, &extended);
  if (made != nullptr) wanted.cap = extended.cap;
  return made;
}

}  // namespace

ibv_qp* make_queue_pair(ibv_pd* domain, ibv_qp_init_attr& wanted, std::uint32_t inline_bytes,
                        std::uint64_t send_ops) {
  for (;; inline_bytes -= kInlineStep) {
    ibv_qp_init_attr attempt = wanted;
    attempt.cap.max_inline_data = inline_bytes;
    if (ibv_qp* const made = create(domain, attempt, send_ops)) {
      wanted.cap = attempt.cap;
      return made;
    }
    if (inline_bytes < kInlineStep) return nullptr;
  }
}

ibv_qp_ex* calls_of(ibv_qp& pair, std::uint64_t send_ops) noexcept {
  ibv_qp_ex* const calls = send_ops == 0 ? nullptr : ibv_qp_to_qp_ex(&pair);
  if (calls == nullptr) return nullptr;
  const auto lacks = [send_ops](std::uint64_t op, auto* function) {
    return (send_ops & op) != 0 && function == nullptr;
  };
  const bool lacking = lacks(IBV_QP_EX_WITH_RDMA_WRITE, calls->wr_rdma_write) ||
                       lacks(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, calls->wr_rdma_write_imm) ||
                       lacks(IBV_QP_EX_WITH_SEND, calls->wr_send) ||
                       lacks(IBV_QP_EX_WITH_SEND_WITH_IMM, calls->wr_send_imm) ||
                       lacks(IBV_QP_EX_WITH_SEND_WITH_INV, calls->wr_send_inv) ||
                       lacks(IBV_QP_EX_WITH_BIND_MW, calls->wr_bind_mw);
  return lacking ? nullptr : calls;
}

namespace {

std::optional<Limits> try_kind(ibv_context* context, ibv_pd* domain, std::uint32_t most,
                               std::uint64_t send_ops) {
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
    const QpHandle made(make_queue_pair(domain, wanted, asked, send_ops));
    if (made == nullptr || (send_ops != 0 && calls_of(*made, send_ops) == nullptr)) return false;
    inline_bytes = wanted.cap.max_inline_data;
    return true;
  };
  Limits limits{kSmallDepth, kSmallMessage, send_ops};
  if (!attempt(kSmallDepth, limits.inline_bytes)) return std::nullopt;
  // Finds by bisection the greatest depth with the same inline size.
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

}  // namespace

std::optional<Limits> try_queue_pairs(ibv_context* context, ibv_pd* domain, std::uint32_t most,
                                      std::uint64_t send_ops) {
  if (send_ops != 0)
    if (const auto limits = try_kind(context, domain, most, send_ops)) return limits;
  return try_kind(context, domain, most, 0);
}

}  // namespace rtrs::verbs
