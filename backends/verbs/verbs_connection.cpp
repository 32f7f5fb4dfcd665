#include "backends/verbs/verbs_connection.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs {
namespace {

// Heartbeats, keys of chunks and the headers of requests fit.
constexpr std::uint32_t kInline = 96;
// Soft-RoCE passes the number of its kernel on, which user space knows by another meaning.
constexpr unsigned kSoftRoceWithInvalidate = 1U << 2;

std::uint32_t at_least_one(std::uint32_t depth) {
  return std::max<std::uint32_t>(depth, 1);
}

}  // namespace

Connection::Connection(const Surroundings& around, ConKey key, const ConnectionParams& params, bool is_client,
                       std::span<const std::byte> private_data)
    : around_(around),
      key_(key),
      params_(params),
      is_client_(is_client),
      private_data_(private_data.begin(), private_data.end()),
      sends_(std::bit_ceil(std::size_t{at_least_one(params.send_depth + params.key_depth)})),
      receives_(at_least_one(params.receive_depth)) {}

Connection::~Connection() {
  close();
}

std::string Connection::describe() const {
  if (id == nullptr) return "? > ?";
  const std::string local = to_text(rdma_get_local_addr(id.get()));
  const std::string peer = to_text(rdma_get_peer_addr(id.get()));
  return is_client() ? local + " > " + peer : peer + " > " + local;
}

DevicePort Connection::device_port() const {
  if (id == nullptr || device_ == nullptr) return {};
  return {device_->name, id->port_num};
}

bool Connection::open(Device& device) {
  device_ = &device;
  ++device.connections;
  if (!create_queue_pair(device) || !change(IBV_QPS_INIT)) {
    const int error = errno;
    std::string text = describe() + ": " + device.name + ": cannot make a queue pair of " +
                       std::to_string(depth()) + " work requests and " +
                       std::to_string(params_.receive_depth) + " receives: " + errno_text(error);
    if (error == ENOMEM) text += memlock_advice(std::size_t{depth() + params_.receive_depth} * 256);
    say(around_.options, LogLevel::error, text);
    return false;
  }
  for (const auto& [count, bytes] : std::exchange(early_receives_, {})) post_receive(count, bytes);
  return !failed_;
}

bool Connection::create_queue_pair(Device& device) {
  const std::uint32_t entries = at_least_one(depth()) + at_least_one(params_.receive_depth);
  queue_.reset(ibv_create_cq(device.context.get(), static_cast<int>(entries), this, device.channel.get(), 0));
  if (queue_ == nullptr) return false;
  ibv_qp_init_attr wanted{};
  wanted.qp_context = this;
  wanted.send_cq = wanted.recv_cq = queue_.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = at_least_one(depth());
  wanted.cap.max_recv_wr = at_least_one(params_.receive_depth);
  wanted.cap.max_send_sge = 2;
  wanted.cap.max_recv_sge = 1;
  for (const std::uint32_t inline_size : {kInline, 0U}) {
    ibv_qp_init_attr attempt = wanted;
    attempt.cap.max_inline_data = inline_size;
    qp_.reset(ibv_create_qp(device.domain.get(), &attempt));
    if (qp_ == nullptr) continue;
    inline_limit_ = std::min(attempt.cap.max_inline_data, kInline);
    return true;
  }
  return false;
}

bool Connection::change(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (rdma_init_qp_attr(id.get(), &attributes, &mask) != 0) return false;
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  } else if (state == IBV_QPS_RTR) {
    attributes.min_rnr_timer = around_.options.min_rnr_timer;
    attributes.max_dest_rd_atomic = 0;
  } else if (state == IBV_QPS_RTS) {
    attributes.max_rd_atomic = 0;
    // The kernel's client asks for 7, by which soft-RoCE never gives up.
    attributes.retry_cnt = std::min(attributes.retry_cnt, around_.options.retry_count);
    attributes.rnr_retry = 7;
  }
  const int error = ibv_modify_qp(qp_.get(), &attributes, mask);
  if (error != 0) errno = error;
  return error == 0;
}

bool Connection::make_ready() {
  // Once more from the start, because the partition is known only by now.
  if (change(IBV_QPS_INIT) && change(IBV_QPS_RTR) && change(IBV_QPS_RTS)) return true;
  say(around_.options, LogLevel::warning,
      describe() + ": cannot bring the queue pair up: " + errno_text(errno));
  return false;
}

void Connection::close() noexcept {
  stage_ = Stage::lost;
  chain_.size = 0;
  if (qp_ != nullptr) {
    // Bindings that the device has not begun are flushed before their windows go.
    ibv_qp_attr ended{};
    ended.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(qp_.get(), &ended, IBV_QP_STATE);
    around_.memory.drop_windows_of(key_);
  }
  qp_.reset();
  if (queue_ != nullptr) {
    // Tells which work requests were done after all.
    for (FabricEvent unused; stashed_ > 0; --stashed_) translate(stash_[stashed_ - 1], unused);
    int count = 0;
    while ((count = ibv_poll_cq(queue_.get(), static_cast<int>(stash_.size()), stash_.data())) > 0) {
      FabricEvent unused;
      for (int i = 0; i < count; ++i) translate(stash_[static_cast<std::size_t>(i)], unused);
    }
    queue_.reset();
  }
  around_.stats.discarded_work += outstanding_work_;
  outstanding_work_ = 0;
  done_sends_ = next_send_;
  if (device_ != nullptr) --device_->connections;
  device_ = nullptr;
}

void Connection::post_receive(unsigned count, std::uint32_t bytes) noexcept {
  if (stage_ == Stage::lost) return;
  if (qp_ == nullptr) {
    early_receives_.emplace_back(count, bytes);
  } else if (!receives_.post(device_->domain.get(), qp_.get(), count, bytes)) {
    failed_ = true;
    short_of_memory_ = receives_.short_of_memory();
  }
}

void Connection::lost(FabricEvent& event, Reason reason) noexcept {
  stage_ = Stage::lost;
  event = event::ConnectionLost{key_, reason};
}

bool Connection::arm() noexcept {
  if (stashed_ != 0) return false;  // a poll() had no room for them
  if (ibv_req_notify_cq(queue_.get(), 0) != 0) return false;
  const int count = ibv_poll_cq(queue_.get(), static_cast<int>(stash_.size()), stash_.data());
  stashed_ = static_cast<unsigned>(std::max(count, 0));
  return stashed_ == 0;
}

std::size_t Connection::read(std::span<FabricEvent> out, bool& drained) noexcept {
  std::size_t events = 0;
  drained = false;
  while (events < out.size()) {
    if (stashed_ == 0) {
      const auto room = static_cast<int>(std::min(stash_.size(), out.size() - events));
      const int count = ibv_poll_cq(queue_.get(), room, stash_.data());
      if (count < 0 && stage_ != Stage::lost) lost(out[events++], Reason::fabric_gone);
      if (count <= 0) {
        if (ending_ != Reason::none && stage_ != Stage::lost) lost(out[events++], ending_);
        drained = true;
        return events;
      }
      stashed_ = static_cast<unsigned>(count);
    }
    unsigned taken = 0;
    while (taken < stashed_ && events < out.size()) {
      if (translate(stash_[taken++], out[events])) ++events;
    }
    std::copy(stash_.begin() + taken, stash_.begin() + stashed_, stash_.begin());
    stashed_ -= taken;
  }
  return events;
}

bool Connection::translate(const ibv_wc& completion, FabricEvent& event) noexcept {
  if (completion.status != IBV_WC_SUCCESS) return translate_error(completion, event);
  const bool received = (completion.opcode & IBV_WC_RECV) != 0;
  const bool made = received ? translate_receive(completion, event) : retire(completion.wr_id, event);
  if (made && stage_ == Stage::lost) ++around_.stats.dropped_completions;
  return made && stage_ != Stage::lost;
}

bool Connection::translate_receive(const ibv_wc& completion, FabricEvent& event) noexcept {
  const auto place = static_cast<std::uint32_t>(completion.wr_id);
  const bool has_imm = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  const std::uint32_t imm = has_imm ? ntohl(completion.imm_data) : 0;
  const bool empty = !has_imm && completion.opcode == IBV_WC_RECV && completion.byte_len == 0;
  const unsigned soft = device_ != nullptr && device_->soft_roce ? kSoftRoceWithInvalidate : 0U;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    event = event::ImmReceived{key_, imm};
    receives_.free(place);
  } else if (empty && (completion.wc_flags & (IBV_WC_WITH_INV | soft)) != 0) {
    event = event::KeyInvalidated{key_, completion.invalidated_rkey};
    around_.memory.killed(completion.invalidated_rkey);
    receives_.free(place);
  } else {
    event::MessageReceived message{key_, {}, receives_.bytes(place, completion.byte_len)};
    if (has_imm) message.imm = imm;
    event = message;
    receives_.show(place);
  }
  return true;
}

bool Connection::retire(std::uint64_t number, FabricEvent& event) noexcept {
  if (number < done_sends_) return false;
  // Work requests complete in order, so this one speaks for the unsignalled ones before it.
  for (; done_sends_ <= number; ++done_sends_) {
    if (sends_[done_sends_ & (sends_.size() - 1)].what == SendSlot::What::work) --outstanding_work_;
  }
  const SendSlot& slot = sends_[number & (sends_.size() - 1)];
  if (slot.what == SendSlot::What::killing)
    event = event::ChunkInvalidated{key_, slot.cookie, true};
  else
    event = event::SendDone{key_, slot.cookie};
  return slot.report;
}

bool Connection::translate_error(const ibv_wc& completion, FabricEvent& event) noexcept {
  if (stage_ == Stage::lost) return false;
  // Soft-RoCE reports errors of this side as flushed work, so that counts as one as long as nobody ended the
  // connection.
  if (ending_ == Reason::none) {
    say(around_.options, LogLevel::warning,
        describe() + ": lost: " + ibv_wc_status_str(completion.status) + " (vendor error " +
            std::to_string(completion.vendor_err) + ")");
  }
  lost(event, ending_ != Reason::none ? ending_ : loss_reason(completion.status));
  return true;
}

}  // namespace rtrs::verbs
