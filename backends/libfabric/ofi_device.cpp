#include "backends/libfabric/ofi_device.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/libfabric/ofi_status.hpp"

namespace rtrs::ofi {
namespace {

constexpr std::uint32_t kApiVersion = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

InfoHandle query(const OfiOptions& options, std::size_t depth, int& error) {
  const InfoHandle hints(library().dupinfo(nullptr));
  if (hints == nullptr) {
    error = FI_ENOMEM;
    return nullptr;
  }
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_RX_CQ_DATA | FI_CONTEXT;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->tx_attr->size = depth;
  hints->rx_attr->size = depth;
  hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  if (!options.fabric.empty()) hints->fabric_attr->name = strdup(options.fabric.c_str());
  if (!options.domain.empty()) hints->domain_attr->name = strdup(options.domain.c_str());
  fi_info* found = nullptr;
  error = -library().getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &found);
  return InfoHandle(error == 0 ? found : nullptr);
}

// Providers do not report their maximum depth, but only accept or reject a requested depth.
InfoHandle query_deepest(const OfiOptions& options, int& error) {
  for (const std::size_t depth : {4096u, 2048u, 1024u, 512u, 0u}) {
    if (InfoHandle info = query(options, depth, error)) return info;
  }
  return nullptr;
}

const char* missing(const fi_info& info) {
  if (info.domain_attr->cq_data_size < sizeof(std::uint32_t)) return "32 bits of remote completion data";
  if (info.tx_attr->iov_limit < 2) return "gathering of two parts";
  if ((info.mode & ~(FI_RX_CQ_DATA | FI_CONTEXT)) != 0) return "a mode that this program knows";
  if ((info.tx_attr->msg_order & FI_ORDER_WAW) == 0) return "writes that arrive in order";
  return nullptr;
}

std::uint16_t connection_data_limit(const Device& device) {
  fid_pep* passive = nullptr;
  std::size_t limit = 0;
  std::size_t size = sizeof limit;
  if (fi_passive_ep(device.fabric.get(), device.info.get(), &passive, nullptr) != 0) return 0;
  const PassiveEndpoint owner(passive);
  if (fi_getopt(&passive->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &size) != 0) return 0;
  return static_cast<std::uint16_t>(std::min<std::size_t>(limit, std::numeric_limits<std::uint16_t>::max()));
}

void describe_capabilities(Device& device) {
  const fi_info& info = *device.info;
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  Capabilities& can = device.capabilities;
  can.name = device.name.c_str();
  can.max_send_depth = static_cast<std::uint32_t>(std::min(info.tx_attr->size, kMost));
  can.max_receive_depth = static_cast<std::uint32_t>(std::min(info.rx_attr->size, kMost));
  can.max_message = static_cast<std::uint32_t>(std::min(info.ep_attr->max_msg_size, kMost));
  can.connect_data = can.accept_data = can.reject_data = connection_data_limit(device);
  can.imm_consumes_receive = (info.mode & FI_RX_CQ_DATA) != 0;
  can.invalidation = true;
  const int keys = info.domain_attr->mr_mode;
  device.local_keys = (keys & FI_MR_LOCAL) != 0;
  device.provider_keys = (keys & FI_MR_PROV_KEY) != 0;
  device.virtual_addresses = (keys & FI_MR_VIRT_ADDR) != 0;
  device.inject_size = info.tx_attr->inject_size;
}

Errc open_objects(Device& device, const OfiOptions& options) {
  const auto check = [&](int result, const char* what) {
    if (result != 0) {
      say(options, LogLevel::error, device.name + ": " + what + " failed: " + error_text(-result));
    }
    return to_errc(-result);
  };
  fid_fabric* fabric = nullptr;
  if (const Errc e = check(library().fabric(device.info->fabric_attr, &fabric, nullptr), "fi_fabric");
      e != Errc::ok) {
    return e;
  }
  device.fabric.reset(fabric);
  if (const Errc e = check(library().fabric(device.info->fabric_attr, &fabric, nullptr), "fi_fabric");
      e != Errc::ok) {
    return e;
  }
  device.listen_fabric.reset(fabric);
  fid_domain* domain = nullptr;
  const Errc e = check(fi_domain(device.fabric.get(), device.info.get(), &domain, nullptr), "fi_domain");
  device.domain.reset(domain);
  return e;
}

}  // namespace

void say(const OfiOptions& options, LogLevel level, const std::string& text) {
  if (options.log) options.log(level, text);
}

Result<std::unique_ptr<Device>> Device::open(const OfiOptions& options) {
  auto opened = std::make_unique<Device>();
  Device& device = *opened;
  device.name = "libfabric/" + options.provider;
  int error = 0;
  device.info = query_deepest(options, error);
  if (device.info == nullptr) {
    say(options, LogLevel::error,
        device.name + ": no such provider with FI_EP_MSG, FI_MSG and FI_RMA here: " + error_text(error));
    return tl::unexpected(error == FI_ENOMEM ? Errc::no_memory : Errc::not_supported);
  }
  if (const char* lacking = missing(*device.info)) {
    say(options, LogLevel::error, device.name + ": the provider lacks " + lacking);
    return tl::unexpected(Errc::not_supported);
  }
  if (const Errc e = open_objects(device, options); e != Errc::ok) return tl::unexpected(e);
  describe_capabilities(device);
  return opened;
}

}  // namespace rtrs::ofi
