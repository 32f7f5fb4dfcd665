#include "backends/verbs/verbs_device.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kSoftRoceVendor = 0xffffff;
// A queue pair holds them beside the work requests of the caller.
constexpr int kLeastDepth = 64;
// What is left of the 92 bytes of a connect request of InfiniBand after the addresses, and those of its
// answers.
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

// Flags alone are not believed: some drivers set them and refuse.
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

// What the device lacks for RTRS, or nullptr.
const char* lacking(const Device& device) {
  if (device.context->device->transport_type != IBV_TRANSPORT_IB)
    return "RDMA writes with immediate data (it is no InfiniBand or RoCE device)";
  if (device.attributes.max_qp_wr < kLeastDepth) return "room for work requests";
  if (device.attributes.max_sge < 2) return "work requests of two parts";
  return nullptr;
}

std::uint32_t greatest_message(const Device& device) {
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (unsigned port = 1; port <= device.attributes.phys_port_cnt; ++port) {
    ibv_port_attr attributes{};
    if (ibv_query_port(device.context.get(), static_cast<std::uint8_t>(port), &attributes) != 0) continue;
    if (attributes.max_msg_sz != 0) least = std::min(least, attributes.max_msg_sz);
  }
  return least;
}

void restrict_to(Capabilities& can, const Device& device) {
  // Half of a send queue is for what makes and kills keys.
  const auto depth =
      static_cast<std::uint32_t>(std::min({device.attributes.max_qp_wr, device.attributes.max_cqe, 65535}));
  can.max_send_depth = std::min(can.max_send_depth, depth / 2);
  can.max_receive_depth = std::min(can.max_receive_depth, depth / 2);
  can.max_message = std::min(can.max_message, greatest_message(device));
  can.per_io_keys = can.per_io_keys && device.per_qp_windows;
  // Soft-RoCE looks a key up for the first packet of a message only.
  can.invalidation_fences = can.invalidation_fences && !device.soft_roce;
  can.invalidation_breaks_on_packet_loss = can.invalidation_breaks_on_packet_loss || device.soft_roce;
  // There a message takes two packets through both hosts' network stacks, and an invalidation none.
  can.send_invalidate_is_slow = can.send_invalidate_is_slow || device.soft_roce;
}

Capabilities most_there_is(const VerbsOptions& options) {
  Capabilities can;
  can.name = "verbs";
  can.max_send_depth = can.max_receive_depth = can.max_message = std::numeric_limits<std::uint32_t>::max();
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

}  // namespace

void say(const VerbsOptions& options, LogLevel level, const std::string& text) {
  if (options.log) options.log(level, text);
}

std::unique_ptr<Device> Device::open(const VerbsOptions& options, const std::string& name) {
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
    return device;
  }
  say(options, LogLevel::error,
      "there is no RDMA device \"" + name + "\"; 'rdma link' lists those of this machine");
  return nullptr;
}

Result<Capabilities> survey(const VerbsOptions& options) {
  const DeviceList list;
  if (list.count == 0) {
    say(options, LogLevel::error,
        "this machine has no RDMA device ('rdma link' lists them); soft-RoCE makes one of a network "
        "interface: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
    return tl::unexpected(Errc::not_supported);
  }
  Capabilities can = most_there_is(options);
  bool windows = true;
  unsigned usable = 0;
  Errc error = Errc::not_supported;
  for (int i = 0; i < list.count; ++i) {
    const std::string name = ibv_get_device_name(list.devices[i]);
    if (!options.device.empty() && name != options.device) continue;
    if (::access((std::string("/dev/infiniband/") + list.devices[i]->dev_name).c_str(), R_OK | W_OK) != 0 &&
        errno == EACCES) {
      error = open_failed(options, name, EACCES);
      continue;
    }
    const auto device = Device::open(options, name);
    if (device == nullptr) continue;
    restrict_to(can, *device);
    windows = windows && device->windows;
    ++usable;
  }
  if (usable == 0) {
    if (error == Errc::no_permission) return tl::unexpected(error);  // was said
    say(options, LogLevel::error,
        "no RDMA device of this machine can be used" +
            (options.device.empty() ? "" : " by the name " + options.device));
    return tl::unexpected(error);
  }
  if (options.invalidation == Invalidation::windows && !windows) {
    say(options, LogLevel::error, "memory windows of type 1 are asked for, and a device has none");
    return tl::unexpected(Errc::not_supported);
  }
  // Without work requests of its own there is nothing that sending again could repeat.
  if (options.invalidation == Invalidation::registration) can.invalidation_breaks_on_packet_loss = false;
  return can;
}

}  // namespace rtrs::verbs
