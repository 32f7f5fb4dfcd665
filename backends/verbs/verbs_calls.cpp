// Posts a chain with ibv_wr_*() instead of ibv_post_send(): either the whole chain or nothing.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/verbs/verbs_connection.hpp"

namespace rtrs::verbs {
namespace {

void* address_of(const ibv_sge& piece) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(piece.addr));
}

}  // namespace

// Returns false if the chain must be posted with ibv_post_send(). A queue pair accepts both interfaces in any
// order, so the choice per chain needs no rollback and no extra doorbell. ibv_wr_bind_mw() is for type 2
// windows only; mlx5 creates both types the same way. The soft-RoCE library does not check the type, but up
// to rdma-core 63 its ibv_wr_*() functions miscount data in two scatter/gather entries.
bool Connection::fits_calls() const noexcept {
  const auto requests = std::span(chain_.requests).first(chain_.size);
  if (device_->soft_roce)
    return std::none_of(requests.begin(), requests.end(), [](const auto& one) { return one.num_sge > 1; });
  const auto binds = std::span(chain_.binds).first(chain_.bind_count);
  return std::none_of(binds.begin(), binds.end(),
                      [&requests](std::uint8_t i) { return requests[i].bind_mw.mw->type == IBV_MW_TYPE_1; });
}

// The library holds a lock of the queue pair between start and completion of the chain. Some libraries take
// the same lock to read a completion, so no other function of the library is called between start and
// completion.
int Connection::call_chain() noexcept {
  ibv_wr_start(calls_);
  for (std::size_t i = 0; i < chain_.size; ++i) call(chain_.requests[i], chain_.old_keys[i]);
  chain_.size = chain_.bind_count = 0;
  return ibv_wr_complete(calls_);
}

// Passes all flags, because soft-RoCE recognises inline data by IBV_SEND_INLINE.
inline void Connection::call(const ibv_send_wr& request, std::uint32_t old_key) noexcept {
  calls_->wr_id = request.wr_id;
  calls_->wr_flags = request.send_flags;
  const auto& remote = request.wr.rdma;
  switch (request.opcode) {
    case IBV_WR_RDMA_WRITE:
      ibv_wr_rdma_write(calls_, remote.rkey, remote.remote_addr);
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      ibv_wr_rdma_write_imm(calls_, remote.rkey, remote.remote_addr, request.imm_data);
      break;
    case IBV_WR_SEND:
      ibv_wr_send(calls_);
      break;
    case IBV_WR_SEND_WITH_IMM:
      ibv_wr_send_imm(calls_, request.imm_data);
      break;
    case IBV_WR_SEND_WITH_INV:
      ibv_wr_send_inv(calls_, request.invalidate_rkey);
      break;
    default: {
      ibv_mw* const window = request.bind_mw.mw;
      const std::uint32_t shown = std::exchange(window->rkey, old_key);
      ibv_wr_bind_mw(calls_, window, request.bind_mw.rkey, &request.bind_mw.bind_info);
      window->rkey = shown;
      return;
    }
  }
  call_for_data(request);
}

// Called even without data, because mlx5 finishes a work request in this call.
inline void Connection::call_for_data(const ibv_send_wr& request) noexcept {
  const std::span pieces(request.sg_list, static_cast<std::size_t>(request.num_sge));
  if (pieces.empty()) return ibv_wr_set_sge(calls_, 0, 0, 0);
  const ibv_sge& first = pieces.front();
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  if (pieces.size() == 1) {
    if (is_inline) return ibv_wr_set_inline_data(calls_, address_of(first), first.length);
    return ibv_wr_set_sge(calls_, first.lkey, first.addr, first.length);
  }
  if (!is_inline) return ibv_wr_set_sge_list(calls_, pieces.size(), pieces.data());
  const std::array buffers{ibv_data_buf{address_of(first), first.length},
                           ibv_data_buf{address_of(pieces.back()), pieces.back().length}};
  ibv_wr_set_inline_data_list(calls_, buffers.size(), buffers.data());
}

}  // namespace rtrs::verbs
