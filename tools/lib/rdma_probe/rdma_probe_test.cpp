// A probe of adapters in memory: what each kind of them has, and that what a broken one does is found.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <map>
#include <set>

#include "conformance/mock_hca/test_no_problems.hpp"
#include "tools/lib/rdma_probe/probe.hpp"

namespace rtrs::probe {
namespace {

using Grade = Line::Grade;
using mock_hca::Profile;

const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

// A host that says what the test wants it to.
class PlayedSystem : public System {
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
  std::string target(const std::string& link) const override {
    const auto found = links.find(link);
    return found == links.end() ? "" : found->second;
  }
  std::string kernel() const override { return "6.12 x86_64"; }
  std::string rdma_core() const override { return "44.0"; }
  std::optional<std::uint64_t> memlock_bytes() const override { return memlock; }

  std::map<std::string, std::string> files, links;
  std::optional<std::uint64_t> memlock;
};

const Line* find(const Lines& lines, const std::string& check, Line::Part part = Line::Part::test) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const Line& one) { return one.check == check && one.part == part; });
  return found == lines.end() ? nullptr : &*found;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const Line& one : lines)
    text += std::string(to_string(one.grade)) + " " + one.check + ": " + one.what + "\n";
  return text;
}

void expect(const Lines& lines, const std::string& check, Grade grade, const std::string& part_of_what = {},
            Line::Part part = Line::Part::test) {
  const Line* const line = find(lines, check, part);
  ASSERT_NE(line, nullptr) << "nothing is said of " << check << "\n" << text_of(lines);
  EXPECT_EQ(to_string(line->grade), std::string(to_string(grade))) << check << ": " << line->what;
  EXPECT_NE(line->what.find(part_of_what), std::string::npos) << check << ": " << line->what;
}
void expect_said(const Lines& lines, const std::string& check, Grade grade, const std::string& what) {
  expect(lines, check, grade, what, Line::Part::report);
}

Pace short_pace() {
  Pace pace;
  pace.measures = std::chrono::milliseconds(1);
  return pace;
}

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

// --- what each kind of adapter has ---

TEST(Probe, SoftRoceDoesEverythingAndIsNotInvalidatedByItself) {
  const Lines lines = probe_of(mock_hca::rxe());
  for (const char* check :
       {"write", "inline write", "empty write with immediate", "write with immediate",
        "message with immediate", "window of type 1", "window of type 2", "message with invalidation",
        "registration", "memory of a session", "data before immediates", "flush"})
    expect(lines, check, Grade::ok);
  expect(lines, "data before immediates", Grade::ok, "50 rounds");
  expect_said(lines, "driver", Grade::ok, "rdma_rxe");
  expect_said(lines, "invalidation", Grade::ok, "off: a lost packet would end connections");
  expect_said(lines, "depth", Grade::ok, "65535 work requests");
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
  for (const char* check : {"registering", "binding", "empty write", "4 KiB writes", "128 KiB writes"}) {
    expect(lines, check, Grade::ok, "", Line::Part::measurement);
    EXPECT_GT(find(lines, check, Line::Part::measurement)->number.value_or(0), 0) << check;
  }
}

TEST(Probe, Mlx5DoesEverythingAndIsInvalidatedByWindows) {
  const Lines lines = probe_of(mock_hca::mlx5());
  expect(lines, "window of type 1", Grade::ok, "its stale key refused on the second");
  expect(lines, "window of type 2", Grade::ok, "refused on a second");
  expect_said(lines, "invalidation", Grade::ok, "on, by windows of type 1");
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
}

TEST(Probe, IrdmaHasWindowsOfType1AloneAndLessDepth) {
  const Lines lines = probe_of(mock_hca::irdma());
  expect(lines, "window of type 1", Grade::ok);
  expect(lines, "window of type 2", Grade::absent, "none");
  expect(lines, "message with invalidation", Grade::absent);
  expect_said(lines, "depth", Grade::ok, "4096 work requests");
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

TEST(Probe, Hfi1TakesNothingInline) {
  const Lines lines = probe_of(mock_hca::hfi1());
  expect_said(lines, "inline data", Grade::absent, "96 bytes asked for, 0 granted");
  expect(lines, "inline write", Grade::absent);
  EXPECT_FALSE(any_failed(lines)) << text_of(lines);
}

TEST(Probe, WindowsThatAreOnlyPromisedAreNotThere) {
  mock_hca::reset({mock_hca::bnxt_re()});
  std::string why;
  const auto device = open_device(PlayedSystem(), "bnxt_re0", why);
  ASSERT_NE(device, nullptr) << why;
  device->attributes.device_cap_flags |= IBV_DEVICE_MEM_WINDOW;
  expect(test_windows(*device, short_pace()), "window of type 1", Grade::absent, "says that it has them");
}

TEST(Probe, EachAdapterIsProbedOrTheOneThatIsAskedFor) {
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
  expect_said(none, "RDMA devices", Grade::failed, "there is no \"mlx5_7\", but hfi1_0, mlx5_0");
  mock_hca::reset({});
  expect_said(probe(PlayedSystem(), {}, short_pace()), "RDMA devices", Grade::failed, "has none");
}

// --- what the host says ---

TEST(Probe, TheHostIsReported) {
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
  expect_said(lines, "kernel", Grade::ok, "6.12 x86_64");
  expect_said(lines, "rdma-core", Grade::ok, "44.0");
  expect_said(lines, "locked memory", Grade::failed, "8192 KiB; a session of urtrsd takes 65536 KiB");
  expect_said(lines, "driver", Grade::ok, "mlx5_core");
  expect_said(lines, "firmware", Grade::absent, "not known");
  expect_said(lines, "PCIe and NUMA", Grade::failed,
              "0000:3b:00.0: 8 lanes of 8.0 GT/s PCIe, node 1; the adapter has 16 lanes");
  expect_said(lines, "port 1", Grade::ok, "active, Ethernet");
  expect_said(lines, "port 1", Grade::ok, "100 Gb/sec");
  expect_said(lines, "port 1 GIDs", Grade::ok, "1 192.0.2.1 (RoCE v2, bond0.5, a VLAN)");
  expect_said(lines, "port 1 GIDs", Grade::ok, "eth1 of the bond bond0");
  EXPECT_EQ(find(lines, "port 1 GIDs", Line::Part::report)->what.find("7 "), std::string::npos)
      << "it is empty";
}

TEST(Probe, ABondIsNamedWithItsInterfaces) {
  PlayedSystem system;
  const std::string at = "/sys/class/infiniband/mlx5_0/ports/1/";
  system.files = {{at + "gids/1", ""},
                  {at + "gid_attrs/ndevs/1", "bond0"},
                  {"/sys/class/net/bond0/bonding/mode", "active-backup 1"},
                  {"/sys/class/net/bond0/bonding/slaves", "eth0 eth1"}};
  expect_said(probe_of(mock_hca::mlx5(), system), "port 1 GIDs", Grade::ok,
              "bond0, a bond (active-backup) of eth0 eth1");
}

// --- devices that do not keep what is promised ---

// What goes wrong below the functions that every device has.
struct Broken {
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
  int (*poll_cq)(ibv_cq*, int, ibv_wc*) = nullptr;
  int (*bind_mw)(ibv_qp*, ibv_mw*, ibv_mw_bind*) = nullptr;
};
ibv_context_ops good_ops;
unsigned turn;

class BrokenDevice : public ::testing::Test {
 protected:
  Lines probed(const Broken& broken, Profile profile = mock_hca::mlx5()) {
    profile.gives_up_after = 0;
    mock_hca::reset({profile});
    std::string why;
    turn = 0;
    const auto device = open_device(system, profile.name, why);
    EXPECT_NE(device, nullptr) << why;
    good_ops = device->context->ops;
    if (broken.post_send != nullptr) device->context->ops.post_send = broken.post_send;
    if (broken.poll_cq != nullptr) device->context->ops.poll_cq = broken.poll_cq;
    if (broken.bind_mw != nullptr) device->context->ops.bind_mw = broken.bind_mw;
    Pace pace = short_pace();
    pace.patience = std::chrono::milliseconds(20);
    Lines lines;
    for (Lines more : {test_messages(*device, pace), test_windows(*device, pace), test_memory(*device, pace),
                       test_order(*device, pace, {.count = 20, .all = true}), test_flush(*device, pace)})
      lines.insert(lines.end(), more.begin(), more.end());
    return lines;
  }
  void TearDown() override {
    EXPECT_EQ(mock_hca::objects(), 0U);
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>());
  }
  PlayedSystem system;
};

TEST_F(BrokenDevice, AWriteThatIsNotCarriedOut) {
  const Lines lines = probed({.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    if (request->opcode == IBV_WR_RDMA_WRITE) request->num_sge = 0;
    return good_ops.post_send(pair, request, refused);
  }});
  expect(lines, "write", Grade::failed, "its data are not there");
  expect(lines, "inline write", Grade::failed);
  expect(lines, "window of type 1", Grade::failed, "its data are not there");
  expect(lines, "data before immediates", Grade::failed,
         "in round 0 the immediate was there before the data");
  expect(lines, "write with immediate", Grade::ok);
}

TEST_F(BrokenDevice, AnImmediateThatIsLost) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    if (found == 1) out->wc_flags &= ~unsigned{IBV_WC_WITH_IMM};
    return found;
  }});
  for (const char* check : {"empty write with immediate", "write with immediate", "message with immediate"})
    expect(lines, check, Grade::failed, "not told of the immediate");
  expect(lines, "write", Grade::ok);
}

TEST_F(BrokenDevice, AnImmediateOfAnotherMessage) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    if (found == 1) out->imm_data ^= 1U;
    return found;
  }});
  expect(lines, "empty write with immediate", Grade::failed, "the immediate is");
  expect(lines, "data before immediates", Grade::failed, "has the immediate of round");
}

TEST_F(BrokenDevice, ACompletionThatNeverComes) {
  const Lines lines = probed({.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; }});
  for (const Line& one : lines)
    EXPECT_EQ(one.grade, one.check == "memory of a session" ? Grade::ok : Grade::failed) << one.check;
  expect(lines, "write", Grade::failed, "no completion within 20 ms");
  expect(lines, "flush", Grade::failed, "0 of 8 receives are given back");
}

TEST_F(BrokenDevice, AQueueThatCannotBeRead) {
  const Lines lines = probed({.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -1; }});
  expect(lines, "write", Grade::failed, "the completion queue cannot be read");
}

TEST_F(BrokenDevice, APostThatIsRefused) {
  const Lines lines = probed({.post_send = [](ibv_qp*, ibv_send_wr* request, ibv_send_wr** refused) {
    *refused = request;
    return ENOMEM;
  }});
  expect(lines, "write", Grade::failed, "posting a write: Cannot allocate memory");
  expect(lines, "window of type 2", Grade::failed, "posting a binding");
  expect(lines, "flush", Grade::ok);
}

TEST_F(BrokenDevice, AMessageThatInvalidatesNothing) {
  const Lines lines = probed({.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    if (request->opcode == IBV_WR_SEND_WITH_INV) request->opcode = IBV_WR_SEND;
    return good_ops.post_send(pair, request, refused);
  }});
  expect(lines, "message with invalidation", Grade::failed, "not told of an invalidation");
  expect(lines, "window of type 2", Grade::ok);
}

// It says that it has, and the key lives on.
TEST_F(BrokenDevice, AnInvalidationThatIsOnlyTold) {
  static std::uint32_t key;
  const Lines lines = probed({.post_send =
                                  [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
                                    if (request->opcode == IBV_WR_SEND_WITH_INV) {
                                      key = request->invalidate_rkey;
                                      request->opcode = IBV_WR_SEND;
                                    }
                                    return good_ops.post_send(pair, request, refused);
                                  },
                              .poll_cq =
                                  [](ibv_cq* queue, int count, ibv_wc* out) {
                                    const int found = good_ops.poll_cq(queue, count, out);
                                    if (found == 1 && out->opcode == IBV_WC_RECV && out->byte_len == 0) {
                                      out->wc_flags = IBV_WC_WITH_INV;
                                      out->invalidated_rkey = key;
                                    }
                                    return found;
                                  }});
  expect(lines, "message with invalidation", Grade::failed, "a key that the peer took back is taken");
}

TEST_F(BrokenDevice, AWindowThatStaysOpen) {
  const Lines lines = probed({.bind_mw = [](ibv_qp* pair, ibv_mw* window, ibv_mw_bind* request) {
    // The end of a binding is answered, and is none.
    if (request->bind_info.length != 0) return good_ops.bind_mw(pair, window, request);
    ibv_send_wr nothing{}, *refused = nullptr;
    nothing.opcode = IBV_WR_RDMA_WRITE;
    nothing.send_flags = request->send_flags;
    return good_ops.post_send(pair, &nothing, &refused);
  }});
  expect(lines, "window of type 1", Grade::failed, "the key of a window that is bound no more is taken");
  expect(lines, "window of type 2", Grade::ok);
}

TEST_F(BrokenDevice, AWindowThatCannotBeBound) {
  const Lines lines = probed({.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EINVAL; }});
  expect(lines, "window of type 1", Grade::failed, "posting a binding: Invalid argument");
  EXPECT_FALSE(windows_work(lines));
}

TEST_F(BrokenDevice, ReceivesThatAreNotGivenBack) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    return found == 1 && out->status == IBV_WC_WR_FLUSH_ERR && ++turn > 3 ? 0 : found;
  }});
  expect(lines, "flush", Grade::failed, "of 8 receives are given back");
  expect(lines, "write", Grade::ok);
}

TEST_F(BrokenDevice, ReceivesThatAreGivenBackAsIfTheyWereGood) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    if (found == 1 && out->status == IBV_WC_WR_FLUSH_ERR) out->status = IBV_WC_SUCCESS;
    return found;
  }});
  expect(lines, "flush", Grade::failed, "given back as \"success\"");
}

// Whatever cannot be had: a line says so, nothing is left behind and nothing is used that is not there.
TEST(Probe, EveryObjectMayBeTheOneThatCannotBeHad) {
  unsigned failures = 0;
  bool fell_short = true;
  for (unsigned skip = 0; fell_short; ++skip) {
    ASSERT_LT(skip, 1000U);
    mock_hca::reset({mock_hca::mlx5()});
    mock_hca::fall_short(skip, 1);
    const Lines lines =
        probe(PlayedSystem(), {.device = "", .rounds = {.count = 1, .all = true}}, short_pace());
    fell_short = mock_hca::fell_short();
    failures += any_failed(lines) ? 1 : 0;
    EXPECT_TRUE(fell_short || !any_failed(lines)) << text_of(lines);
    EXPECT_EQ(mock_hca::objects(), 0U) << "without object " << skip;
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>()) << "without object " << skip;
  }
  EXPECT_GT(failures, 20U);
}

TEST(Probe, ADeviceThatIsRemovedMeanwhileFailsItsLines) {
  mock_hca::reset({mock_hca::mlx5()});
  std::string why;
  const auto device = open_device(PlayedSystem(), "mlx5_0", why);
  ASSERT_NE(device, nullptr) << why;
  mock_hca::remove(0);
  Pace pace = short_pace();
  const Lines lines = probe_device(PlayedSystem(), *device, {.count = 1}, pace);
  expect(lines, "write", Grade::failed, "no completion queue");
  expect_said(lines, "depth", Grade::failed, "no queue pair can be made");
  expect(lines, "4 KiB writes", Grade::failed, "", Line::Part::measurement);
}

TEST(Probe, ItEndsWhenItIsAskedTo) {
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
}  // namespace rtrs::probe
