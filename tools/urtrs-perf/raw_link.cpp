#include "tools/urtrs-perf/raw_link.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "tools/urtrs-perf/interrupt.hpp"

namespace rtrs::perf {
namespace {

constexpr unsigned kSignalEvery = 32;
// Number of polls without a completion between two reads of the event queue, which reports that the peer has
// disconnected.
constexpr unsigned kIdlePolls = 4096;

// An event of libfabric with space for the private data of the peer.
union Event {
  fi_eq_cm_entry entry;
  std::byte bytes[sizeof(fi_eq_cm_entry) + 256];
};

}  // namespace

bool RawLink::failed(const char* what, int result) {
  error_ = fmt::format("{}: {}", what, ofi::library().strerror(result < 0 ? -result : result));
  return false;
}

ofi::InfoHandle RawLink::ask(const Options& options, const char* node, std::uint64_t flags,
                             int& result) const {
  const ofi::InfoHandle hints(ofi::library().dupinfo(nullptr));
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  fi_info* found = nullptr;
  const std::string service = std::to_string(options.port);
  result = ofi::library().getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, service.c_str(),
                                  flags, hints.get(), &found);
  return ofi::InfoHandle(result == 0 ? found : nullptr);
}

bool RawLink::open_domain() {
  fid_fabric* fabric = nullptr;
  if (const int result = ofi::library().fabric(info_->fabric_attr, &fabric, nullptr))
    return failed("fi_fabric", result);
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int result = fi_domain(fabric, info_.get(), &domain, nullptr)) return failed("fi_domain", result);
  domain_.reset(domain);
  fi_eq_attr attributes{};
  fid_eq* events = nullptr;
  if (const int result = fi_eq_open(fabric, &attributes, &events, nullptr))
    return failed("fi_eq_open", result);
  events_.reset(events);
  return true;
}

bool RawLink::open_endpoint(fi_info& info, const RawGreeting& shape) {
  fid_ep* endpoint = nullptr;
  if (const int result = fi_endpoint(domain_.get(), &info, &endpoint, nullptr))
    return failed("fi_endpoint", result);
  endpoint_.reset(endpoint);
  fi_cq_attr attributes{};
  attributes.size = 4096;
  attributes.format = FI_CQ_FORMAT_DATA;
  fid_cq* queue = nullptr;
  if (const int result = fi_cq_open(domain_.get(), &attributes, &queue, nullptr))
    return failed("fi_cq_open", result);
  queue_.reset(queue);
  slot_bytes_ = std::max(shape.bytes, kRawRequestBytes);
  memory_.resize(std::size_t{slot_bytes_} * shape.iodepth);
  fid_mr* region = nullptr;
  int result = fi_mr_reg(domain_.get(), memory_.data(), memory_.size(), FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0,
                         &region, nullptr);
  if (result != 0) return failed("fi_mr_reg", result);
  region_.reset(region);
  own_ = shape;
  own_.key = fi_mr_key(region);
  own_.address = (info.domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0
                     ? reinterpret_cast<std::uint64_t>(memory_.data())
                     : 0;
  result = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
  if (result == 0) result = fi_ep_bind(endpoint, &events_->fid, 0);
  if (result == 0) result = fi_enable(endpoint);
  return result == 0 || failed("fi_enable", result);
}

bool RawLink::await(std::uint32_t wanted, Nanos patience, RawGreeting* greeting, fi_info** info) {
  const Nanos end = patience == kNever ? kNever : asio::steady_now() + patience;
  while (caught_signal() == 0 && asio::steady_now() < end) {
    Event event{};
    std::uint32_t kind = 0;
    const ssize_t count = fi_eq_sread(events_.get(), &kind, &event, sizeof event, 100, 0);
    if (count == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(events_.get(), &error, 0);
      return failed("no connection", error.err);
    }
    if (count < 0 || kind != wanted) continue;
    const std::size_t data = static_cast<std::size_t>(count) - sizeof event.entry;
    if (greeting != nullptr && data < sizeof *greeting) return failed("greeting", FI_EINVAL);
    if (greeting != nullptr) std::memcpy(greeting, event.bytes + sizeof event.entry, sizeof *greeting);
    if (info != nullptr) *info = event.entry.info;
    return true;
  }
  return failed("no connection", caught_signal() != 0 ? FI_EINTR : FI_ETIMEDOUT);
}

bool RawLink::load() {
  error_ = ofi::library().failure;
  return error_.empty();
}

bool RawLink::listen(const Options& options, std::uint16_t& port) {
  if (!load()) return false;
  int result = 0;
  info_ = ask(options, options.listen.empty() ? nullptr : options.listen.c_str(), FI_SOURCE, result);
  if (info_ == nullptr) return failed("fi_getinfo", result);
  if (!open_domain()) return false;
  fid_pep* passive = nullptr;
  result = fi_passive_ep(fabric_.get(), info_.get(), &passive, nullptr);
  if (result != 0) return failed("fi_passive_ep", result);
  passive_.reset(passive);
  result = fi_pep_bind(passive, &events_->fid, 0);
  if (result == 0) result = fi_listen(passive);
  if (result != 0) return failed("fi_listen", result);
  sockaddr_storage name{};
  std::size_t length = sizeof name;
  result = fi_getname(&passive->fid, &name, &length);
  if (result != 0) return failed("fi_getname", result);
  port = ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(name).sin_port);
  return true;
}

bool RawLink::accept() {
  fi_info* request = nullptr;
  if (!await(FI_CONNREQ, kNever, &peer_, &request)) return false;
  const ofi::InfoHandle owner(request);
  if (peer_.iodepth == 0 || peer_.iodepth > 1024 || peer_.bytes > kMaxRawBytes)
    return failed("greeting", FI_EINVAL);
  if (!open_endpoint(*request, peer_)) return false;
  const int result = fi_accept(endpoint_.get(), &own_, sizeof own_);
  if (result != 0) return failed("fi_accept", result);
  return await(FI_CONNECTED, seconds(5), nullptr, nullptr);
}

bool RawLink::connect(const Options& options, const RawGreeting& shape) {
  if (!load()) return false;
  int result = 0;
  info_ = ask(options, options.addresses.front().c_str(), 0, result);
  if (info_ == nullptr) return failed("fi_getinfo", result);
  if (!open_domain() || !open_endpoint(*info_, shape)) return false;
  result = fi_connect(endpoint_.get(), info_->dest_addr, &own_, sizeof own_);
  if (result != 0) return failed("fi_connect", result);
  return await(FI_CONNECTED, options.connect_timeout, &peer_, nullptr);
}

bool RawLink::write(std::uint32_t slot, std::uint32_t bytes) noexcept {
  iovec part{memory_.data() + std::size_t{slot} * slot_bytes_, bytes};
  void* descriptor = fi_mr_desc(region_.get());
  fi_rma_iov remote{peer_.address + std::uint64_t{slot} * slot_bytes_, bytes, peer_.key};
  fi_msg_rma message{};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = bytes == 0 ? 0 : 1;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.data = slot;
  const std::uint64_t ask_for = ++posted_ % kSignalEvery == 0 ? FI_COMPLETION : 0;
  return fi_writemsg(endpoint_.get(), &message, FI_REMOTE_CQ_DATA | ask_for) == 0;
}

bool RawLink::poll(std::vector<std::uint32_t>& arrived) noexcept {
  std::array<fi_cq_data_entry, 16> entries;
  const ssize_t count = fi_cq_read(queue_.get(), entries.data(), entries.size());
  if (count > 0) {
    for (const fi_cq_data_entry& entry : std::span(entries).first(static_cast<std::size_t>(count)))
      if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) arrived.push_back(static_cast<std::uint32_t>(entry.data));
    return true;
  }
  if (count != -FI_EAGAIN) return false;
  if (++idle_polls_ % kIdlePolls != 0) return true;
  Event event{};
  std::uint32_t kind = 0;
  return fi_eq_read(events_.get(), &kind, &event, sizeof event, 0) <= 0 || kind != FI_SHUTDOWN;
}

}  // namespace rtrs::perf
