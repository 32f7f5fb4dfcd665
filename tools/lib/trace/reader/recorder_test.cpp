#include "core/record/recorder.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "core/proto/server_session.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"

namespace rtrs::trace::test::recorder_test {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static void feed(Recorder& recorder, unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) {
      recorder.input(3, ImmReceived{i, {1, 2, 3}, i});
      ClientActions actions;
      for (unsigned n = 0; n < i % 3; ++n) actions.push(Complete{static_cast<std::uint16_t>(i), Errc::ok, 0});
      recorder.actions(3, actions);
    }
  }
  static std::size_t count(const ReadBack& back, KindId kind) {
    return static_cast<std::size_t>(std::count_if(back.records.begin(), back.records.end(),
                                                  [kind](const Written& one) { return one.kind == kind; }));
  }
  const Origin origin_{"test", "client", "none", 1, {}};

 private:
  const tools::ScratchFolder folder_;
};

TEST_F(RecorderTest, FileHasInputsAndActions) {
  Recorder recorder(16);
  ASSERT_EQ(recorder.open_file(path("a").c_str(), origin_), 0);
  EXPECT_EQ(recorder.open_file(path("b").c_str(), origin_), EBUSY);
  ClientConfig config;
  config.seed = 99;
  recorder.begin(5, 3, MachineKind::client_session, config);
  ServerConfig server;
  server.queue_depth = 8;
  recorder.begin(6, 4, MachineKind::server_session, server, 2);
  recorder.begin(6, 5, MachineKind::server_registry, server);
  feed(recorder, 7, 107);
  recorder.state(3, 0xabcdef);
  recorder.end(200, 3);
  const RecorderCounters open = recorder.counters();
  EXPECT_EQ(open.file_records, 3 + 100 + 100 + 2U);  // each input i causes i % 3 actions
  ASSERT_EQ(recorder.close_file(), 0);

  const std::string bytes = content(path("a"));
  EXPECT_EQ(recorder.counters().file_bytes, bytes.size());
  const ReadBack back = read_all(bytes);
  ASSERT_EQ(back.status, Reader::Status::end) << back.stop.reason;
  EXPECT_EQ(back.header.flags, 0U);
  EXPECT_EQ(back.header.origin, origin_);
  EXPECT_EQ(back.records.size(), open.file_records);
  EXPECT_EQ(count(back, kKindOf<Complete>), 100U);
  EXPECT_EQ(back.records[0].fields, encoded_fields(BeginClient{5, config}));
  EXPECT_EQ(back.records[1].fields, encoded_fields(BeginServerSession{6, 2, server}));
  EXPECT_EQ(back.records[2].fields, encoded_fields(BeginServerRegistry{6, server}));
  EXPECT_EQ(back.chain_hash, recorder.chain_hash());
}

TEST_F(RecorderTest, VariantIsRecordedAsItsEvent) {
  Recorder recorder;
  ASSERT_EQ(recorder.open_hash(origin_), 0);
  recorder.input(1, ClientInput(ImmReceived{1, {1, 2, 3}, 4}));
  const std::uint64_t as_variant = recorder.chain_hash();
  recorder.close_file();
  Recorder other;
  ASSERT_EQ(other.open_hash(origin_), 0);
  other.input(1, ImmReceived{1, {1, 2, 3}, 4});
  EXPECT_EQ(other.chain_hash(), as_variant);
  other.input(1, ImmReceived{1, {1, 2, 3}, 4});
  EXPECT_NE(other.chain_hash(), as_variant);
}

TEST_F(RecorderTest, RingKeepsTheNewestRecords) {
  Recorder recorder(64);
  recorder.begin(0, 3, MachineKind::client_session, ClientConfig{});
  feed(recorder, 1, 1000);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), origin_), 0);
  const ReadBack back = read_all(content(path("ring")));
  ASSERT_EQ(back.status, Reader::Status::end) << back.stop.reason;
  EXPECT_EQ(back.header.flags, static_cast<std::uint32_t>(partial | action_counts));
  EXPECT_EQ(count(back, kKindOf<ImmReceived>), 64U);
  EXPECT_EQ(count(back, kKindOf<BeginClient>), 0U);
  EXPECT_EQ(count(back, kKindOf<Complete>), 0U);
  EXPECT_EQ(back.records.front().time, 936U);
  EXPECT_EQ(recorder.counters().ring_overwritten, recorder.counters().ring_records - 64);
}

TEST_F(RecorderTest, HeaderHasTheStartOfTheRunAndTheTimeOfTheDump) {
  Recorder recorder(64);
  recorder.begin(700, 3, MachineKind::client_session, ClientConfig{});
  feed(recorder, 701, 1000);
  Origin origin = origin_;
  origin.taken = 5000;
  origin.wall = 1'700'000'000'000'000'000;
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), origin), 0);
  ASSERT_EQ(recorder.open_file(path("file").c_str(), origin_), 0);
  ASSERT_EQ(recorder.close_file(), 0);
  const Header dump = read_all(content(path("ring"))).header;
  EXPECT_EQ(dump.start, 700U);
  EXPECT_EQ(dump.origin, origin);
  EXPECT_EQ(read_all(content(path("file"))).header.start, 700U);
}

// With 100 state machines, an input causes no more snapshots than with 16. The ring keeps its records when it
// grows.
TEST_F(RecorderTest, RingGrowsWithTheNumberOfWatchedMachines) {
  constexpr unsigned kMachines = 100, kRing = 256, kRounds = 200;
  Recorder recorder(kRing);
  feed(recorder, 1, 100);
  const ServerSession machine(ServerConfig{}, 0);
  for (InstanceId instance = 0; instance < kMachines; ++instance)
    recorder.watch(instance, MachineKind::server_session, machine);
  EXPECT_EQ(recorder.counters().ring_overwritten, 0U);
  for (unsigned round = 0; round < kRounds; ++round) {
    for (InstanceId instance = 0; instance < kMachines; ++instance) {
      recorder.input(instance, ImmReceived{1000 + round, {1, 2, 3}, round});
      recorder.actions(instance, ClientActions{});
    }
  }
  const std::uint64_t inputs = kMachines * kRounds;
  EXPECT_LE(recorder.counters().snapshots, inputs * 2 * Recorder::kMachinesOfARing / kRing);
  EXPECT_GT(recorder.counters().snapshots, 0U);
  for (InstanceId instance = 0; instance < kMachines; ++instance) recorder.forget(instance, &machine);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), origin_), 0);
  EXPECT_EQ(read_all(content(path("ring"))).status, Reader::Status::end);
}

TEST_F(RecorderTest, RingThatGrowsAfterItWrappedKeepsItsRecordsInOrder) {
  constexpr unsigned kRing = 64, kBefore = 1000, kAfter = 30;
  Recorder recorder(kRing);
  feed(recorder, 0, kBefore);
  const ServerSession machine(ServerConfig{}, 0);
  for (InstanceId instance = 0; instance <= Recorder::kMachinesOfARing; ++instance)
    recorder.watch(instance, MachineKind::server_session, machine);
  for (InstanceId instance = 0; instance <= Recorder::kMachinesOfARing; ++instance)
    recorder.forget(instance, &machine);
  feed(recorder, kBefore, kBefore + kAfter);
  EXPECT_EQ(recorder.counters().ring_overwritten, kBefore - kRing);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), origin_), 0);
  const ReadBack back = read_all(content(path("ring")));
  ASSERT_EQ(back.status, Reader::Status::end) << back.stop.reason;
  std::vector<Nanos> times;
  for (const Written& one : back.records)
    if (one.kind == kKindOf<ImmReceived>) times.push_back(one.time);
  std::vector<Nanos> expected(kRing + kAfter);
  std::iota(expected.begin(), expected.end(), Nanos{kBefore - kRing});
  EXPECT_EQ(times, expected);
}

TEST_F(RecorderTest, RingThatNeverWrappedIsComplete) {
  Recorder recorder(64);
  ClientConfig config;
  config.seed = 1234567890123456789U;
  recorder.begin(0, 3, MachineKind::client_session, config);
  feed(recorder, 1, 30);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), origin_), 0);
  const ReadBack back = read_all(content(path("ring")));
  ASSERT_EQ(back.status, Reader::Status::end);
  EXPECT_EQ(back.header.flags, static_cast<std::uint32_t>(action_counts));
  EXPECT_EQ(back.records[0].kind, kKindOf<BeginClient>);
  EXPECT_EQ(back.records[0].fields, encoded_fields(BeginClient{0, config}));
  EXPECT_EQ(count(back, kKindOf<ImmReceived>), 29U);
  EXPECT_EQ(count(back, kKindOf<ActionCount>), 20U);  // inputs with i % 3 != 0 cause actions
}

// A value in several slots is dropped if its first slot was overwritten.
TEST_F(RecorderTest, RingDropsHalfOverwrittenValues) {
  Recorder recorder(16);
  recorder.begin(0, 3, MachineKind::client_session, ClientConfig{});
  feed(recorder, 1, 15);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), origin_), 0);
  const ReadBack back = read_all(content(path("ring")));
  ASSERT_EQ(back.status, Reader::Status::end);
  EXPECT_EQ(count(back, kKindOf<BeginClient>), 0U);
  EXPECT_EQ(count(back, kKindOf<ImmReceived>), 14U);
}

TEST_F(RecorderTest, FileOpenedLateIsMarkedPartial) {
  Recorder recorder;
  feed(recorder, 0, 3);
  ASSERT_EQ(recorder.open_file(path("late").c_str(), origin_), 0);
  feed(recorder, 3, 5);
  ASSERT_EQ(recorder.close_file(), 0);
  EXPECT_EQ(read_all(content(path("late"))).header.flags, static_cast<std::uint32_t>(partial));
}

TEST_F(RecorderTest, RecordsBeforeTheLastFlushAreReadable) {
  Recorder recorder;
  ASSERT_EQ(recorder.open_file(path("killed").c_str(), origin_), 0);
  feed(recorder, 0, 100);
  recorder.flush_file();
  feed(recorder, 100, 110);
  const ReadBack back = read_all(content(path("killed")));
  EXPECT_EQ(back.status, Reader::Status::damaged);
  EXPECT_EQ(back.stop.reason, "the file ends without a trailer: the recording was not completed");
  EXPECT_EQ(count(back, kKindOf<ImmReceived>), 100U);
}

TEST_F(RecorderTest, FullDiskStopsOnlyTheFile) {
  // RLIMIT_FSIZE forbids every write, as a full disk would.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  Recorder recorder(16);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const int opened = recorder.open_file(path("full").c_str(), origin_);
  feed(recorder, 0, 10);
  const int dumped = recorder.dump_ring(path("full").c_str(), origin_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(opened, EFBIG);
  EXPECT_FALSE(recorder.recording());
  EXPECT_EQ(recorder.counters().ring_records, 10U);
  EXPECT_EQ(dumped, EFBIG);
  EXPECT_EQ(recorder.open_file(path("no/such/folder").c_str(), origin_), ENOENT);
}

TEST_F(RecorderTest, DiskFillsUpDuringRecording) {
  // Writes beyond the limit fail with EFBIG; on a full disk they would fail with ENOSPC.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  Recorder recorder(16);
  ASSERT_EQ(recorder.open_file(path("full").c_str(), origin_), 0);
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  feed(recorder, 0, 20'000);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);

  EXPECT_TRUE(recorder.file_failed());
  EXPECT_EQ(recorder.file_errno(), EFBIG);
  EXPECT_FALSE(recorder.recording());
  const RecorderCounters counters = recorder.counters();
  EXPECT_EQ(counters.ring_records, 20'000U);
  EXPECT_GT(counters.file_records, 1000U);
  EXPECT_GT(counters.file_records_lost, 1000U);
  EXPECT_EQ(recorder.close_file(), EFBIG);

  const ReadBack back = read_all(content(path("full")));
  EXPECT_EQ(back.status, Reader::Status::damaged);
  EXPECT_EQ(back.records.size(), counters.file_records);

  ASSERT_EQ(recorder.open_file(path("next").c_str(), origin_), 0);
  EXPECT_FALSE(recorder.file_failed());
  EXPECT_EQ(recorder.close_file(), 0);
}

}  // namespace
}  // namespace rtrs::trace::test::recorder_test
