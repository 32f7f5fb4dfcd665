#include "tools/lib/control/rdma_probe/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/lib/control/rdma_probe/probe_error.hpp"

namespace rtrs::probe {
namespace {

using Grade = Line::Grade;

std::string folder_of(const Device& device) {
  return "/sys/class/infiniband/" + device.name;
}

std::string driver_of(const System& system, const Device& device) {
  const std::string driver = system.target(folder_of(device) + "/device/driver");
  if (!driver.empty()) return driver;
  // A software device has no driver link in sysfs.
  if (device.soft_roce()) return "rdma_rxe";
  return device.has_transport() ? "" : "siw";
}

Line said(const Device& device, const char* check, std::string what, std::string otherwise) {
  Line line{.device = device.name, .check = check, .what = std::move(what)};
  if (!line.what.empty()) return line;
  line.grade = Grade::absent;
  line.what = "not known";
  line.remedy = std::move(otherwise);
  return line;
}

Line place_of(const System& system, const Device& device) {
  const std::string at = folder_of(device) + "/device";
  const std::string address = system.target(at);
  const std::string width = system.read(at + "/current_link_width").value_or("");
  if (width.empty())
    return {.device = device.name,
            .check = "PCIe and NUMA",
            .grade = Grade::absent,
            .what = device.soft_roce() ? "soft-RoCE has no place on a bus" : "the kernel does not report it",
            .remedy = "nothing to do"};
  const std::string most = system.read(at + "/max_link_width").value_or(width);
  const std::string speed = system.read(at + "/current_link_speed").value_or("?");
  const std::string best = system.read(at + "/max_link_speed").value_or(speed);
  Line line{.device = device.name,
            .check = "PCIe and NUMA",
            .what = fmt::format("{}: {} lanes of {}, node {}", address, width, speed,
                                system.read(at + "/numa_node").value_or("?"))};
  if (width == most && speed == best) return line;
  line.grade = Grade::failed;
  line.what += fmt::format("; the adapter has {} lanes of {}", most, best);
  line.remedy = "put it into a slot that has them: lspci -vv shows LnkSta against LnkCap";
  return line;
}

Line limits_of(const Device& device) {
  const ibv_device_attr& can = device.attributes;
  return {.device = device.name,
          .check = "limits",
          .what = fmt::format(
              "{} queue pairs of {} work requests of {} parts, queues of {}, {} regions, {} windows",
              can.max_qp, can.max_qp_wr, can.max_sge, can.max_cqe, can.max_mr, can.max_mw)};
}

Line transport_of(const Device& device) {
  Line line{.device = device.name, .check = "transport", .what = "InfiniBand or RoCE"};
  if (device.has_transport()) return line;
  line.grade = Grade::absent;
  line.what = "iWARP or another one without writes with immediate; RTRS needs them";
  line.remedy = "use the fabric tcp over this interface";
  return line;
}

const char* state_of(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "not configured by a subnet manager";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "in an unknown state";
  }
}

Line state_line(const System& system, const Device& device, unsigned port, const ibv_port_attr& is) {
  const bool infiniband = is.link_layer != IBV_LINK_LAYER_ETHERNET;
  Line line{.device = device.name,
            .check = fmt::format("port {}", port),
            .what = fmt::format("{}, {}, MTU {}", state_of(is.state), infiniband ? "InfiniBand" : "Ethernet",
                                128U << static_cast<unsigned>(is.active_mtu))};
  const auto rate = system.read(fmt::format("{}/ports/{}/rate", folder_of(device), port));
  if (rate) line.what += ", " + *rate;
  if (is.state == IBV_PORT_ACTIVE) return line;
  line.grade = Grade::absent;
  line.remedy = is.state == IBV_PORT_INIT ? "start a subnet manager in this network: opensm"
                                          : "connect its cable, or bring its network interface up: ip link "
                                            "set INTERFACE up";
  return line;
}

// Returns, for example, "bond0, a bond (active-backup) of eth0 eth1" or "eth0.5, a VLAN".
std::string interface_text(const System& system, const std::string& interface) {
  const std::string at = "/sys/class/net/" + interface;
  std::string text = interface;
  const std::string master = system.target(at + "/master");
  if (!master.empty()) text += fmt::format(" of the bond {}", master);
  if (const auto mode = system.read(at + "/bonding/mode"))
    text += fmt::format(", a bond ({}) of {}", mode->substr(0, mode->find(' ')),
                        system.read(at + "/bonding/slaves").value_or("?"));
  if (system.read(at + "/uevent").value_or("").find("DEVTYPE=vlan") != std::string::npos) text += ", a VLAN";
  return text;
}

Line gids_of(const System& system, const Device& device, unsigned port) {
  const std::string at = fmt::format("{}/ports/{}", folder_of(device), port);
  Line line{.device = device.name, .check = fmt::format("port {} GIDs", port)};
  std::vector<int> numbers;
  for (const std::string& name : system.names_in(at + "/gids")) numbers.push_back(std::atoi(name.c_str()));
  std::sort(numbers.begin(), numbers.end());
  for (const int number : numbers) {
    ibv_gid gid{};
    if (ibv_query_gid(device.context.get(), static_cast<std::uint8_t>(port), number, &gid) != 0) continue;
    if (std::all_of(std::begin(gid.raw), std::end(gid.raw), [](std::uint8_t byte) { return byte == 0; }))
      continue;
    const std::string type =
        system.read(fmt::format("{}/gid_attrs/types/{}", at, number)).value_or("of an unknown type");
    const std::string interface = system.read(fmt::format("{}/gid_attrs/ndevs/{}", at, number)).value_or("");
    line.what += fmt::format("{}{} {} ({}{}{})", line.what.empty() ? "" : "; ", number, gid_text(gid), type,
                             interface.empty() ? "" : ", ",
                             interface.empty() ? "" : interface_text(system, interface));
  }
  if (!line.what.empty()) return line;
  line.grade = Grade::absent;
  line.what = "none";
  line.remedy = "give its network interface an address: ip address add ADDRESS/24 dev INTERFACE";
  return line;
}

}  // namespace

Lines report_host(const System& system) {
  Lines lines;
  lines.push_back({.check = "kernel", .what = system.kernel()});
  const std::string library = system.rdma_core();
  lines.push_back({.check = "rdma-core", .what = library.empty() ? "its version is not known" : library});
  const auto memlock = system.memlock_bytes();
  Line locked{.check = "locked memory",
              .what = memlock ? fmt::format("{} KiB", *memlock >> 10U) : std::string("unlimited")};
  if (memlock && *memlock < kSessionBytes) {
    locked.grade = Grade::failed;
    locked.what += fmt::format("; a session of urtrsd takes {} KiB on each device", kSessionBytes >> 10U);
    locked.remedy = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit";
  }
  lines.push_back(std::move(locked));
  return lines;
}

Lines report_device(const System& system, const Device& device) {
  Lines lines;
  const std::string driver = driver_of(system, device);
  const auto version = system.read("/sys/module/" + driver + "/version");
  lines.push_back(said(device, "driver", version ? fmt::format("{} {}", driver, *version) : driver,
                       "nothing to do: /sys/class/infiniband has no link to it"));
  const std::size_t room = sizeof device.attributes.fw_ver;
  const std::string firmware(device.attributes.fw_ver, ::strnlen(device.attributes.fw_ver, room));
  lines.push_back(said(device, "firmware", firmware, "nothing to do: this driver does not report it"));
  lines.push_back(transport_of(device));
  lines.push_back(place_of(system, device));
  lines.push_back(limits_of(device));
  return lines;
}

Lines report_ports(const System& system, const Device& device) {
  Lines lines;
  for (unsigned port = 1; port <= device.attributes.phys_port_cnt; ++port) {
    ibv_port_attr is{};
    if (const int error = ibv_query_port(device.context.get(), static_cast<std::uint8_t>(port), &is);
        error != 0) {
      lines.push_back({.device = device.name,
                       .check = fmt::format("port {}", port),
                       .grade = Grade::failed,
                       .what = "cannot query its state: " + errno_text(error),
                       .remedy = "see the log of the kernel: dmesg"});
      continue;
    }
    lines.push_back(state_line(system, device, port, is));
    lines.push_back(gids_of(system, device, port));
  }
  return lines;
}

}  // namespace rtrs::probe
