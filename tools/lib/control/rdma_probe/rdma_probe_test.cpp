// Tests the probe with simulated adapters of each kind.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <set>

#include "backends/verbs/verbs.hpp"
#include "sim/net/adapters/test_no_problems.hpp"
#include "tools/lib/control/rdma_probe/test_lines.hpp"

namespace rtrs::probe::rdma_probe_test {
namespace {

using mock_hca::Profile;

const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

Lines probe_of(const Profile& profile, const PlayedSystem& system = {}) {
  mock_hca::reset({profile});
  Lines lines = probe(system, {.device = "", .rounds = {.count = 50, .all = true}}, short_pace());
  EXPECT_EQ(mock_hca::objects(), 0U);
  EXPECT_EQ(mock_hca::problems(), std::vector<std::string>());
  for (const Line& one : lines)
    EXPECT_EQ(one.grade == Grade::ok, one.remedy.empty()) << one.check << ": " << one.what;
  return lines;
}

bool any_failed(const Lines& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const Line& one) { return one.grade == Grade::failed; });
}

// --- kinds of adapters ---

TEST(Probe, SoftRocePassesWithInvalidationOff) {
  const Lines lines = probe_of(mock_hca::rxe());
  for (const char* check :
       {"write", "inline write", "empty write with immediate", "write with immediate",
        "message with immediate", "window of type 1", "window of type 2", "message with invalidation",
        "registration", "memory of a session", "data before immediates", "flush"})
    expect(lines, check, Grade::ok);
  expect(lines, "data before immediates", Grade::ok, "50 rounds");
  expect_report(lines, "driver", Grade::ok, "rdma_rxe");
  expect_report(lines, "invalidation", Grade::ok, "off: a lost packet would end connections");
  expect_report(lines, "depth", Grade::ok, "65535 work requests");
  expect_report(lines, "ibv_wr_*()", Grade::ok, "--rdma-post=wr uses it");
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
  for (const char* check : {"registering", "binding", "empty write", "4 KiB writes", "128 KiB writes"}) {
    expect(lines, check, Grade::ok, "", Line::Part::measurement);
    EXPECT_GT(find(lines, check, Line::Part::measurement)->number.value_or(0), 0) << check;
  }
}

TEST(Probe, Mlx5PassesWithInvalidationByWindows) {
  const Lines lines = probe_of(mock_hca::mlx5());
  expect(lines, "window of type 1", Grade::ok, "its stale key refused on the second");
  expect(lines, "window of type 2", Grade::ok, "refused on a second");
  expect_report(lines, "invalidation", Grade::ok, "on, by windows of type 1");
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
}

TEST(Probe, IrdmaHasOnlyType1WindowsAndLessDepth) {
  const Lines lines = probe_of(mock_hca::irdma());
  expect(lines, "window of type 1", Grade::ok);
  expect(lines, "window of type 2", Grade::absent, "the driver has none");
  expect(lines, "message with invalidation", Grade::absent);
  expect_report(lines, "depth", Grade::ok, "4096 work requests");
  expect_report(lines, "ibv_wr_*()", Grade::absent, "only for part of what is posted");
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
}

TEST(Probe, BnxtHasNoWindows) {
  const Lines lines = probe_of(mock_hca::bnxt_re());
  expect(lines, "window of type 1", Grade::absent);
  expect(lines, "window of type 2", Grade::absent);
  expect(lines, "binding", Grade::absent, "", Line::Part::measurement);
  EXPECT_NE(find(lines, "invalidation", Line::Part::report), nullptr);
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
}

TEST(Probe, Hfi1GrantsNoInlineData) {
  const Lines lines = probe_of(mock_hca::hfi1());
  expect_report(lines, "inline data", Grade::absent, "96 bytes requested, 0 granted");
  expect(lines, "inline write", Grade::absent);
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
}

TEST(Probe, AdvertisedButMissingWindowsAreReportedAbsent) {
  mock_hca::reset({mock_hca::bnxt_re()});
  std::string why;
  const auto device = open_device(PlayedSystem(), "bnxt_re0", why);
  ASSERT_NE(device, nullptr) << why;
  device->attributes.device_cap_flags |= IBV_DEVICE_MEM_WINDOW;
  expect(test_windows(*device, short_pace()), "window of type 1", Grade::absent, "says that it has them");
}

TEST(Probe, ProbesAllAdaptersOrTheRequestedOne) {
  mock_hca::reset({mock_hca::mlx5(), mock_hca::hfi1()});
  const auto devices = [](const std::string& asked) {
    std::set<std::string> names;
    for (const Line& one : probe(PlayedSystem(), {.device = asked, .rounds = {.count = 1}}, short_pace()))
      if (!one.device.empty()) names.insert(one.device);
    return names;
  };
  EXPECT_EQ(devices(""), (std::set<std::string>{"hfi1_0", "mlx5_0"}));
  EXPECT_EQ(devices("hfi1_0"), std::set<std::string>{"hfi1_0"});
  const Lines none = probe(PlayedSystem(), {.device = "mlx5_7", .rounds = {}}, short_pace());
  expect_report(none, "RDMA devices", Grade::failed, "no RDMA device named \"mlx5_7\", only hfi1_0, mlx5_0");
  mock_hca::reset({});
  expect_report(probe(PlayedSystem(), {}, short_pace()), "RDMA devices", Grade::failed, "has no RDMA device");
  expect_report(probe(PlayedSystem(), {.device = "mlx5_7", .rounds = {}}, short_pace()), "RDMA devices",
                Grade::failed, "no RDMA device named \"mlx5_7\": this host has no RDMA device");
}

// --- facts about the host ---

TEST(Probe, HostFactsAreReported) {
  PlayedSystem system;
  system.memlock = std::uint64_t{8} << 20U;
  system.links = {{"/sys/class/infiniband/mlx5_0/device", "0000:3b:00.0"},
                  {"/sys/class/infiniband/mlx5_0/device/driver", "mlx5_core"},
                  {"/sys/class/net/eth1/master", "bond0"}};
  const std::string at = "/sys/class/infiniband/mlx5_0/";
  system.files = {{at + "device/current_link_width", "8"},
                  {at + "device/max_link_width", "16"},
                  {at + "device/current_link_speed", "8.0 GT/s PCIe"},
                  {at + "device/numa_node", "1"},
                  {at + "ports/1/rate", "100 Gb/sec (4X EDR)"},
                  {at + "ports/1/gids/0", ""},
                  {at + "ports/1/gids/1", ""},
                  {at + "ports/1/gids/7", ""},
                  {at + "ports/1/gid_attrs/types/1", "RoCE v2"},
                  {at + "ports/1/gid_attrs/ndevs/0", "eth1"},
                  {at + "ports/1/gid_attrs/ndevs/1", "bond0.5"},
                  {"/sys/class/net/bond0.5/uevent", "DEVTYPE=vlan\nINTERFACE=bond0.5"}};
  const Lines lines = probe_of(mock_hca::mlx5(), system);
  expect_report(lines, "kernel", Grade::ok, "6.12 x86_64");
  expect_report(lines, "rdma-core", Grade::ok, "44.0");
  expect_report(lines, "locked memory", Grade::failed, "8192 KiB; a session of urtrsd takes 65536 KiB");
  expect_report(lines, "driver", Grade::ok, "mlx5_core");
  expect_report(lines, "firmware", Grade::absent, "not known");
  expect_report(lines, "PCIe and NUMA", Grade::failed,
                "0000:3b:00.0: 8 lanes of 8.0 GT/s PCIe, node 1; the adapter has 16 lanes");
  expect_report(lines, "port 1", Grade::ok, "active, Ethernet");
  expect_report(lines, "port 1", Grade::ok, "100 Gb/sec");
  expect_report(lines, "port 1 GIDs", Grade::ok, "1 192.0.2.1 (RoCE v2, bond0.5, a VLAN)");
  expect_report(lines, "port 1 GIDs", Grade::ok, "eth1 of the bond bond0");
  EXPECT_EQ(find(lines, "port 1 GIDs", Line::Part::report)->what.find("7 "), std::string::npos)
      << "an empty GID is not listed";
}

TEST(Probe, BondIsReportedWithItsInterfaces) {
  PlayedSystem system;
  const std::string at = "/sys/class/infiniband/mlx5_0/ports/1/";
  system.files = {{at + "gids/1", ""},
                  {at + "gid_attrs/ndevs/1", "bond0"},
                  {"/sys/class/net/bond0/bonding/mode", "active-backup 1"},
                  {"/sys/class/net/bond0/bonding/slaves", "eth0 eth1"}};
  expect_report(probe_of(mock_hca::mlx5(), system), "port 1 GIDs", Grade::ok,
                "bond0, a bond (active-backup) of eth0 eth1");
}

// Makes the creation of each verbs object fail in turn. A line must report the failure, nothing may leak, and
// the missing object must not be used.
TEST(Probe, EveryFailedCreationIsReportedWithoutALeak) {
  unsigned failures = 0;
  bool creation_failed = true;
  // Measures only once, so that the number of objects does not depend on the speed of the machine.
  Pace once = short_pace();
  once.measures = {};
  for (unsigned skip = 0; creation_failed; ++skip) {
    ASSERT_LT(skip, 1000U);
    mock_hca::reset({mock_hca::mlx5()});
    mock_hca::fail_creations(skip, 1);
    const Lines lines = probe(PlayedSystem(), {.device = "", .rounds = {.count = 1, .all = true}}, once);
    creation_failed = mock_hca::creation_failed();
    failures += any_failed(lines) ? 1 : 0;
    EXPECT_TRUE(creation_failed || !any_failed(lines)) << text_of(lines);
    EXPECT_EQ(mock_hca::objects(), 0U) << "without object " << skip;
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>()) << "without object " << skip;
  }
  EXPECT_GT(failures, 20U);
}

TEST(Probe, RemovedDeviceFailsItsLines) {
  verbs::expect_removal();
  mock_hca::reset({mock_hca::mlx5()});
  std::string why;
  const auto device = open_device(PlayedSystem(), "mlx5_0", why);
  ASSERT_NE(device, nullptr) << why;
  mock_hca::take_out(0);
  Pace pace = short_pace();
  const Lines lines = probe_device(PlayedSystem(), *device, {.count = 1}, pace);
  expect(lines, "write", Grade::failed, "no completion queue");
  expect_report(lines, "depth", Grade::failed, "cannot create a queue pair");
  expect(lines, "4 KiB writes", Grade::failed, "", Line::Part::measurement);
}

TEST(Probe, StopEndsTheProbe) {
  mock_hca::reset({mock_hca::mlx5()});
  Pace pace = short_pace();
  unsigned said = 0;
  pace.progress = [&said](const std::string&) { ++said; };
  pace.stop = [&said] { return said > 3; };
  const Lines lines =
      probe(PlayedSystem(), {.device = "", .rounds = {.count = ~std::uint64_t{0}, .all = true}}, pace);
  EXPECT_EQ(find(lines, "128 KiB writes", Line::Part::measurement), nullptr);
  EXPECT_NE(find(lines, "kernel", Line::Part::report), nullptr);
}

}  // namespace
}  // namespace rtrs::probe::rdma_probe_test
