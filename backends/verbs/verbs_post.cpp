// Functions of Connection that post work requests.
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

constexpr std::uint32_t kBouncesPerSignal = 8;

// Opcodes of libibverbs, indexed by WorkRequest::Op.
constexpr std::array kOpcodes{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
                              IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV};

}  // namespace

bool Connection::ask_for_completion(bool wanted) noexcept {
  const bool ask = wanted || since_signal_ + 1 >= signal_every_;
  since_signal_ = ask ? 0 : since_signal_ + 1;
  return ask;
}

std::size_t Connection::post(std::span<const WorkRequest> work) noexcept {
  std::size_t taken = 0;
  if (!waiting_.empty()) place_waiting();
  if (!waiting_.empty()) return 0;
  for (; taken < work.size() && work[taken].key == key_ && !failed_; ++taken) {
    const WorkRequest& one = work[taken];
    if (outstanding_work_ >= params_.send_depth || !has_room()) break;
    const bool bounces = bounces_.count != 0 && needs_bounce(one);
    if (bounces && bounces_.free == 0) break;
    SendSlot& slot = sends_[next_send_ & send_mask_];
    slot.cookie = one.cookie;
    slot.what = SendSlot::What::work;
    slot.report = one.signalled;
    slot.bounced = false;
    ibv_send_wr& request = next_in_chain();
    // Bounce buffers are few, and only a completion frees them.
    const bool scarce = bounces && bounces_.next % kBouncesPerSignal == 0;
    request.send_flags = ask_for_completion(one.signalled || scarce) ? IBV_SEND_SIGNALED : 0;
    if (!fill(one, request, chain_.pieces[chain_.size], slot)) {
      failed_ = true;
      break;
    }
    close_link();
    ++outstanding_work_;
  }
  return taken;
}

inline ibv_send_wr& Connection::next_in_chain() noexcept {
  if (chain_.size == Chain::kMost) flush_placed();
  ibv_send_wr& request = chain_.requests[chain_.size];
  request.num_sge = 0;
  request.wr_id = tag_ | next_send_ % SharedQueue::kNumbers;
  return request;
}

inline void Connection::close_link() noexcept {
  ++chain_.size;
  ++next_send_;
}

void Connection::flush() noexcept {
  if (!waiting_.empty()) place_waiting();
  flush_placed();
}

// Posts receives first, because the peer may respond to sent data at once.
void Connection::flush_placed() noexcept {
  if (receives_.has_unposted()) failed_ = !receives_.flush(qp_.get()) || failed_;
  if (chain_.size == 0) return;
  if (const int error = send_chain(); error != 0) refused_chain(error);
}

void Connection::refused_chain(int error) noexcept {
  say(fabric_parts_.options, LogLevel::error, describe() + ": cannot post: " + errno_text(std::abs(error)));
  failed_ = true;
}

[[gnu::always_inline]] inline int Connection::send_chain() noexcept {
  if (calls_ != nullptr && fits_calls()) return call_chain();
  // The rkey field of the window already holds the next key, but ibv_post_send() expects the old one there.
  const auto requests = std::span(chain_.requests).first(chain_.size);
  const auto binds = std::span(chain_.binds).first(chain_.bind_count);
  for (const std::uint8_t i : binds)
    chain_.shown_keys[i] = std::exchange(requests[i].bind_mw.mw->rkey, chain_.old_keys[i]);
  ibv_send_wr* const next = std::exchange(requests.back().next, nullptr);
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(qp_.get(), requests.data(), &refused);
  requests.back().next = next;
  for (std::size_t i = binds.size(); i-- > 0;)
    requests[binds[i]].bind_mw.mw->rkey = chain_.shown_keys[binds[i]];
  chain_.size = chain_.bind_count = 0;
  return error;
}

inline bool Connection::fill(const WorkRequest& work, ibv_send_wr& request, std::span<ibv_sge, 2> pieces,
                             SendSlot& slot) noexcept {
  request.opcode = kOpcodes[static_cast<std::size_t>(work.op)];
  request.imm_data = htonl(work.imm);
  switch (work.op) {
    case WorkRequest::Op::write:
    case WorkRequest::Op::write_imm:
      request.wr.rdma.remote_addr = work.remote_addr;
      request.wr.rdma.rkey = work.rkey;
      return work.part_count == 0 || fill_write(work, request, pieces);
    case WorkRequest::Op::send_inv:
      request.invalidate_rkey = work.rkey;
      return true;
    case WorkRequest::Op::send:
    case WorkRequest::Op::send_imm:
      break;
  }
  return fill_message(work, request, pieces[0], slot);
}

// Inlined, because this function is most of the loop in post().
[[gnu::always_inline]] inline bool Connection::fill_write(const WorkRequest& work, ibv_send_wr& request,
                                                          std::span<ibv_sge, 2> pieces) noexcept {
  RTRS_ASSERT(work.part_count <= work.parts.size());
  ibv_sge* next = pieces.data();
  std::uint32_t total = 0;
  for (unsigned i = 0; i < work.part_count; ++i) {
    const LocalPart& part = work.parts[i];
    if (part.length == 0) continue;
    if (!fabric_parts_.memory.piece(part, *device_, *next)) return register_and_fill(work, request, pieces);
    ++next;
    total += part.length;
  }
  request.num_sge = static_cast<int>(next - pieces.data());
  if (total != 0 && total <= inline_limit_) request.send_flags |= IBV_SEND_INLINE;
  return true;
}

bool Connection::register_and_fill(const WorkRequest& work, ibv_send_wr& request,
                                   std::span<ibv_sge, 2> pieces) noexcept {
  for (const LocalPart& part : std::span(work.parts).first(work.part_count)) {
    if (part.length != 0 && fabric_parts_.memory.registered(part.region, *device_) == nullptr)
      return short_of_memory_ = true, false;
  }
  return fill_write(work, request, pieces);
}

bool Connection::fill_message(const WorkRequest& work, ibv_send_wr& request, ibv_sge& piece,
                              SendSlot& slot) noexcept {
  const auto size = static_cast<std::uint32_t>(work.inline_bytes.size());
  request.num_sge = size == 0 ? 0 : 1;
  if (size == 0) return true;
  piece = {.addr = reinterpret_cast<std::uintptr_t>(work.inline_bytes.data()), .length = size, .lkey = 0};
  if (size <= inline_limit_ && size <= Chain::kCopied) {
    std::byte* const copy = chain_.copies[chain_.size].data();
    std::memcpy(copy, work.inline_bytes.data(), size);
    piece.addr = reinterpret_cast<std::uintptr_t>(copy);
    request.send_flags |= IBV_SEND_INLINE;
    return true;
  }
  if (size <= kSmallMessage) {
    std::byte* const place = bounces_.memory.get() + std::size_t{bounces_.next} * kSmallMessage;
    bounces_.next = (bounces_.next + 1) % bounces_.count;
    --bounces_.free;
    slot.bounced = true;
    std::memcpy(place, work.inline_bytes.data(), size);
    piece.addr = reinterpret_cast<std::uintptr_t>(place);
    piece.lkey = bounces_.handle->lkey;
    return true;
  }
  // Only set-up messages of a path are this long.
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

bool Connection::needs_bounce(const WorkRequest& work) const noexcept {
  return work.inline_bytes.size() > inline_limit_ && work.inline_bytes.size() <= kSmallMessage;
}

bool Connection::bind(const WindowBind& bind, Bind how, std::uint64_t cookie, bool report) noexcept {
  if (stage_ != Stage::up || failed_) return false;
  const std::uint32_t old_key = bind.window->rkey;
  const std::uint32_t new_key = ibv_inc_rkey(old_key);
  bind.window->rkey = new_key;
  if (waiting_.empty() && has_room()) return place({bind, how, cookie, report, old_key, new_key});
  return wait_for_room({bind, how, cookie, report, old_key, new_key});
}

bool Connection::wait_for_room(const Binding& binding) noexcept try {
  waiting_.push_back(
      {binding.what, binding.how, binding.cookie, binding.report, binding.old_key, binding.new_key});
  return true;
} catch (const std::bad_alloc&) {
  return !(short_of_memory_ = true);
}

void Connection::place_waiting() noexcept {
  for (; !waiting_.empty() && has_room() && !failed_; waiting_.pop_front()) {
    const Waiting& first = waiting_.front();
    flush_chain_with(first.what.key);
    if (!place({first.what, first.how, first.cookie, first.report, first.old_key, first.new_key}))
      failed_ = true;
  }
}

void Connection::flush_chain_with(RemoteKeyId key) noexcept {
  const Memory::LastBind& last = fabric_parts_.memory.last_bind(key);
  if (last.number + chain_.size >= next_send_ && last.on == key_) flush_placed();
}

void Connection::forget_waiting(const ibv_mw& window) noexcept {
  std::erase_if(waiting_, [&window](const Waiting& one) { return one.what.window == &window; });
}

void Connection::forget_windows_of(RegionId region) noexcept {
  std::erase_if(waiting_, [region](const Waiting& one) { return one.what.region == region; });
}

// Inlined into bind() for speed, so that no value is stored and loaded again. place_first() handles the rare
// cases.
[[gnu::always_inline]] inline bool Connection::place(const Binding& binding) noexcept {
  ibv_mw* const window = binding.what.window;
  SendSlot& slot = sends_[next_send_ & send_mask_];
  slot.cookie = binding.cookie;
  slot.what = binding.how == Bind::close ? SendSlot::What::killing : SendSlot::What::binding;
  slot.report = binding.report;
  slot.bounced = false;
  fabric_parts_.memory.last_bind(binding.what.key) = {.on = key_, .number = next_send_, .heard = heard_};
  using Chains = Device::Chains;
  slot.tries_chain =
      window->type == IBV_MW_TYPE_1 && !device_->soft_roce && device_->type_1_chains != Chains::yes;
  const unsigned flags = ask_for_completion(binding.report) ? unsigned{IBV_SEND_SIGNALED} : 0U;
  if (slot.tries_chain && device_->type_1_chains != Chains::tried)
    return place_first(Binding(binding), flags);
  bind_in_chain(binding, flags);
  return true;
}

bool Connection::place_first(const Binding& binding, unsigned flags) noexcept {
  // Type 1 windows have a separate call, which rings a doorbell on hardware and is a system call on
  // soft-RoCE. The libraries of mlx4, mlx5, irdma and soft-RoCE also accept them in a chain.
  return (device_->type_1_chains != Device::Chains::no && try_bind_in_chain(binding, flags)) ||
         bind_alone(binding, flags);
}

[[gnu::always_inline]] inline void Connection::bind_in_chain(const Binding& binding,
                                                             unsigned flags) noexcept {
  ibv_send_wr& request = next_in_chain();
  request.send_flags = flags;
  request.opcode = IBV_WR_BIND_MW;
  request.imm_data = 0;  // clears a previous use: soft-RoCE rejects a binding with immediate data
  request.bind_mw.mw = binding.what.window;
  request.bind_mw.rkey = binding.new_key;
  request.bind_mw.bind_info = binding.what.info;
  chain_.old_keys[chain_.size] = binding.old_key;
  chain_.binds[chain_.bind_count++] = static_cast<std::uint8_t>(chain_.size);
  close_link();
}

bool Connection::try_bind_in_chain(const Binding& binding, unsigned flags) noexcept {
  flush_placed();
  bind_in_chain(binding, flags);
  const int error = send_chain();
  device_->type_1_chains = error == 0 ? Device::Chains::tried : Device::Chains::no;
  if (error == 0) return true;
  --next_send_;
  return false;
}

// If a device accepted the first binding in a chain but could not execute it, chains are not used for
// bindings again; the next connection works without them.
void Connection::judge_chains(ibv_wc_status status) noexcept {
  Device::Chains& chains = device_->type_1_chains;
  if (chains != Device::Chains::tried) return;
  if (status == IBV_WC_SUCCESS) chains = Device::Chains::yes;
  const bool its_own = status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_LOC_PROT_ERR ||
                       status == IBV_WC_MW_BIND_ERR || status == IBV_WC_GENERAL_ERR;
  if (!its_own) return;
  chains = Device::Chains::no;
  say(fabric_parts_.options, LogLevel::warning,
      device_->name + ": takes no windows of type 1 by ibv_post_send(); they are bound one by one");
}

bool Connection::bind_alone(const Binding& binding, unsigned flags) noexcept {
  flush_placed();
  ibv_mw* const window = binding.what.window;
  ibv_mw_bind request{};
  request.wr_id = tag_ | next_send_ % SharedQueue::kNumbers;
  request.send_flags = flags;
  request.bind_info = binding.what.info;
  const std::uint32_t shown = std::exchange(window->rkey, binding.old_key);
  const int error = ibv_bind_mw(qp_.get(), window, &request);
  // The library chooses the key: every library increments it. A peer that was sent another key could not use
  // it.
  const bool next = window->rkey == binding.new_key;
  window->rkey = shown;
  if (error != 0 || !next) {
    say(fabric_parts_.options, LogLevel::error,
        describe() + ": cannot bind a memory window: " +
            (error != 0 ? errno_text(std::abs(error)) : "it has an unexpected key"));
    return false;
  }
  ++next_send_;
  return true;
}

}  // namespace rtrs::verbs
