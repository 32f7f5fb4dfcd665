#include "tools/urtrs/doctor/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/urtrs/doctor/doctor_mapd.hpp"

namespace rtrs::admin {

namespace {

using Grade = Finding::Grade;
using Findings = std::vector<Finding>;

constexpr std::uint16_t kPort = 1234;
constexpr std::uint64_t kMinDescriptors = 64;                    // with fewer, urtrsd does not start
constexpr std::uint64_t kGoodDescriptors = 1024;                 // a connection uses about six
constexpr std::uint64_t kGoodMemlock = std::uint64_t{64} << 20;  // size of the buffers of one session

const char* name_of(Grade grade) {
  return grade == Grade::ok ? "ok" : grade == Grade::warn ? "warn" : "fail";
}

void look_at_module(const Host& host, const char* name, const char* needed_for, bool needed, Findings& to) {
  Finding found{fmt::format("module {}", name), Grade::ok, "loaded", ""};
  if (!host.exists(fmt::format("/sys/module/{}", name)) && !needed) {
    found.what = fmt::format("not loaded; only needed for {}", needed_for);
  } else if (!host.exists(fmt::format("/sys/module/{}", name))) {
    found.grade = Grade::warn;
    if (host.has_module(name)) {
      found.what = fmt::format("not loaded; needed for {}", needed_for);
      found.remedy = fmt::format("modprobe {}", name);
    } else {
      found.what = fmt::format("this kernel has no such module; needed for {}", needed_for);
      found.remedy = "apt-get install linux-image-$(dpkg --print-architecture), and start that kernel";
    }
  }
  to.push_back(std::move(found));
}

bool is_gid(const std::string& text) {
  return text.find_first_not_of("0:") != std::string::npos;
}

void look_at_port_of_device(const Host& host, const std::string& device, const std::string& port,
                            Findings& to) {
  const std::string folder = fmt::format("/sys/class/infiniband/{}/ports/{}", device, port);
  Finding found{fmt::format("RDMA {} port {}", device, port), Grade::ok, "", ""};
  const std::string state = host.read(folder + "/state").value_or("unknown");
  unsigned gids = 0;
  for (const std::string& index : host.names_in(folder + "/gids"))
    gids += is_gid(host.read(folder + "/gids/" + index).value_or(""));
  found.what = fmt::format("state {}, {} GIDs", state, gids);
  if (state.find("ACTIVE") == std::string::npos) {
    found.grade = Grade::warn;
    found.remedy = "connect its cable, or bring its network interface up: ip link set INTERFACE up";
  } else if (gids == 0) {
    found.grade = Grade::warn;
    found.remedy = "give its network interface an address: ip address add ADDRESS/24 dev INTERFACE";
  }
  to.push_back(std::move(found));
}

// Checks the RDMA devices. Returns true if there are any.
bool look_at_rdma_devices(const Host& host, bool needed, Findings& to) {
  const std::vector<std::string> all = host.names_in("/sys/class/infiniband");
  if (all.empty()) {
    to.push_back({"RDMA devices", needed ? Grade::fail : Grade::ok,
                  needed ? "none, and an urtrsd uses verbs" : "none; the fabrics tcp and libfabric need none",
                  needed ? "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE" : ""});
    return false;
  }
  for (const std::string& device : all)
    for (const std::string& port : host.names_in(fmt::format("/sys/class/infiniband/{}/ports", device)))
      look_at_port_of_device(host, device, port, to);
  constexpr const char* kManager = "/dev/infiniband/rdma_cm";
  Finding found{"RDMA access", Grade::ok, fmt::format("{} can be used", kManager), ""};
  if (!host.exists(kManager)) {
    found = {"RDMA access", Grade::warn, fmt::format("{} does not exist", kManager), "modprobe rdma_ucm"};
  } else if (!host.may_use(kManager)) {
    found = {"RDMA access", Grade::warn, fmt::format("this user may not open {}", kManager),
             "run as root, or add the user to the group of the file"};
  }
  to.push_back(std::move(found));
  return true;
}

void look_at_limits(const Host& host, bool has_rdma, Findings& to) {
  const auto memlock = host.memlock_bytes();
  Finding locked{"locked memory", Grade::ok, memlock ? fmt::format("{} KiB", *memlock / 1024) : "unlimited",
                 ""};
  const bool small = memlock && *memlock < kGoodMemlock;
  if (small && !has_rdma) locked.what += "; too little for RDMA, which locks 64 MiB for each session";
  if (small && has_rdma) {
    locked.grade = Grade::warn;
    locked.what += "; RDMA locks 64 MiB for each session";
    locked.remedy = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit";
  }
  to.push_back(std::move(locked));
  const std::uint64_t descriptors = host.descriptors();
  Finding files{"descriptors", Grade::ok, fmt::format("{}", descriptors), ""};
  if (descriptors < kGoodDescriptors) {
    files.grade = descriptors < kMinDescriptors ? Grade::fail : Grade::warn;
    files.what += descriptors < kMinDescriptors ? fmt::format("; urtrsd needs {}", kMinDescriptors)
                                                : "; each connection takes about six";
    files.remedy = "ulimit -n 65536, or LimitNOFILE=65536 in the unit";
  }
  to.push_back(std::move(files));
}

// Reports which storage engine urtrsd would use and how it would open exports.
void look_at_storage(const Host& host, Findings& to) {
  Finding engine{"storage engine", Grade::ok, "urtrsd would use io_uring", ""};
  if (const auto refused = host.io_uring_refusal())
    engine = {
        "storage engine", Grade::warn,
        fmt::format("urtrsd would use threads, which cost more CPU time for each IO: {}", refused->problem),
        refused->remedy};
  to.push_back(std::move(engine));
  Finding proc{"/proc", Grade::ok, "mounted", ""};
  if (!host.exists("/proc/self/fd"))
    proc = {"/proc", Grade::warn,
            "not that of this process: urtrsd opens files by name only, and cannot name the holder of a lock",
            "mount -t proc proc /proc, or make it available in the container"};
  to.push_back(std::move(proc));
}

void look_at_fuse(const Host& host, Findings& to) {
  if (!host.exists("/dev/fuse"))
    to.push_back({"fuse", Grade::warn, "/dev/fuse does not exist; needed for urtrs-fs", "modprobe fuse"});
  else if (host.program("fusermount3").empty())
    to.push_back({"fuse", Grade::warn, "fusermount3 is not installed; needed for urtrs-fs without root",
                  "apt-get install fuse3"});
  else
    to.push_back({"fuse", Grade::ok, "urtrs-fs can mount", ""});
}

void look_at_nbd_programs(const Host& host, Findings& to) {
  if (const std::string nbdkit = host.program("nbdkit"); nbdkit.empty()) {
    to.push_back({"nbdkit", Grade::warn, "not installed; needed for clients", "apt-get install nbdkit"});
  } else {
    to.push_back({"nbdkit", Grade::ok, nbdkit, ""});
    const std::string folder = host.nbdkit_plugin_folder();
    const std::string plugin = folder + "/nbdkit-urtrs-plugin.so";
    const std::string script = host.program("nbdkit-urtrs");
    if (!folder.empty() && host.exists(plugin))
      to.push_back({"nbdkit plugin", Grade::ok, plugin, ""});
    else if (!script.empty())
      to.push_back({"nbdkit plugin", Grade::ok,
                    fmt::format("start clients with {}; \"nbdkit urtrs\" looks in {} only", script, folder),
                    ""});
    else
      to.push_back(
          {"nbdkit plugin", Grade::warn, "nbdkit does not find urtrs",
           "apt-get install nbdkit-plugin-urtrs, or add the bin folder of the installation to PATH"});
  }
  if (host.program("nbd-client").empty())
    to.push_back({"nbd-client", Grade::warn, "not installed; needed for /dev/nbdN without urtrs-mapd",
                  "apt-get install nbd-client"});
  else
    to.push_back({"nbd-client", Grade::ok, "installed", ""});
}

void look_at_daemon(const Host& host, const DaemonFacts& one, Findings& to) {
  Finding found{"urtrsd", Grade::ok, fmt::format("{} at {}", one.version, one.socket), ""};
  if (!one.problem.empty())
    found = {"urtrsd", Grade::fail, fmt::format("{} cannot be queried: {}", one.socket, one.problem),
             "see its log: journalctl -u urtrsd"};
  else if (one.version != host.version())
    found = {"urtrsd", Grade::warn,
             fmt::format("{} is version {}, this command is {}", one.socket,
                         one.version.empty() ? "unknown" : one.version, host.version()),
             "systemctl restart urtrsd, after both are installed from one release"};
  to.push_back(std::move(found));
  for (const std::string& sentence : one.missing)
    to.push_back({"urtrsd", Grade::warn, sentence, "fix the cause; then urtrs reload retries it at once"});
}

void look_at_certificates(const std::string& whose, const std::vector<std::string>& warnings, Findings& to) {
  for (const std::string& warning : warnings) {
    const std::size_t remedy = warning.rfind("; ");
    to.push_back({"certificates", Grade::warn, fmt::format("{}: {}", whose, warning.substr(0, remedy)),
                  remedy == std::string::npos ? "" : warning.substr(remedy + 2)});
  }
}

void look_at_port(const Host& host, bool daemon_runs, Findings& to) {
  Finding found{fmt::format("port {}", kPort), Grade::ok, "free", ""};
  if (!host.port_is_free(kPort)) {
    found.what = daemon_runs ? "in use, and urtrsd runs" : "in use by another program";
    found.grade = daemon_runs ? Grade::ok : Grade::warn;
    if (!daemon_runs)
      found.remedy = fmt::format("ss -ltnp 'sport = :{}' names it; or give urtrsd another port", kPort);
  }
  to.push_back(std::move(found));
}

}  // namespace

std::vector<Finding> examine(const Host& host) {
  Findings all;
  const std::vector<DaemonFacts> running = host.daemons();
  const bool verbs = std::any_of(running.begin(), running.end(),
                                 [](const DaemonFacts& one) { return one.fabric.rfind("verbs", 0) == 0; });
  // The RDMA modules are only needed if an urtrsd uses verbs or the host has RDMA devices.
  const bool devices = !host.names_in("/sys/class/infiniband").empty();
  look_at_module(host, "ib_core", "RDMA devices", verbs || devices, all);
  look_at_module(host, "rdma_rxe", "RDMA over Ethernet cards that have none", verbs && !devices, all);
  look_at_module(host, "nbd", "/dev/nbdN", true, all);
  const bool has_rdma = look_at_rdma_devices(host, verbs, all);
  look_at_limits(host, has_rdma, all);
  look_at_storage(host, all);
  look_at_port(host, !running.empty(), all);
  look_at_fuse(host, all);
  look_at_nbd_programs(host, all);
  look_at_mapd(host, all);
  look_at_kernel_devices(host, all);
  for (const DaemonFacts& one : running) {
    look_at_daemon(host, one, all);
    look_at_certificates(one.socket, one.warnings, all);
  }
  for (const ClientFacts& one : host.clients())
    look_at_certificates(fmt::format("client session {}", one.session), one.warnings, all);
  if (running.empty())
    all.push_back({"urtrsd", Grade::warn, "no daemon is running that this user can query",
                   "systemctl start urtrsd, or urtrsd --export NAME=FILE"});
  return all;
}

bool any_failed(const std::vector<Finding>& all) {
  return std::any_of(all.begin(), all.end(), [](const Finding& one) { return one.grade == Grade::fail; });
}

Table findings(const std::vector<Finding>& all) {
  Table table{"checks",
              {{"grade", "Result", "ok, warn or fail"},
               {"check", "Check", "what was looked at"},
               {"what", "Finding", "how it is"},
               {"remedy", "Remedy", "a command that fixes it, or what to do", Field::Kind::text, false}},
              {}};
  for (const Finding& one : all) {
    Row row{{{"grade", name_of(one.grade)}, {"check", one.check}, {"what", one.what}}, {}};
    if (!one.remedy.empty()) {
      row.values["remedy"] = one.remedy;
      row.children.push_back(one.remedy);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace rtrs::admin
