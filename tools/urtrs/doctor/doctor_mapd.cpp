#include "tools/urtrs/doctor/doctor_mapd.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "tools/lib/control/kernel_nbd/attachment.hpp"

namespace rtrs::admin {

void look_at_mapd(const Host& host, std::vector<Finding>& to) {
  const std::vector<MapdFacts> running = host.mapds();
  if (running.empty() && !host.program("urtrs-mapd").empty())
    to.push_back({"urtrs-mapd", Finding::Grade::warn,
                  "no daemon is running that this user can query; needed for \"urtrs map\"",
                  "systemctl start urtrs-mapd"});
  for (const MapdFacts& one : running) {
    if (!one.problem.empty()) {
      to.push_back({"urtrs-mapd", Finding::Grade::fail,
                    fmt::format("{} cannot be queried: {}", one.socket, one.problem),
                    "see its log: journalctl -u urtrs-mapd"});
      continue;
    }
    to.push_back({"urtrs-mapd", Finding::Grade::ok,
                  one.devices == 1 ? "1 device" : fmt::format("{} devices", one.devices), ""});
    for (const std::string& device : one.unmapped)
      to.push_back({"mapped devices", Finding::Grade::warn, fmt::format("{} does not exist", device),
                    fmt::format("urtrs mapping show {} shows the reason", device)});
  }
}

namespace {

// Lists the NBD devices that are attached, for example "/dev/nbd0 (disk0)".
std::vector<std::string> kernel_devices(const Host& host) {
  std::vector<std::string> all;
  for (const std::string& name : host.names_in("/sys/block")) {
    const auto identity = host.read(fmt::format("/sys/block/{}/backend", name));
    if (const auto what = kernel_nbd::parse_identity(identity.value_or("")))
      all.push_back(fmt::format("/dev/{} ({})", name, what->name));
  }
  return all;
}

bool is_before_5_14(const std::string& release) {
  unsigned major = 0;
  unsigned minor = 0;
  return std::sscanf(release.c_str(), "%u.%u", &major, &minor) == 2 &&  // NOLINT(cert-err34-c)
         (major < 5 || (major == 5 && minor < 14));
}

}  // namespace

void look_at_kernel_devices(const Host& host, std::vector<Finding>& to) {
  constexpr const char* kCheck = "kernel devices";
  if (!host.exists("/sys/module/nbd")) return;  // a different check reports that the module is missing
  const std::string release = host.read("/proc/sys/kernel/osrelease").value_or("");
  if (!host.has_netlink() || is_before_5_14(release)) {
    to.push_back({kCheck, Finding::Grade::warn,
                  host.has_netlink() ? fmt::format("Linux {} is too old for \"urtrs map --nbd\"", release)
                                     : "this urtrs was built without libnl; needed for \"urtrs map --nbd\"",
                  host.has_netlink() ? "use Linux 5.14 or later, or nbd-client"
                                     : "install libnl-genl-3-dev and build it again, or use nbd-client"});
    return;
  }
  const std::vector<std::string> all = kernel_devices(host);
  const std::optional<bool> kept = host.keeps_kernel_devices();
  if (kept == false && !all.empty())
    to.push_back({kCheck, Finding::Grade::fail,
                  fmt::format("no urtrs-mapd --kernel-devices keeps {} connected", fmt::join(all, ", ")),
                  "systemctl start urtrs-nbd"});
  else if (kept == false)
    to.push_back({kCheck, Finding::Grade::warn,
                  "no urtrs-mapd --kernel-devices runs; needed for \"urtrs map --nbd\"",
                  "systemctl start urtrs-nbd"});
  else
    to.push_back({kCheck, Finding::Grade::ok,
                  all.empty() ? "none is attached"
                              : fmt::format("{}{}", fmt::join(all, ", "),
                                            kept ? "" : "; only root sees who keeps them connected"),
                  ""});
}

}  // namespace rtrs::admin
