#include "tools/lib/control/rdma_probe/loop.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rtrs::probe {
namespace {

// Maximum number of scatter-gather entries per send, the same as in the verbs backend.
constexpr std::uint32_t kLoopSendParts = 2;
// ACK timeout: 4.096 us * 2^14. RNR timer: encoding of 0.64 ms.
constexpr std::uint8_t kTimeout = 14, kRnrTimer = 12;
constexpr std::uint8_t kRetries = 6;
constexpr std::uint8_t kRnrRetries = 7;
constexpr std::uint8_t kHops = 64;
// Number of polls of a completion queue between two reads of the clock.
constexpr unsigned kPollsPerClockRead = 1024;

// Creates the completion queue and queue pair of one end. Returns an error, or nullopt.
std::optional<std::string> make_end(const Device& device, const Shape& shape, End& end) {
  const auto entries = static_cast<int>(shape.sends + shape.receives);
  end.queue.reset(ibv_create_cq(device.context.get(), entries, nullptr, nullptr, 0));
  if (end.queue == nullptr)
    return fmt::format("no completion queue of {} entries: {}", entries, errno_text(errno));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = end.queue.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = shape.sends;
  wanted.cap.max_recv_wr = shape.receives;
  wanted.cap.max_send_sge = kLoopSendParts;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = shape.inline_bytes;
  end.pair.reset(ibv_create_qp(device.domain.get(), &wanted));
  if (end.pair == nullptr)
    return fmt::format("no queue pair of {} work requests and {} receives: {}", shape.sends, shape.receives,
                       errno_text(errno));
  return std::nullopt;
}

std::optional<std::string> to_init(const Device& device, ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device.port;
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const int error =
      ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? std::nullopt
                    : std::optional("the queue pair does not become ready: " + errno_text(error));
}

std::optional<std::string> to_receive(const Device& device, ibv_qp* pair, std::uint32_t peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = device.port_attributes.active_mtu;
  attributes.dest_qp_num = peer;
  attributes.min_rnr_timer = kRnrTimer;
  attributes.ah_attr.port_num = device.port;
  attributes.ah_attr.dlid = device.port_attributes.lid;
  if (device.port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid = device.gid;
    attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
    attributes.ah_attr.grh.hop_limit = kHops;
  }
  const int error = ibv_modify_qp(pair, &attributes,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  return error == 0 ? std::nullopt
                    : std::optional(fmt::format("the queue pair does not reach {}: {}", gid_text(device.gid),
                                                errno_text(error)));
}

std::optional<std::string> to_send(ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRnrRetries;
  const int error = ibv_modify_qp(pair, &attributes,
                                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? std::nullopt : std::optional("the queue pair cannot send: " + errno_text(error));
}

}  // namespace

tl::expected<Buffer, std::string> Buffer::make(ibv_pd* domain, std::size_t bytes, int access) {
  Buffer buffer;
  // calloc() zeroes the memory without touching its pages.
  buffer.memory_.reset(static_cast<std::byte*>(std::calloc(bytes, 1)));
  buffer.size_ = bytes;
  if (buffer.memory_ == nullptr) return tl::unexpected(fmt::format("no {} KiB of memory", bytes >> 10));
  buffer.region_.reset(ibv_reg_mr(domain, buffer.memory_.get(), bytes, access));
  if (buffer.region_ == nullptr)
    return tl::unexpected(
        fmt::format("{} KiB of memory are not registered: {}", bytes >> 10, errno_text(errno)));
  return buffer;
}

void Buffer::fill(std::byte value) noexcept {
  std::memset(memory_.get(), std::to_integer<int>(value), size_);
}
bool Buffer::holds(std::byte value) const noexcept {
  return std::all_of(memory_.get(), memory_.get() + size_, [value](std::byte one) { return one == value; });
}

tl::expected<Loop, std::string> Loop::make(const Device& device, const Pace& pace, const Shape& shape) {
  Loop loop(device, pace);
  for (End* end : {&loop.near, &loop.far})
    if (auto wrong = make_end(device, shape, *end)) return tl::unexpected(std::move(*wrong));
  if (auto wrong = loop.connect()) return tl::unexpected(std::move(*wrong));
  return loop;
}

std::optional<std::string> Loop::connect() {
  for (End* end : {&near, &far}) {
    ibv_qp* const pair = end->pair.get();
    const std::uint32_t peer = (end == &near ? far : near).pair->qp_num;
    if (auto wrong = to_init(*device_, pair)) return wrong;
    if (auto wrong = to_receive(*device_, pair, peer)) return wrong;
  }
  for (End* end : {&near, &far})
    if (auto wrong = to_send(end->pair.get())) return wrong;
  return std::nullopt;
}

int Loop::post(ibv_send_wr& request) {
  ibv_send_wr* refused = nullptr;
  return std::abs(ibv_post_send(near.pair.get(), &request, &refused));
}

int Loop::write(const Buffer& from, std::size_t bytes, std::uint64_t address, std::uint32_t key,
                bool signalled) {
  ibv_sge part{from.address(), static_cast<std::uint32_t>(bytes), from.region()->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
  request.sg_list = &part;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  return post(request);
}

int Loop::write_with_immediate(const Buffer* from, std::size_t bytes, std::uint64_t address,
                               std::uint32_t key, std::uint32_t immediate) {
  ibv_sge part{};
  if (from != nullptr) part = {from->address(), static_cast<std::uint32_t>(bytes), from->region()->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &part;
  request.num_sge = from != nullptr ? 1 : 0;
  request.imm_data = htonl(immediate);
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  return post(request);
}

int Loop::send_with_immediate(const Buffer& from, std::size_t bytes, std::uint32_t immediate) {
  ibv_sge part{from.address(), static_cast<std::uint32_t>(bytes), from.region()->lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &part;
  request.num_sge = 1;
  request.imm_data = htonl(immediate);
  return post(request);
}

int Loop::send_with_invalidate(std::uint32_t key) {
  ibv_sge none{};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &none;
  request.invalidate_rkey = key;
  return post(request);
}

int Loop::receive(Buffer* into, std::size_t bytes) {
  ibv_sge part{};
  if (into != nullptr) part = {into->address(), static_cast<std::uint32_t>(bytes), into->region()->lkey};
  ibv_recv_wr request{};
  request.sg_list = &part;
  request.num_sge = into != nullptr ? 1 : 0;
  ibv_recv_wr* refused = nullptr;
  return std::abs(ibv_post_recv(far.pair.get(), &request, &refused));
}

int Loop::bind(ibv_mw* window, const Buffer& buffer, bool open) {
  ibv_mw_bind_info info{};
  info.mr = buffer.region();  // soft-RoCE needs a memory region even to unbind
  info.addr = open ? buffer.address() : 0;
  info.length = open ? buffer.region()->length : 0;
  info.mw_access_flags = open ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0U;
  if (window->type == IBV_MW_TYPE_1) {
    ibv_mw_bind request{};
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_info = info;
    return std::abs(ibv_bind_mw(far.pair.get(), window, &request));
  }
  ibv_send_wr request{};
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = info;
  ibv_send_wr* refused = nullptr;
  const int error = std::abs(ibv_post_send(far.pair.get(), &request, &refused));
  if (error == 0) window->rkey = request.bind_mw.rkey;
  return error;
}

std::optional<Waited> look(ibv_cq* queue) {
  ibv_wc completion{};
  const int count = ibv_poll_cq(queue, 1, &completion);
  if (count < 0) return Waited(tl::unexpected(std::string("the completion queue cannot be read")));
  if (count == 0) return std::nullopt;
  return Waited(completion);
}

Waited wait_for(ibv_cq* queue, const Pace& pace) {
  const Clock::time_point end = Clock::now() + pace.patience;
  do {
    for (unsigned i = 0; i < kPollsPerClockRead; ++i)
      if (auto found = look(queue)) return *found;
    if (pace.stop()) return tl::unexpected(std::string("interrupted"));
  } while (Clock::now() < end);
  return tl::unexpected(fmt::format("no completion within {} ms", pace.patience.count()));
}

Waited Loop::wait(End& end) {
  return wait_for(end.queue.get(), *pace_);
}

}  // namespace rtrs::probe
