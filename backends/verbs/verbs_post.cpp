// The posting half of Connection.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "backends/verbs/verbs_connection.hpp"
#include "backends/verbs/verbs_status.hpp"
#include "core/base/assert.hpp"

namespace rtrs::verbs {
namespace {

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
  std::size_t taken = 0;
  for (; taken < work.size() && work[taken].key == key_ && !failed_; ++taken) {
    const WorkRequest& one = work[taken];
    if (outstanding_work_ >= params_.send_depth || next_send_ - done_sends_ >= depth()) break;
    SendSlot& slot = sends_[next_send_ & (sends_.size() - 1)];
    slot.cookie = one.cookie;
    slot.what = SendSlot::What::work;
    slot.report = one.signalled;
    ibv_send_wr& request = next_in_chain();
    request.send_flags = ask_for_completion(one.signalled) ? IBV_SEND_SIGNALED : 0;
    if (!fill(one, request, chain_.pieces[chain_.size], slot)) {
      failed_ = true;
      break;
    }
    close_link();
    ++outstanding_work_;
  }
  // Before the caller's memory changes, from which short messages are copied.
  flush();
  return taken;
}

ibv_send_wr& Connection::next_in_chain() noexcept {
  if (chain_.size == chain_.requests.size()) flush();
  ibv_send_wr& request = chain_.requests[chain_.size];
  std::memset(&request, 0, sizeof request);
  request.wr_id = next_send_;
  return request;
}

void Connection::close_link() noexcept {
  if (chain_.size > 0) chain_.requests[chain_.size - 1].next = &chain_.requests[chain_.size];
  ++chain_.size;
  ++next_send_;
}

void Connection::flush() noexcept {
  if (chain_.size == 0) return;
  // A window shows its next key from the moment that its binding is asked for; the library wants the old one.
  const auto requests = std::span(chain_.requests).first(chain_.size);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].opcode == IBV_WR_BIND_MW) requests[i].bind_mw.mw->rkey = chain_.old_keys[i];
  }
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(qp_.get(), requests.data(), &refused);
  for (const ibv_send_wr& request : requests) {
    if (request.opcode == IBV_WR_BIND_MW) request.bind_mw.mw->rkey = request.bind_mw.rkey;
  }
  chain_.size = 0;
  if (error == 0) return;
  say(around_.options, LogLevel::error, describe() + ": cannot post: " + errno_text(std::abs(error)));
  failed_ = true;
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
    if (slot.bounce != nullptr)
      slot.bounce_handle.reset(ibv_reg_mr(device_->domain.get(), slot.bounce.get(), size, 0));
    short_of_memory_ = slot.bounce_handle == nullptr;
    if (short_of_memory_) return false;
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
  // Windows of type 1 have a call of their own, which on hardware rings a doorbell. Soft-RoCE's is a system
  // call, and it takes both types alike.
  if (bind.window->type == IBV_MW_TYPE_2 || device_->soft_roce) {
    ibv_send_wr& request = next_in_chain();
    request.send_flags = flags;
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = bind.window;
    request.bind_mw.rkey = ibv_inc_rkey(bind.window->rkey);
    request.bind_mw.bind_info = bind.info;
    chain_.old_keys[chain_.size] = std::exchange(bind.window->rkey, request.bind_mw.rkey);
    close_link();
    return true;
  }
  flush();
  ibv_mw_bind request{};
  request.wr_id = next_send_;
  request.send_flags = flags;
  request.bind_info = bind.info;
  if (const int error = ibv_bind_mw(qp_.get(), bind.window, &request); error != 0) {
    say(around_.options, LogLevel::error,
        describe() + ": cannot bind a memory window: " + errno_text(std::abs(error)));
    return false;
  }
  ++next_send_;
  return true;
}

}  // namespace rtrs::verbs
