#include "tools/lib/control/rdma_probe/device.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace rtrs::probe {
namespace {

constexpr std::uint32_t kSoftRoceVendor = 0xffffff;
constexpr int kMaxGids = 256;
constexpr std::array<std::uint8_t, 12> kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_empty(const ibv_gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t byte) { return byte == 0; });
}
bool is_ipv4(const ibv_gid& gid) {
  return std::equal(kIpv4.begin(), kIpv4.end(), std::begin(gid.raw));
}

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

// Chooses the GID for the tests. Prefers RoCE version 2, because it can be routed. Among GIDs of the same
// version, prefers an IPv4 address, because most networks use IPv4.
void choose_gid(const System& system, Device& device) {
  const int count = std::clamp(device.port_attributes.gid_tbl_len, 1, kMaxGids);
  int best = -1;
  for (int index = 0; index < count; ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(device.context.get(), device.port, index, &gid) != 0 || is_empty(gid)) continue;
    const auto type = system.read(
        fmt::format("/sys/class/infiniband/{}/ports/{}/gid_attrs/types/{}", device.name, device.port, index));
    const int worth = (type && type->find("v2") != std::string::npos ? 2 : 0) + (is_ipv4(gid) ? 1 : 0);
    if (worth <= best) continue;
    best = worth;
    device.gid_index = index;
    device.gid = gid;
  }
}

}  // namespace

bool Device::soft_roce() const noexcept {
  return attributes.vendor_id == kSoftRoceVendor;
}
bool Device::has_transport() const noexcept {
  return context->device->transport_type == IBV_TRANSPORT_IB;
}

std::vector<std::string> device_names() {
  const DeviceList list;
  std::vector<std::string> names;
  for (int i = 0; i < list.count; ++i) names.emplace_back(ibv_get_device_name(list.devices[i]));
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Device> open_device(const System& system, const std::string& name, std::string& why) {
  const DeviceList list;
  for (int i = 0; i < list.count; ++i) {
    if (name != ibv_get_device_name(list.devices[i])) continue;
    auto device = std::make_unique<Device>();
    device->name = name;
    errno = 0;
    device->context.reset(ibv_open_device(list.devices[i]));
    if (device->context == nullptr) {
      why = errno_text(errno);
      return nullptr;
    }
    device->domain.reset(ibv_alloc_pd(device->context.get()));
    if (device->domain == nullptr) {
      why = "no protection domain: " + errno_text(errno);
      return nullptr;
    }
    if (const int error = ibv_query_device(device->context.get(), &device->attributes); error != 0) {
      why = "cannot query its limits: " + errno_text(error);
      return nullptr;
    }
    for (unsigned port = 1; port <= device->attributes.phys_port_cnt && device->port == 0; ++port) {
      ibv_port_attr attributes{};
      if (ibv_query_port(device->context.get(), static_cast<std::uint8_t>(port), &attributes) != 0 ||
          attributes.state != IBV_PORT_ACTIVE)
        continue;
      device->port = static_cast<std::uint8_t>(port);
      device->port_attributes = attributes;
    }
    if (device->port != 0) choose_gid(system, *device);
    return device;
  }
  why = "no such device";
  return nullptr;
}

std::string errno_text(int error) {
  return fmt::format("{} ({})", std::strerror(error), error);
}

std::string gid_text(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4(gid))
    ::inet_ntop(AF_INET, gid.raw + kIpv4.size(), text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
  return text.data();
}

}  // namespace rtrs::probe
