#include "backends/verbs/verbs_connection.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kMaxBounces = 256;
// Bounce buffers that may be used in a row without requesting a completion.
constexpr std::uint32_t kUnsignalled = 64;
// Send queue entries for binding keys, in addition to the entries of the caller. Further bindings wait or use
// free entries of the caller. Room for all keys at once would double the queue of each client connection.
constexpr std::uint32_t kMaxKeyRequests = 64;
// Flag of soft-RoCE for a completion with invalidation: the value of the kernel, although user space defines
// this bit differently.
constexpr unsigned kSoftRoceWithInvalidate = 1U << 2;

// Only a completion frees ring entries, so some completions are requested even if the caller requests none.
std::uint32_t signals_of(std::uint32_t send_depth) {
  return std::clamp(send_depth / 2, 1U, kUnsignalled);
}

std::uint32_t at_least_one(std::uint32_t depth) {
  return std::max<std::uint32_t>(depth, 1);
}

}  // namespace

Shell::Shell(QpHandle pair, Device& on) noexcept : qp_(std::move(pair)), device_(on) {
  // Unread events of the queue pair must no longer refer to the connection.
  qp_->qp_context = nullptr;
  ++device_.connections;
}

Shell::~Shell() {
  qp_.reset();
  --device_.connections;
}

Connection::Chain::Chain() noexcept : requests{}, pieces{}, copies{}, old_keys{}, shown_keys{}, binds{} {
  for (std::size_t i = 0; i < kMost; ++i) {
    requests[i].next = i + 1 < kMost ? &requests[i + 1] : nullptr;
    requests[i].sg_list = pieces[i].data();
  }
}

Connection::Connection(const FabricParts& around, ConKey key, const ConnectionParams& params, bool is_client,
                       std::span<const std::byte> private_data)
    : fabric_parts_(around),
      key_(key),
      params_(params),
      is_client_(is_client),
      private_data_(private_data.begin(), private_data.end()),
      sends_(std::bit_ceil(std::size_t{at_least_one(params.send_depth + params.key_depth)})),
      send_mask_(sends_.size() - 1),
      signal_every_(signals_of(params.send_depth)),
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
  return {device_->name, id->port_num, calls_ != nullptr ? "wr" : "send"};
}

std::uint32_t Connection::entries() const noexcept {
  return at_least_one(depth()) + at_least_one(params_.receive_depth);
}

bool Connection::open(Device& device, SharedQueue* queue) {
  device_ = &device;
  ++device.connections;
  if (queue != nullptr) tag_ = queue->join(*this, entries());
  queue_ = queue;
  if (queue_ == nullptr || !create_queue_pair(device) || !change(IBV_QPS_INIT)) {
    const int error = errno;
    std::string text = describe() + ": " + device.name + ": cannot make a queue pair of " +
                       std::to_string(depth()) + " work requests and " +
                       std::to_string(params_.receive_depth) + " receives: " + errno_text(error);
    if (error == ENOMEM) text += memlock_advice(std::size_t{depth() + params_.receive_depth} * 256);
    say(fabric_parts_.options, LogLevel::error, text);
    return false;
  }
  if (!make_bounces(device)) return false;
  for (const auto& [count, bytes] : std::exchange(early_receives_, {})) post_receive(count, bytes);
  flush();
  return !failed_;
}

bool Connection::create_queue_pair(Device& device) {
  ibv_qp_init_attr wanted{};
  wanted.qp_context = this;
  wanted.send_cq = wanted.recv_cq = queue_->get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = at_least_one(depth());
  wanted.cap.max_recv_wr = at_least_one(params_.receive_depth);
  wanted.cap.max_send_sge = 2;
  wanted.cap.max_recv_sge = 1;
  const auto make = [&](std::uint64_t send_ops) {
    const std::uint32_t inline_bytes = std::min(device.limits.inline_bytes, kSmallMessage);
    qp_.reset(make_queue_pair(device.domain_of_queue_pairs(), wanted, inline_bytes, send_ops));
    calls_ = qp_ == nullptr ? nullptr : calls_of(*qp_, send_ops);
  };
  make(device.limits.send_ops);
  // Retries without ibv_wr_*(): the device that was tested may have been replaced by another device of the
  // same name.
  if (qp_ == nullptr && device.limits.send_ops != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) make(0);
  if (qp_ == nullptr) return false;
  inline_limit_ = wanted.cap.max_inline_data;
  return true;
}

void Connection::fit(Device& device) {
  params_.key_depth = std::min(params_.key_depth, kMaxKeyRequests);
  const std::uint64_t asked = std::uint64_t{params_.send_depth} + params_.key_depth;
  const std::uint32_t most = device.max_work_requests(params_.receive_depth);
  if (asked <= most) return;
  // Splits the available depth in proportion to the requested depths. Requests that find no room wait.
  params_.send_depth =
      std::max(1U, static_cast<std::uint32_t>(std::uint64_t{most} * params_.send_depth / asked));
  params_.key_depth = most - std::min(most, params_.send_depth);
  signal_every_ = signals_of(params_.send_depth);
  if (std::exchange(device.logged_depth, true)) return;
  say(fabric_parts_.options, LogLevel::warning,
      device.name + " holds " + std::to_string(most) + " work requests of a connection, and " +
          std::to_string(asked) + " are needed: " + std::to_string(params_.send_depth) +
          " are for messages and data at a time and the rest for keys; a smaller queue depth needs less");
}

// Allocates the buffers now, because no memory is registered while IO runs.
bool Connection::make_bounces(const Device& device) {
  if (inline_limit_ >= kSmallMessage) return true;
  const std::uint32_t count = std::clamp(params_.send_depth, 1U, kMaxBounces);
  const std::size_t bytes = std::size_t{count} * kSmallMessage;
  bounces_.memory = std::make_unique<std::byte[]>(bytes);
  bounces_.handle.reset(ibv_reg_mr(device.domain.get(), bounces_.memory.get(), bytes, 0));
  if (bounces_.handle == nullptr) {
    say(fabric_parts_.options, LogLevel::error,
        describe() + ": " + device.name + ": cannot register " + std::to_string(bytes) +
            " bytes for messages: " + errno_text(errno));
    return false;
  }
  bounces_.count = bounces_.free = count;
  return true;
}

bool Connection::change(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (rdma_init_qp_attr(id.get(), &attributes, &mask) != 0) return false;
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  } else if (state == IBV_QPS_RTR) {
    attributes.min_rnr_timer = fabric_parts_.options.min_rnr_timer;
    attributes.max_dest_rd_atomic = 0;
    // By default, the accepting side would use the client's traffic class.
    if (fabric_parts_.options.tos != 0 && attributes.ah_attr.is_global != 0)
      attributes.ah_attr.grh.traffic_class = fabric_parts_.options.tos;
  } else if (state == IBV_QPS_RTS) {
    attributes.max_rd_atomic = 0;
    // The kernel client requests 7, which soft-RoCE treats as infinite.
    attributes.retry_cnt = std::min(attributes.retry_cnt, fabric_parts_.options.retry_count);
    attributes.rnr_retry = 7;
    if (fabric_parts_.options.ack_timeout != 0) attributes.timeout = fabric_parts_.options.ack_timeout;
    retries_ = {.timeout = attributes.timeout, .count = attributes.retry_cnt};
  }
  const int error = ibv_modify_qp(qp_.get(), &attributes, mask);
  if (error != 0) errno = error;
  return error == 0;
}

bool Connection::make_ready() {
  // Repeats the INIT step, because the partition is known only now.
  if (change(IBV_QPS_INIT) && change(IBV_QPS_RTR) && change(IBV_QPS_RTS)) return true;
  say(fabric_parts_.options, LogLevel::warning,
      describe() + ": cannot bring the queue pair up: " + errno_text(errno));
  return false;
}

void Connection::keep(std::uint64_t number, WindowHandle window) {
  std::erase_if(kept_windows_, [this](const auto& one) { return has_done(one.first); });
  kept_windows_.emplace_back(number, std::move(window));
}

// Stops all work of the queue pair as destroying it would; later packets for it are dropped. Afterwards no
// work request refers to a window, so windows can be freed before the queue pair.
bool Connection::stop() noexcept {
  stage_ = Stage::lost;
  chain_.size = chain_.bind_count = 0;
  waiting_.clear();
  if (qp_ == nullptr) return false;
  // Collects completions before and after the reset, because adapters discard them with the queue pair.
  queue_->settle(*this, tag_);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  const bool stopped = ibv_modify_qp(qp_.get(), &attributes, IBV_QP_STATE) == 0;
  queue_->settle(*this, tag_);
  fabric_parts_.memory.drop_windows_of(key_);
  kept_windows_.clear();
  return stopped;
}

std::unique_ptr<Shell> Connection::close_keeping_number() noexcept {
  std::unique_ptr<Shell> shell;
  if (stop()) shell = std::make_unique<Shell>(std::move(qp_), *device_);
  close();
  return shell;
}

void Connection::close() noexcept {
  stop();
  qp_.reset();
  if (queue_ != nullptr) {
    queue_->leave(tag_, entries());
    queue_ = nullptr;
  }
  bounces_ = Bounces{};
  fabric_parts_.stats.discarded_work += outstanding_work_;
  outstanding_work_ = 0;
  done_sends_ = next_send_;
  if (device_ != nullptr) --device_->connections;
  device_ = nullptr;
}

void Connection::post_receive(unsigned count, std::uint32_t bytes) noexcept {
  if (stage_ == Stage::lost) return;
  if (qp_ == nullptr) return early_receives_.emplace_back(count, bytes), void();
  if (!failed_ && !receives_.post(device_->domain.get(), qp_.get(), tag_, count, bytes)) {
    failed_ = true;
    short_of_memory_ = receives_.short_of_memory();
  }
  // Receives must be posted before the peer can send.
  if (stage_ == Stage::pending) flush();
}

void Connection::lost(FabricEvent& event, Reason reason) noexcept {
  stage_ = Stage::lost;
  event = event::ConnectionLost{key_, reason};
}

void Connection::settle(const ibv_wc& completion) noexcept {
  FabricEvent unused;
  const bool received = (completion.opcode & IBV_WC_RECV) != 0;
  if (completion.status != IBV_WC_SUCCESS) return;
  if (received || retire(completion.wr_id, unused)) ++fabric_parts_.stats.dropped_completions;
}

bool Connection::translate(const ibv_wc& completion, FabricEvent& event) noexcept {
  if (stage_ == Stage::lost) return settle(completion), false;
  if (completion.status != IBV_WC_SUCCESS) return translate_error(completion, event);
  const bool received = (completion.opcode & IBV_WC_RECV) != 0;
  return received ? translate_receive(completion, event) : retire(completion.wr_id, event);
}

bool Connection::translate_receive(const ibv_wc& completion, FabricEvent& event) noexcept {
  ++heard_;
  // Data proves that the peer is connected, even if its last set-up message was lost.
  if (!established && accepted && !std::exchange(comm_est_notified_, true))
    rdma_notify(id.get(), IBV_EVENT_COMM_EST);
  const auto place = static_cast<std::uint32_t>(completion.wr_id % SharedQueue::kNumbers);
  const bool has_imm = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  const std::uint32_t imm = has_imm ? ntohl(completion.imm_data) : 0;
  const bool empty = !has_imm && completion.opcode == IBV_WC_RECV && completion.byte_len == 0;
  const unsigned soft = device_ != nullptr && device_->soft_roce ? kSoftRoceWithInvalidate : 0U;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    event = event::ImmReceived{key_, imm};
    receives_.free(place);
  } else if (empty && (completion.wc_flags & (IBV_WC_WITH_INV | soft)) != 0) {
    event = event::KeyInvalidated{key_, completion.invalidated_rkey};
    if (device_ != nullptr) fabric_parts_.memory.killed(*device_, completion.invalidated_rkey);
    receives_.free(place);
  } else {
    show_message(completion, place, event);
  }
  return true;
}

// Not inlined: it needs more registers than the fast path, and few connections carry messages.
[[gnu::noinline]] void Connection::show_message(const ibv_wc& completion, std::uint32_t place,
                                                FabricEvent& event) noexcept {
  event::MessageReceived message{key_, {}, receives_.bytes(place, completion.byte_len)};
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) message.imm = ntohl(completion.imm_data);
  event = message;
  receives_.show(place);
}

// Precondition: fewer than kNumbers work requests are outstanding.
std::uint64_t Connection::number_of(std::uint64_t wr_id) const noexcept {
  return done_sends_ + (wr_id - done_sends_) % SharedQueue::kNumbers;
}

bool Connection::retire(std::uint64_t wr_id, FabricEvent& event) noexcept {
  const std::uint64_t number = number_of(wr_id);
  if (number >= next_send_) return false;
  // Work requests complete in order, so this completion also covers the unsignalled ones before it.
  std::uint32_t work = 0, bounced = 0;
  bool tried_chain = false;
  for (std::uint64_t one = done_sends_; one <= number; ++one) {
    const SendSlot& done = sends_[one & send_mask_];
    if (done.what == SendSlot::What::work)
      ++work;
    else
      tried_chain |= done.tries_chain;
    bounced += done.bounced;
  }
  done_sends_ = number + 1;
  outstanding_work_ -= work;
  bounces_.free += bounced;
  if (tried_chain) judge_chains(IBV_WC_SUCCESS);
  const SendSlot& slot = sends_[number & send_mask_];
  if (slot.what == SendSlot::What::killing)
    event = event::ChunkInvalidated{key_, slot.cookie, true};
  else
    event = event::SendDone{key_, slot.cookie};
  return slot.report;
}

bool Connection::translate_error(const ibv_wc& completion, FabricEvent& event) noexcept {
  // On a connection that is not up yet, the error is reported when the caller first sends.
  if (stage_ == Stage::pending) return failed_ = true, false;
  if ((completion.wr_id & SharedQueue::kReceive) == 0 && number_of(completion.wr_id) < next_send_) {
    const SendSlot& slot = sends_[number_of(completion.wr_id) & send_mask_];
    if (slot.what != SendSlot::What::work && slot.tries_chain) judge_chains(completion.status);
  }
  // Soft-RoCE reports errors of this side as flushed work. So flushed work counts as an error unless the
  // connection is already ending.
  if (ending_ == Reason::none) {
    say(fabric_parts_.options, LogLevel::warning,
        describe() + ": lost: " + ibv_wc_status_str(completion.status) + " (vendor error " +
            std::to_string(completion.vendor_err) + ")");
  }
  lost(event, ending_ != Reason::none ? ending_ : loss_reason(completion.status));
  return true;
}

}  // namespace rtrs::verbs
