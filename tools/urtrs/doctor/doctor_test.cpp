// Tests with a fake host that `urtrs doctor` finds each problem, grades it, and suggests a remedy.
#include "tools/urtrs/doctor/doctor.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace rtrs::admin::doctor_test {
namespace {

using Grade = Finding::Grade;

// A fake host, which initially has no problems.
class PlayedHost : public Host {
 public:
  std::optional<std::string> read(const std::string& file) const override {
    const auto found = files.find(file);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> names_in(const std::string& folder) const override {
    std::set<std::string> names;
    for (const auto& [file, text] : files)
      if (file.rfind(folder + "/", 0) == 0) {
        const std::string rest = file.substr(folder.size() + 1);
        names.insert(rest.substr(0, rest.find('/')));
      }
    return {names.begin(), names.end()};
  }
  bool exists(const std::string& file) const override { return files.count(file) != 0; }
  bool may_use(const std::string& file) const override { return exists(file) && usable; }
  std::string program(const std::string& name) const override {
    return programs.count(name) != 0 ? "/usr/bin/" + name : "";
  }
  bool has_module(const std::string& name) const override { return modules.count(name) != 0; }
  std::string nbdkit_plugin_folder() const override { return "/plugins"; }
  std::optional<std::uint64_t> memlock_bytes() const override { return memlock; }
  std::uint64_t descriptors() const override { return nofile; }
  std::optional<StorageFacts> io_uring_refusal() const override { return refused; }
  bool port_is_free(std::uint16_t) const override { return port_free; }
  std::vector<DaemonFacts> daemons() const override { return running; }
  std::vector<ClientFacts> clients() const override { return attached; }
  std::vector<MapdFacts> mapds() const override { return mapping; }
  bool has_netlink() const override { return netlink; }
  std::optional<bool> keeps_kernel_devices() const override { return keeps; }
  std::string version() const override { return "0.5"; }

  std::map<std::string, std::string> files{{"/sys/module/ib_core", ""},
                                           {"/sys/module/rdma_rxe", ""},
                                           {"/sys/module/nbd", ""},
                                           {"/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE"},
                                           {"/sys/class/infiniband/rxe0/ports/1/gids/0", "fe80::1"},
                                           {"/sys/class/infiniband/rxe0/ports/1/gids/1", "0000:0000"},
                                           {"/dev/infiniband/rdma_cm", ""},
                                           {"/dev/fuse", ""},
                                           {"/proc/self/fd", ""},
                                           {"/plugins/nbdkit-urtrs-plugin.so", ""}};
  std::set<std::string> programs{"nbdkit", "nbd-client", "fusermount3"};
  std::set<std::string> modules{"ib_core", "rdma_rxe", "nbd"};
  std::optional<std::uint64_t> memlock;
  std::uint64_t nofile = 65536;
  std::optional<StorageFacts> refused;
  bool usable = true;
  bool port_free = true;
  std::vector<DaemonFacts> running{{"/run/urtrs/urtrsd-1.sock", "", "0.5", "tcp", {}}};
  std::vector<ClientFacts> attached;
  std::vector<MapdFacts> mapping;
  bool netlink = true;
  std::optional<bool> keeps = true;
};

Finding found(const PlayedHost& host, const std::string& check) {
  for (const Finding& one : examine(host))
    if (one.check == check) return one;
  ADD_FAILURE() << "no finding about " << check;
  return {};
}

void expect(const PlayedHost& host, const std::string& check, Grade grade, const std::string& remedy) {
  const Finding one = found(host, check);
  EXPECT_EQ(one.grade, grade) << check << ": " << one.what;
  EXPECT_NE(one.remedy.find(remedy), std::string::npos) << check << ": " << one.remedy;
}

TEST(Doctor, HealthyHostHasNothingToFix) {
  for (const Finding& one : examine(PlayedHost())) {
    EXPECT_EQ(one.grade, Grade::ok) << one.check << ": " << one.what;
    EXPECT_TRUE(one.remedy.empty()) << one.check;
  }
  EXPECT_NE(found(PlayedHost(), "RDMA rxe0 port 1").what.find("1 GIDs"), std::string::npos);
}

TEST(Doctor, EachProblemHasARemedy) {
  PlayedHost host;
  host.files.clear();
  host.programs.clear();
  host.running.clear();
  host.nofile = 100;
  host.port_free = false;
  for (const Finding& one : examine(host)) EXPECT_EQ(one.grade == Grade::ok, one.remedy.empty()) << one.check;
}

TEST(Doctor, MissingModulesAreReported) {
  PlayedHost host;
  host.files.erase("/sys/module/nbd");
  expect(host, "module nbd", Grade::warn, "modprobe nbd");
  host.modules.clear();
  expect(host, "module nbd", Grade::warn, "apt-get install linux-image");
}

TEST(Doctor, RdmaPortsAndAccessAreChecked) {
  PlayedHost host;
  host.files["/sys/class/infiniband/rxe0/ports/1/state"] = "1: DOWN";
  expect(host, "RDMA rxe0 port 1", Grade::warn, "ip link set");
  host.files["/sys/class/infiniband/rxe0/ports/1/state"] = "4: ACTIVE";
  host.files["/sys/class/infiniband/rxe0/ports/1/gids/0"] = "0000:0000";
  expect(host, "RDMA rxe0 port 1", Grade::warn, "ip address add");
  host.usable = false;
  expect(host, "RDMA access", Grade::warn, "root");
  host.files.erase("/dev/infiniband/rdma_cm");
  expect(host, "RDMA access", Grade::warn, "modprobe rdma_ucm");
}

TEST(Doctor, SoftRoceIsNotNeededWithRdmaDevices) {
  PlayedHost host;
  host.running[0].fabric = "verbs";
  host.files.erase("/sys/module/rdma_rxe");
  expect(host, "module rdma_rxe", Grade::ok, "");
}

TEST(Doctor, MissingRdmaDevicesFailOnlyWithVerbs) {
  PlayedHost host;
  for (auto it = host.files.begin(); it != host.files.end();)
    it = it->first.rfind("/sys/class/infiniband", 0) == 0 ? host.files.erase(it) : std::next(it);
  host.memlock = 1024;
  host.files.erase("/sys/module/ib_core");
  host.files.erase("/sys/module/rdma_rxe");
  expect(host, "RDMA devices", Grade::ok, "");
  expect(host, "locked memory", Grade::ok, "");
  EXPECT_EQ(found(host, "locked memory").what,
            "1 KiB; too little for RDMA, which locks 64 MiB for each session");
  expect(host, "module ib_core", Grade::ok, "");
  expect(host, "module rdma_rxe", Grade::ok, "");
  EXPECT_EQ(found(host, "module rdma_rxe").remedy, "");
  EXPECT_FALSE(any_failed(examine(host)));
  host.running[0].fabric = "verbs";
  expect(host, "RDMA devices", Grade::fail, "modprobe rdma_rxe && rdma link add");
  expect(host, "module ib_core", Grade::warn, "modprobe ib_core");
  expect(host, "module rdma_rxe", Grade::warn, "modprobe rdma_rxe");
  EXPECT_TRUE(any_failed(examine(host)));
}

TEST(Doctor, LimitsAreChecked) {
  PlayedHost host;
  host.memlock = std::uint64_t{8} << 20;
  expect(host, "locked memory", Grade::warn, "LimitMEMLOCK");
  host.memlock = std::uint64_t{64} << 20;
  expect(host, "locked memory", Grade::ok, "");
  host.nofile = 1023;
  expect(host, "descriptors", Grade::warn, "LimitNOFILE");
  host.nofile = 63;
  expect(host, "descriptors", Grade::fail, "LimitNOFILE");
}

TEST(Doctor, StorageRequirementsAreChecked) {
  PlayedHost host;
  EXPECT_EQ(found(host, "storage engine").what, "urtrsd would use io_uring");
  host.refused = StorageFacts{"io_uring_setup: Operation not permitted (1)", "change the seccomp profile"};
  expect(host, "storage engine", Grade::warn, "change the seccomp profile");
  EXPECT_NE(found(host, "storage engine").what.find("threads"), std::string::npos);
  host.files.erase("/proc/self/fd");
  expect(host, "/proc", Grade::warn, "mount -t proc");
  EXPECT_FALSE(any_failed(examine(host)));
}

TEST(Doctor, PortInUseByAnotherProgramIsReported) {
  PlayedHost host;
  host.port_free = false;
  expect(host, "port 1234", Grade::ok, "");
  host.running.clear();
  expect(host, "port 1234", Grade::warn, "ss -ltnp");
}

TEST(Doctor, ProgramsAndThePluginAreChecked) {
  PlayedHost host;
  host.files.erase("/plugins/nbdkit-urtrs-plugin.so");
  expect(host, "nbdkit plugin", Grade::warn, "nbdkit-plugin-urtrs");
  host.programs.insert("nbdkit-urtrs");
  expect(host, "nbdkit plugin", Grade::ok, "");
  host.programs.clear();
  expect(host, "nbdkit", Grade::warn, "apt-get install nbdkit");
  expect(host, "nbd-client", Grade::warn, "apt-get install nbd-client");
  expect(host, "fuse", Grade::warn, "apt-get install fuse3");
  host.files.erase("/dev/fuse");
  expect(host, "fuse", Grade::warn, "modprobe fuse");
}

TEST(Doctor, KernelDevicesAreChecked) {
  PlayedHost host;
  host.files["/proc/sys/kernel/osrelease"] = "6.1.0-56-amd64";
  expect(host, "kernel devices", Grade::ok, "");
  host.keeps = false;
  expect(host, "kernel devices", Grade::warn, "systemctl start urtrs-nbd");
  host.files["/sys/block/nbd1/backend"] = "urtrs1 16d 300 /run/urtrs/nbd-a.sock disk0";
  host.files["/sys/block/nbd2/backend"] = "of another program";
  expect(host, "kernel devices", Grade::fail, "systemctl start urtrs-nbd");
  EXPECT_EQ(found(host, "kernel devices").what,
            "no urtrs-mapd --kernel-devices keeps /dev/nbd1 (disk0) connected");
  host.keeps = std::nullopt;
  expect(host, "kernel devices", Grade::ok, "");
  EXPECT_EQ(found(host, "kernel devices").what, "/dev/nbd1 (disk0); only root sees who keeps them connected");
  host.keeps = true;
  EXPECT_EQ(found(host, "kernel devices").what, "/dev/nbd1 (disk0)");
  host.files["/proc/sys/kernel/osrelease"] = "5.14.0";
  expect(host, "kernel devices", Grade::ok, "");
  host.files["/proc/sys/kernel/osrelease"] = "4.20.0";
  expect(host, "kernel devices", Grade::warn, "5.14");
  host.files["/proc/sys/kernel/osrelease"] = "5.13.19";
  expect(host, "kernel devices", Grade::warn, "5.14");
  host.netlink = false;
  expect(host, "kernel devices", Grade::warn, "libnl-genl-3-dev");
  host.files.erase("/sys/module/nbd");
  for (const Finding& one : examine(host)) EXPECT_NE(one.check, "kernel devices");
}

TEST(Doctor, OutdatedAndUnresponsiveDaemonsAreReported) {
  PlayedHost host;
  host.running[0].version = "0.4";
  expect(host, "urtrsd", Grade::warn, "systemctl restart urtrsd");
  host.running[0].problem = "no answer in time";
  expect(host, "urtrsd", Grade::fail, "journalctl");
  host.running.clear();
  expect(host, "urtrsd", Grade::warn, "systemctl start urtrsd");
}

TEST(Doctor, ExpiringCertificatesAreReported) {
  PlayedHost host;
  host.attached = {{"web1", {}}};
  for (const Finding& one : examine(host)) EXPECT_NE(one.check, "certificates");
  host.running[0].warnings = {"/etc/a.pem: the certificate expires in 9 days; replace it"};
  expect(host, "certificates", Grade::warn, "replace it");
  EXPECT_EQ(found(host, "certificates").what,
            "/run/urtrs/urtrsd-1.sock: /etc/a.pem: the certificate expires in 9 days");
  host.running[0].warnings.clear();
  host.attached[0].warnings = {"/etc/b.pem: the certificate has expired; replace it"};
  EXPECT_EQ(found(host, "certificates").what, "client session web1: /etc/b.pem: the certificate has expired");
}

TEST(Doctor, MissingPartsOfADaemonAreWarnings) {
  PlayedHost host;
  host.running[0].missing = {"export \"a\" cannot be opened: No such file or directory"};
  const auto all = examine(host);
  EXPECT_EQ(all.back().grade, Grade::warn);
  EXPECT_EQ(all.back().what, host.running[0].missing[0]);
  EXPECT_FALSE(any_failed(all));
}

TEST(Doctor, MappedDevicesAreChecked) {
  PlayedHost host;
  const auto all = examine(host);
  EXPECT_TRUE(
      std::none_of(all.begin(), all.end(), [](const Finding& one) { return one.check == "urtrs-mapd"; }));
  host.programs.insert("urtrs-mapd");
  expect(host, "urtrs-mapd", Grade::warn, "systemctl start urtrs-mapd");
  host.mapping = {{"/run/urtrs/urtrs-mapd-1.sock", "", 2, {}}};
  expect(host, "urtrs-mapd", Grade::ok, "");
  host.mapping[0].unmapped = {"disk1"};
  expect(host, "mapped devices", Grade::warn, "urtrs mapping show disk1");
  host.mapping[0].problem = "no answer in time";
  expect(host, "urtrs-mapd", Grade::fail, "journalctl -u urtrs-mapd");
}

TEST(Doctor, RemediesAreBelowTheirFinding) {
  PlayedHost host;
  host.files.erase("/sys/module/nbd");
  const auto text = render(findings(examine(host)), {}, 1);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("`- modprobe nbd\n"), std::string::npos) << *text;
}

}  // namespace
}  // namespace rtrs::admin::doctor_test
