#include "tools/lib/control/rdma_probe/link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "backends/verbs/verbs_address.hpp"
#include "tools/lib/control/rdma_probe/probe_error.hpp"

namespace rtrs::probe {
namespace {

constexpr std::uint8_t kMaxRetries = 6;
constexpr std::uint8_t kInfiniteRetries = 7;
constexpr std::uint8_t kRnrWait = 12;  // encoding of 0.64 ms as an RNR timer
constexpr std::chrono::milliseconds kRecheckInterval{50};

constexpr const char* kManagerFile = "/dev/infiniband/rdma_cm";

Buffer registered(ibv_pd* domain, int access) {
  auto made = Buffer::make(domain, kPeerMemory, access);
  if (!made) throw Trouble{made.error(), "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit"};
  return std::move(*made);
}

template <class Handle>
Handle there(Handle handle, const char* what) {
  if (handle == nullptr) throw Trouble{fmt::format("no {}: {}", what, errno_text(errno))};
  return handle;
}

verbs::QpHandle make_pair(ibv_pd* domain, ibv_cq* queue) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = kLinkDepth;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  return verbs::QpHandle(ibv_create_qp(domain, &wanted));
}

}  // namespace

Manager::Manager() {
  errno = 0;
  channel_.reset(rdma_create_event_channel());
  if (channel_ == nullptr) {
    const bool there = ::access(kManagerFile, F_OK) == 0;
    throw Trouble{fmt::format("the connection manager cannot be reached: {}", errno_text(errno)),
                  there ? fmt::format("run as root, or give this user the right to {}", kManagerFile)
                        : "modprobe rdma_ucm"};
  }
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    throw Trouble{"the connection manager's descriptor: " + errno_text(errno)};
}

verbs::IdHandle Manager::make_id(rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, space) != 0)
    throw Trouble{"no identifier of the connection manager: " + errno_text(errno)};
  return verbs::IdHandle(id);
}

std::optional<ManagerEvent> Manager::next(std::chrono::milliseconds wait) {
  pollfd ready{channel_->fd, POLLIN, 0};
  rdma_cm_event* reported = nullptr;
  if (wait.count() > 0) ::poll(&ready, 1, static_cast<int>(wait.count()));
  if (rdma_get_cm_event(channel_.get(), &reported) != 0) return std::nullopt;
  ManagerEvent event;
  event.type = reported->event;
  event.status = reported->status;
  event.id = reported->id;
  const rdma_conn_param& params = reported->param.conn;
  const auto* const data = static_cast<const std::byte*>(params.private_data);
  if (data != nullptr) event.data.assign(data, data + params.private_data_len);
  rdma_ack_cm_event(reported);
  return event;
}

std::optional<ManagerEvent> Manager::next(const Pace& pace) {
  const Clock::time_point end = Clock::now() + pace.patience;
  do {
    if (auto event = next(kRecheckInterval)) return event;
  } while (Clock::now() < end && !pace.stop());
  return std::nullopt;
}

Link::Link(verbs::IdHandle id)
    : id_(std::move(id)),
      domain_(there(verbs::DomainHandle(ibv_alloc_pd(id_->verbs)), "protection domain")),
      target_(registered(domain_.get(), kRemote)),
      source_(registered(domain_.get(), 0)),
      queue_(there(verbs::QueueHandle(ibv_create_cq(id_->verbs, 2 * kLinkDepth, nullptr, nullptr, 0)),
                   "completion queue")),
      pair_(there(make_pair(domain_.get(), queue_.get()), "queue pair")) {
  change(IBV_QPS_INIT);
}

void Link::to_receive() {
  // Repeats the change to INIT, because the constructor did not know the partition key yet.
  change(IBV_QPS_INIT);
  change(IBV_QPS_RTR);
}
void Link::to_send() {
  change(IBV_QPS_RTS);
}

void Link::change(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (rdma_init_qp_attr(id_.get(), &attributes, &mask) != 0)
    throw Trouble{"the connection manager does not report the queue pair attributes: " + errno_text(errno)};
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags = kRemote;
  } else if (state == IBV_QPS_RTR) {
    attributes.min_rnr_timer = kRnrWait;
    attributes.max_dest_rd_atomic = 0;
  } else {
    attributes.max_rd_atomic = 0;
    attributes.retry_cnt = std::min(attributes.retry_cnt, kMaxRetries);
    attributes.rnr_retry = kInfiniteRetries;
  }
  succeed(ibv_modify_qp(pair_.get(), &attributes, mask), "setting a queue pair");
}

int Link::post_receive() {
  ibv_recv_wr request{}, *refused = nullptr;
  return std::abs(ibv_post_recv(pair_.get(), &request, &refused));
}

int Link::post_write(std::size_t bytes, const Hello& to, bool signalled) {
  ibv_sge part{source_.address(), static_cast<std::uint32_t>(bytes), source_.region()->lkey};
  ibv_send_wr request{}, *refused = nullptr;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
  request.sg_list = &part;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = to.address;
  request.wr.rdma.rkey = to.key;
  return std::abs(ibv_post_send(pair_.get(), &request, &refused));
}

int Link::post_immediate(std::uint32_t immediate) {
  ibv_sge none{};
  ibv_send_wr request{}, *refused = nullptr;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &none;
  request.imm_data = htonl(immediate);
  return std::abs(ibv_post_send(pair_.get(), &request, &refused));
}

Hello Link::hello() const noexcept {
  return {target_.region()->rkey, target_.address(), static_cast<std::uint32_t>(kPeerMemory)};
}

std::string Link::describe() const {
  return verbs::to_text(rdma_get_local_addr(id_.get())) + " > " +
         verbs::to_text(rdma_get_peer_addr(id_.get()));
}

}  // namespace rtrs::probe
