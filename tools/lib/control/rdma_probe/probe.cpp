#include "tools/lib/control/rdma_probe/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "tools/lib/control/rdma_probe/measure.hpp"
#include "tools/lib/control/rdma_probe/report.hpp"

namespace rtrs::probe {
namespace {

using Grade = Line::Grade;

void add(Lines& to, Lines more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Line unopened(const std::string& device, const std::string& why) {
  return {
      .device = device,
      .check = "device",
      .grade = Grade::failed,
      .what = "it cannot be opened: " + why,
      .remedy = why.find(errno_text(EACCES)) != std::string::npos
                    ? "run as root, or give this user the right to /dev/infiniband/uverbs*"
                    : "see the log of the kernel: dmesg; is rdma-core's provider of its driver installed?"};
}

}  // namespace

Lines probe_device(const System& system, const Device& device, const Rounds& rounds, const Pace& pace) {
  Lines lines = report_device(system, device);
  add(lines, report_ports(system, device));
  if (!device.has_transport()) return lines;
  if (pace.stop()) return lines;
  add(lines, try_depth(device, pace));
  if (device.port == 0) {
    lines.push_back({.part = Line::Part::test,
                     .device = device.name,
                     .check = "tests",
                     .grade = Grade::absent,
                     .what = "no port is active",
                     .remedy = "bring one up first"});
    return lines;
  }
  Lines windows;
  const auto tested = [&](const char* what, auto test) {
    if (pace.stop()) return;
    pace.progress(fmt::format("{}: testing {}", device.name, what));
    add(lines, test());
  };
  tested("messages", [&] { return test_messages(device, pace); });
  tested("windows", [&] { return windows = test_windows(device, pace); });
  tested("memory", [&] { return test_memory(device, pace); });
  tested("data before immediates", [&] { return test_order(device, pace, rounds); });
  tested("flush", [&] { return test_flush(device, pace); });
  tested("ibv_wr_*()", [&] { return report_posting(device); });
  tested("invalidation", [&] { return report_invalidation(device, windows_work(windows)); });
  if (!pace.stop()) add(lines, measure(device, pace, windows_work(windows)));
  return lines;
}

Lines probe(const System& system, const Wanted& wanted, const Pace& pace) {
  Lines lines = report_host(system);
  const std::vector<std::string> all = device_names();
  const bool there = wanted.device.empty() || std::find(all.begin(), all.end(), wanted.device) != all.end();
  if (all.empty() || !there)
    lines.push_back(
        {.check = "RDMA devices",
         .grade = Grade::failed,
         .what =
             there ? std::string("this host has no RDMA device")
             : all.empty()
                 ? fmt::format("no RDMA device named \"{}\": this host has no RDMA device", wanted.device)
                 : fmt::format("no RDMA device named \"{}\", only {}", wanted.device, fmt::join(all, ", ")),
         .remedy = all.empty() ? "rdma link add rxe0 type rxe netdev INTERFACE creates a soft-RoCE device"
                               : "rdma link lists them"});
  for (const std::string& name : all) {
    if (pace.stop() || (!wanted.device.empty() && name != wanted.device)) continue;
    std::string why;
    const auto device = open_device(system, name, why);
    if (device == nullptr)
      lines.push_back(unopened(name, why));
    else
      add(lines, probe_device(system, *device, wanted.rounds, pace));
  }
  return lines;
}

}  // namespace rtrs::probe
