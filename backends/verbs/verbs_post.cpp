// The posting half of Connection.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "backends/verbs/verbs_connection.hpp"
#include "backends/verbs/verbs_status.hpp"
#include "core/base/assert.hpp"

namespace rtrs::verbs {
namespace {

// Work requests that go to the device by one call.
constexpr std::size_t kChain = 16;
// Of them in a row that nobody wants to hear of.
constexpr std::uint32_t kUnsignalled = 64;

ibv_wr_opcode opcode_of(WorkRequest::Op op) noexcept {
  switch (op) {
    case WorkRequest::Op::write:
      return IBV_WR_RDMA_WRITE;
    case WorkRequest::Op::write_imm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case WorkRequest::Op::send:
      return IBV_WR_SEND;
    case WorkRequest::Op::send_imm:
      return IBV_WR_SEND_WITH_IMM;
    case WorkRequest::Op::send_inv:
      return IBV_WR_SEND_WITH_INV;
  }
  return IBV_WR_SEND;
}

}  // namespace

bool Connection::ask_for_completion(bool wanted) noexcept {
  // Only a completion frees places in the ring, so some are asked for whatever the caller wants.
  const bool ask = wanted || since_signal_ + 1 >= std::clamp(params_.send_depth / 2, 1u, kUnsignalled);
  since_signal_ = ask ? 0 : since_signal_ + 1;
  return ask;
}

std::size_t Connection::post(std::span<const WorkRequest> work) noexcept {
  std::array<ibv_send_wr, kChain> requests;
  std::array<std::array<ibv_sge, 2>, kChain> pieces;
  std::size_t taken = 0;
  while (taken < work.size() && work[taken].key == key_ && !failed_) {
    std::size_t count = 0;
    for (; count < kChain && taken + count < work.size(); ++count) {
      const WorkRequest& one = work[taken + count];
      const bool room = outstanding_work_ < params_.send_depth && next_send_ - done_sends_ < depth();
      if (one.key != key_ || !room) break;
      SendSlot& slot = sends_[next_send_ & (sends_.size() - 1)];
      slot.cookie = one.cookie;
      slot.what = SendSlot::What::work;
      slot.report = one.signalled;
      ibv_send_wr& request = requests[count];
      std::memset(&request, 0, sizeof request);
      request.wr_id = next_send_;
      request.send_flags = ask_for_completion(one.signalled) ? IBV_SEND_SIGNALED : 0;
      if (!fill(one, request, pieces[count], slot)) {
        failed_ = true;
        break;
      }
      if (count > 0) requests[count - 1].next = &request;
      ++next_send_;
      ++outstanding_work_;
    }
    if (count == 0) break;
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(qp_.get(), requests.data(), &refused);
    if (error != 0) {
      say(around_.options, LogLevel::error, describe() + ": cannot post: " + errno_text(std::abs(error)));
      failed_ = true;
    }
    taken += count;
  }
  return taken;
}

bool Connection::fill(const WorkRequest& work, ibv_send_wr& request, std::span<ibv_sge, 2> pieces,
                      SendSlot& slot) noexcept {
  request.opcode = opcode_of(work.op);
  request.sg_list = pieces.data();
  request.imm_data = htonl(work.imm);
  switch (work.op) {
    case WorkRequest::Op::write:
    case WorkRequest::Op::write_imm:
      fill_write(work, request, pieces);
      return true;
    case WorkRequest::Op::send_inv:
      request.invalidate_rkey = work.rkey;
      return true;
    case WorkRequest::Op::send:
    case WorkRequest::Op::send_imm:
      break;
  }
  return fill_message(work, request, pieces[0], slot);
}

void Connection::fill_write(const WorkRequest& work, ibv_send_wr& request,
                            std::span<ibv_sge, 2> pieces) noexcept {
  RTRS_ASSERT(work.part_count <= work.parts.size());
  std::size_t count = 0;
  std::uint32_t total = 0;
  for (const LocalPart& part : std::span(work.parts).first(work.part_count)) {
    if (part.length == 0) continue;
    pieces[count++] = around_.memory.piece(part, *device_);
    total += part.length;
  }
  request.num_sge = static_cast<int>(count);
  request.wr.rdma.remote_addr = work.remote_addr;
  request.wr.rdma.rkey = work.rkey;
  if (count != 0 && total <= inline_limit_) request.send_flags |= IBV_SEND_INLINE;
}

bool Connection::fill_message(const WorkRequest& work, ibv_send_wr& request, ibv_sge& piece,
                              SendSlot& slot) noexcept {
  const auto size = static_cast<std::uint32_t>(work.inline_bytes.size());
  request.num_sge = size == 0 ? 0 : 1;
  if (size == 0) return true;
  piece = {.addr = reinterpret_cast<std::uintptr_t>(work.inline_bytes.data()), .length = size, .lkey = 0};
  if (size <= inline_limit_) {
    request.send_flags |= IBV_SEND_INLINE;
    return true;
  }
  if (slot.bounce_size < size) {
    slot.bounce_handle.reset();
    slot.bounce_size = 0;
    slot.bounce.reset(new (std::nothrow) std::byte[size]);
    if (slot.bounce == nullptr) return false;
    slot.bounce_handle.reset(ibv_reg_mr(device_->domain.get(), slot.bounce.get(), size, 0));
    if (slot.bounce_handle == nullptr) return false;
    slot.bounce_size = size;
  }
  std::memcpy(slot.bounce.get(), work.inline_bytes.data(), size);
  piece.addr = reinterpret_cast<std::uintptr_t>(slot.bounce.get());
  piece.lkey = slot.bounce_handle->lkey;
  return true;
}

bool Connection::bind(const WindowBind& bind, Bind how, std::uint64_t cookie, bool report) noexcept {
  if (stage_ != Stage::up || failed_) return false;
  if (next_send_ - done_sends_ >= depth()) {
    say(around_.options, LogLevel::error, describe() + ": no room to bind a memory window");
    return false;
  }
  SendSlot& slot = sends_[next_send_ & (sends_.size() - 1)];
  slot.cookie = cookie;
  slot.what = how == Bind::close ? SendSlot::What::killing : SendSlot::What::binding;
  slot.report = report;
  const unsigned flags = ask_for_completion(report) ? unsigned{IBV_SEND_SIGNALED} : 0U;
  int error = 0;
  if (bind.window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind request{};
    request.wr_id = next_send_;
    request.send_flags = flags;
    request.bind_info = bind.info;
    error = ibv_bind_mw(qp_.get(), bind.window, &request);
  } else {
    ibv_send_wr request{};
    request.wr_id = next_send_;
    request.send_flags = flags;
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = bind.window;
    request.bind_mw.rkey = ibv_inc_rkey(bind.window->rkey);
    request.bind_mw.bind_info = bind.info;
    ibv_send_wr* refused = nullptr;
    error = ibv_post_send(qp_.get(), &request, &refused);
    if (error == 0) bind.window->rkey = request.bind_mw.rkey;
  }
  if (error != 0) {
    say(around_.options, LogLevel::error,
        describe() + ": cannot bind a memory window: " + errno_text(std::abs(error)));
    return false;
  }
  ++next_send_;
  return true;
}

}  // namespace rtrs::verbs
