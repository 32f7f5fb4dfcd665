#include "backends/verbs/verbs_device.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <optional>
#include <vector>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kSoftRoceVendor = 0xffffff;
// A queue pair needs these entries in addition to the work requests of the caller.
constexpr int kMinDepth = 64;
// Private data in bytes of an InfiniBand connect request (92 less the addresses) and of its replies.
constexpr std::uint16_t kConnectData = 56;
constexpr std::uint16_t kAcceptData = 196;
constexpr std::uint16_t kRejectData = 148;

struct DeviceList {
  DeviceList() : devices(ibv_get_device_list(&count)) {}
  ~DeviceList() {
    if (devices != nullptr) ibv_free_device_list(devices);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  int count = 0;
  ibv_device** devices;
};

bool does_not_block(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// Allocates a window to find out, because some drivers set the capability flag and then refuse.
bool has_window(ibv_pd* domain, ibv_mw_type type) {
  const WindowHandle window(ibv_alloc_mw(domain, type));
  return window != nullptr;
}

Errc open_failed(const VerbsOptions& options, const std::string& name, int error) {
  std::string text = name + ": cannot open the RDMA device: " + errno_text(error);
  if (error == EACCES || error == EPERM) {
    text += "; this user needs read and write access to /dev/infiniband/uverbs*";
    say(options, LogLevel::error, text);
    return Errc::no_permission;
  }
  if (error == ENOMEM) text += memlock_advice(std::size_t{1} << 20);
  say(options, LogLevel::error, text);
  return to_errc(error);
}

// Returns the feature that the device lacks for RTRS, or nullptr.
const char* lacking(const Device& device) {
  if (device.context->device->transport_type != IBV_TRANSPORT_IB)
    return "RDMA writes with immediate data (it is not an InfiniBand or RoCE device)";
  if (device.attributes.max_qp_wr < kMinDepth) return "room for work requests";
  if (device.attributes.max_sge < 2) return "work requests of two parts";
  return nullptr;
}

std::uint32_t max_device_depth(const Device& device) {
  return static_cast<std::uint32_t>(std::min(device.attributes.max_qp_wr, 65535));
}

// All operations that a connection on the device may post.
std::uint64_t send_ops_of(const Device& device) {
  std::uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                      IBV_QP_EX_WITH_SEND_WITH_IMM;
  const unsigned flags = device.attributes.device_cap_flags;
  if ((flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0) ops |= IBV_QP_EX_WITH_SEND_WITH_INV;
  // Includes binds even if ibv_post_send() posts them, because the queue must have room for them.
  if (device.windows || device.per_qp_windows) ops |= IBV_QP_EX_WITH_BIND_MW;
  return ops;
}

std::uint32_t max_device_message(const Device& device) {
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (unsigned port = 1; port <= device.attributes.phys_port_cnt; ++port) {
    ibv_port_attr attributes{};
    if (ibv_query_port(device.context.get(), static_cast<std::uint8_t>(port), &attributes) != 0) continue;
    if (attributes.max_msg_sz != 0) least = std::min(least, attributes.max_msg_sz);
  }
  return least;
}

// Capabilities of hardware that supports everything, used before the devices are examined.
Capabilities full_capabilities(const VerbsOptions& options) {
  Capabilities can;
  can.name = "verbs";
  can.connect_data = kConnectData;
  can.accept_data = kAcceptData;
  can.reject_data = kRejectData;
  can.imm_consumes_receive = true;
  can.send_invalidate = true;
  can.per_io_keys = true;
  can.invalidation = options.invalidation != Invalidation::off;
  can.invalidation_fences = true;
  can.done_means_delivered = true;
  return can;
}

Capabilities capabilities_of(const Device& device, const VerbsOptions& options) {
  Capabilities can = full_capabilities(options);
  const bool by_registration = options.invalidation == Invalidation::registration;
  // Sends and receives complete in the same queue.
  const auto completions = static_cast<std::uint32_t>(device.attributes.max_cqe) / 2;
  can.max_send_depth = std::min(device.limits.send_depth, completions);
  can.max_receive_depth = std::min(max_device_depth(device), completions);
  can.max_message = max_device_message(device);
  can.send_invalidate = (device.attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  can.per_io_keys = device.per_qp_windows;
  can.invalidation = can.invalidation && (device.windows || by_registration);
  // Soft-RoCE checks a key only for the first packet of a message.
  can.invalidation_fences = !device.soft_roce;
  // Registration uses no work requests, so a retransmission cannot repeat an invalidation.
  can.invalidation_breaks_on_packet_loss = device.soft_roce && !by_registration;
  // On soft-RoCE a message takes two packets through the network stacks of both hosts; an invalidation takes
  // none.
  can.send_invalidate_is_slow = device.soft_roce;
  return can;
}

// The fabric has a capability if any device has it. Its method to invalidate keys is the method of the device
// with the best protection.
void widen(Capabilities& all, const Capabilities& own) {
  all.max_send_depth = std::max(all.max_send_depth, own.max_send_depth);
  all.max_receive_depth = std::max(all.max_receive_depth, own.max_receive_depth);
  all.max_message = std::min(all.max_message, own.max_message);
  all.send_invalidate = all.send_invalidate || own.send_invalidate;
  all.send_invalidate_is_slow = all.send_invalidate_is_slow || own.send_invalidate_is_slow;
  all.per_io_keys = all.per_io_keys || own.per_io_keys;
  if (all.invalidation && !fresh_keys_protect(own)) return;
  all.invalidation = own.invalidation;
  all.invalidation_fences = own.invalidation_fences;
  all.invalidation_breaks_on_packet_loss = own.invalidation_breaks_on_packet_loss;
}

// Returns the names of the devices that have these addresses; empty: any device may be used.
std::vector<std::string> devices_of(const std::vector<std::string>& addresses) {
  std::vector<std::string> found;
  if (addresses.empty()) return found;
  const EventChannelHandle channel(rdma_create_event_channel());
  if (channel == nullptr) return found;
  // All addresses of the texts; listen() reports a text without an address.
  std::vector<net::SocketAddress> all;
  for (const std::string& text : addresses)
    for (const net::SocketAddress& one : resolve_addresses(text, 0)) all.push_back(one);
  for (net::SocketAddress& address : all) {
    if (is_wildcard(address.get())) return {};
    rdma_cm_id* id = nullptr;
    const rdma_port_space space = is_gid(address.get()) ? RDMA_PS_IB : RDMA_PS_TCP;
    if (rdma_create_id(channel.get(), &id, nullptr, space) != 0) continue;
    const IdHandle owner(id);
    if (rdma_bind_addr(id, address.get()) == 0 && id->verbs != nullptr)
      found.emplace_back(ibv_get_device_name(id->verbs->device));
  }
  return found;
}

}  // namespace

void say(const VerbsOptions& options, LogLevel level, const std::string& text) {
  if (options.log) options.log(level, text);
}

bool Device::take_thread_domain() noexcept {
  errno = 0;
  ibv_td_init_attr plain{};
  thread.reset(ibv_alloc_td(context.get(), &plain));
  if (thread != nullptr) {
    ibv_parent_domain_init_attr wanted{};
    wanted.pd = domain.get();
    wanted.td = thread.get();
    of_thread.reset(ibv_alloc_parent_domain(context.get(), &wanted));
  }
  if (of_thread != nullptr) return true;
  const int error = errno != 0 ? errno : EOPNOTSUPP;
  thread.reset();
  return errno = error, false;
}

int Device::next_vector() const noexcept {
  static std::atomic<unsigned> next{static_cast<unsigned>(::getpid())};
  const auto count = static_cast<unsigned>(std::max(context->num_comp_vectors, 1));
  return static_cast<int>(next.fetch_add(1, std::memory_order_relaxed) % count);
}

std::uint32_t Device::max_work_requests(std::uint32_t receives) const noexcept {
  const auto entries = static_cast<std::uint32_t>(attributes.max_cqe);
  return std::min(limits.send_depth, entries > receives ? entries - receives : 1);
}

std::unique_ptr<Device> Device::open(const VerbsOptions& options, const std::string& name,
                                     const Limits* limits) {
  const DeviceList list;
  for (int i = 0; i < list.count; ++i) {
    if (name != ibv_get_device_name(list.devices[i])) continue;
    auto device = std::make_unique<Device>();
    device->name = name;
    errno = 0;
    device->context.reset(ibv_open_device(list.devices[i]));
    if (device->context == nullptr) {
      open_failed(options, name, errno);
      return nullptr;
    }
    ibv_context* context = device->context.get();
    device->domain.reset(ibv_alloc_pd(context));
    device->channel.reset(ibv_create_comp_channel(context));
    if (device->domain == nullptr || device->channel == nullptr ||
        ibv_query_device(context, &device->attributes) != 0 || !does_not_block(context->async_fd) ||
        !does_not_block(device->channel->fd)) {
      open_failed(options, name, errno);
      return nullptr;
    }
    const unsigned flags = device->attributes.device_cap_flags;
    device->soft_roce = device->attributes.vendor_id == kSoftRoceVendor;
    device->windows = (flags & IBV_DEVICE_MEM_WINDOW) != 0 && has_window(device->domain.get(), IBV_MW_TYPE_1);
    device->per_qp_windows =
        (flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0 && has_window(device->domain.get(), IBV_MW_TYPE_2);
    if (const char* lack = lacking(*device)) {
      say(options, LogLevel::warning, name + " cannot carry RTRS: it lacks " + lack);
      return nullptr;
    }
    const std::uint64_t send_ops = options.posting == Posting::send ? 0 : send_ops_of(*device);
    const auto tried = limits != nullptr ? *limits
                                         : try_queue_pairs(context, device->domain.get(),
                                                           max_device_depth(*device), send_ops);
    if (!tried) {
      open_failed(options, name, errno);
      return nullptr;
    }
    device->limits = *tried;
    device->can = capabilities_of(*device, options);
    return device;
  }
  say(options, LogLevel::error,
      "no RDMA device named \"" + name + "\"; 'rdma link' lists those of this machine");
  return nullptr;
}

Result<DeviceSurvey> survey(const VerbsOptions& options) {
  const DeviceList list;
  if (list.count == 0) {
    say(options, LogLevel::error,
        "this machine has no RDMA device ('rdma link' lists them); soft-RoCE creates one on a network "
        "interface: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
    return tl::unexpected(Errc::not_supported);
  }
  const std::vector<std::string> wanted =
      options.device.empty() ? devices_of(options.addresses) : std::vector{options.device};
  std::optional<Capabilities> can;
  DeviceSurvey surveyed;
  bool windows = false;
  Errc error = Errc::not_supported;
  for (int i = 0; i < list.count; ++i) {
    const std::string name = ibv_get_device_name(list.devices[i]);
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    if (::access((std::string("/dev/infiniband/") + list.devices[i]->dev_name).c_str(), R_OK | W_OK) != 0 &&
        errno == EACCES) {
      error = open_failed(options, name, EACCES);
      continue;
    }
    const auto device = Device::open(options, name);
    if (device == nullptr) continue;
    can ? widen(*can, device->can) : void(can = device->can);
    surveyed.limits.emplace_back(name, device->limits);
    windows = windows || device->windows;
  }
  if (!can) {
    if (error == Errc::no_permission) return tl::unexpected(error);  // already logged
    say(options, LogLevel::error,
        "no RDMA device of this machine can be used" +
            (options.device.empty() ? "" : " by the name " + options.device));
    return tl::unexpected(error);
  }
  if (options.invalidation == Invalidation::windows && !windows) {
    say(options, LogLevel::error, "memory windows of type 1 are requested, but no device has them");
    return tl::unexpected(Errc::not_supported);
  }
  surveyed.can = *can;
  return surveyed;
}

}  // namespace rtrs::verbs
