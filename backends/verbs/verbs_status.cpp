#include "backends/verbs/verbs_status.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace rtrs::verbs {
namespace {

// Reasons of a REJ message of the InfiniBand connection manager.
constexpr int kRejectStaleConnection = 10;
constexpr int kRejectInvalidServiceId = 8;
constexpr int kRejectTimeout = 4;
constexpr int kRejectNoQp = 1;
constexpr int kRejectNoEec = 2;
constexpr int kRejectNoResources = 3;
constexpr int kRejectByConsumer = 28;

std::string reject_text(int reason) {
  switch (reason) {
    case kRejectInvalidServiceId:
      return "no server listens on that address";
    case kRejectByConsumer:
      return "the peer rejected the request";
    case kRejectStaleConnection:
      return "the peer still holds an older connection of this queue pair";
    case kRejectNoQp:
    case kRejectNoEec:
    case kRejectNoResources:
      return "the peer has no resources left";
    case kRejectTimeout:
      return "the peer gave up waiting";
    default:
      return "the peer's connection manager rejected the request";
  }
}

}  // namespace

Reason connect_reason(rdma_cm_event_type event, int status) noexcept {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return status == -ENOMEM ? Reason::no_resources : Reason::address_unresolved;
    case RDMA_CM_EVENT_UNREACHABLE:
      return Reason::connect_timeout;
    case RDMA_CM_EVENT_REJECTED:
      if (status == kRejectInvalidServiceId) return Reason::connect_refused;
      return status == kRejectStaleConnection ? Reason::transport_error : Reason::rejected;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return Reason::fabric_gone;
    case RDMA_CM_EVENT_DISCONNECTED:
      return Reason::peer_closed;
    default:
      return status == -ENOMEM ? Reason::no_resources : Reason::transport_error;
  }
}

std::string connect_text(rdma_cm_event_type event, int status) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (status == -ENODEV) return "no RDMA device of this host leads there ('rdma link' lists them)";
      if (status == -ETIMEDOUT) return "no reply to the request for its hardware address";
      return "that address cannot be resolved: " + errno_text(-status);
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "no route to that address: " + errno_text(-status);
    case RDMA_CM_EVENT_UNREACHABLE:
      return "no answer";
    case RDMA_CM_EVENT_REJECTED:
      return reject_text(status) + " (reason " + std::to_string(status) + ")";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "the RDMA device was removed";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "its address has moved to another network interface (a bond failed over)";
    default:
      return std::string(rdma_event_str(event)) + (status == 0 ? "" : ": " + errno_text(-status));
  }
}

Reason loss_reason(ibv_wc_status status) noexcept {
  return status == IBV_WC_FATAL_ERR ? Reason::fabric_gone : Reason::transport_error;
}

std::string errno_text(int error) {
  return std::string(std::strerror(error)) + " (" + std::to_string(error) + ")";
}

std::string memlock_advice(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return "; " + std::to_string(bytes >> 10) +
         " KiB more would have to be locked, and the limit of this process is " +
         std::to_string(limit.rlim_cur >> 10) +
         " KiB in all: raise it with 'ulimit -l unlimited' before the start, or LimitMEMLOCK=infinity in a "
         "systemd "
         "unit";
}

}  // namespace rtrs::verbs
