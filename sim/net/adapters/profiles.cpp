#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::mock_hca {
namespace {

// MLX5_SUPPORTED_SEND_OPS_FLAGS_RC and RXE_SUP_RC_QP_SEND_OPS_FLAGS of rdma-core 44. The irdma and hfi1
// libraries support no such operations; the bnxt_re library has supported some since rdma-core 56.
constexpr std::uint64_t kCalls = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
                                 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;

}  // namespace

// drivers/infiniband/sw/rxe/rxe_param.h of Linux 6.12: RXE_MAX_QP_WR_, RXE_MAX_SGE, RXE_MAX_CQE,
// RXE_MAX_INLINE_DATA. Completions carry the kernel's flag (IB_WC_WITH_INVALIDATE in
// include/rdma/ib_verbs.h).
Profile rxe() {
  Profile one;
  one.name = "rxe0";
  one.vendor = 0xffffff;
  one.max_qp_wr = 1'048'576;
  one.max_sge = 32;
  one.max_cqe = 32767;
  one.max_inline = 512;
  one.max_message = 1U << 31;
  one.with_invalidate = 1U << 2;
  one.destroy_cleans_cq = false;
  one.flushes_when_taken_out = true;
  one.calls = kCalls;
  one.calls_of_soft_roce = true;
  return one;
}

// providers/mlx5 of rdma-core removes completions of a destroyed queue pair in __mlx5_cq_clean().
// _sq_overhead() of an RC queue pair includes room for a bind; mlx5_calc_send_wqe() and mlx5_calc_sq_size()
// compute the rest. A send queue holds max_qp_wr units of 64 bytes.
Profile mlx5() {
  Profile one;
  one.name = "mlx5_0";
  one.max_qp_wr = 32768;
  one.send_queue_bytes = 32768 * 64;
  one.work_bytes = 192;
  one.thread_domains = true;
  one.calls = kCalls;
  return one;
}

// drivers/infiniband/hw/irdma of Linux 6.12: IRDMA_QP_SW_MAX_WQ_QUANTA is 32,768 quanta of 32 bytes. A work
// request with inline data takes up to 8 quanta.
Profile irdma() {
  Profile one;
  one.name = "irdma0";
  one.vendor = 0x8086;
  one.max_qp_wr = 4096;
  one.max_sge = 13;
  one.max_inline = 101;
  one.windows_type_2b = false;
  return one;
}

// drivers/infiniband/hw/bnxt_re of Linux 6.12 does not offer memory windows to user space.
Profile bnxt_re() {
  Profile one;
  one.name = "bnxt_re0";
  one.vendor = 0x14e4;
  one.max_qp_wr = 16384;
  one.max_sge = 6;
  one.max_inline = 96;
  one.windows_type_1 = one.windows_type_2b = false;
  return one;
}

// drivers/infiniband/hw/hfi1 of Linux 6.12 over rdmavt: no inline data, no windows.
Profile hfi1() {
  Profile one;
  one.name = "hfi1_0";
  one.vendor = 0x1175;
  one.max_qp_wr = 16384;
  one.max_inline = 0;
  one.windows_type_1 = one.windows_type_2b = false;
  return one;
}

Profile hostile(Profile one) {
  one.hostile = true;
  return one;
}

}  // namespace rtrs::mock_hca
