// Tests trace files whose recording begins in the middle of a run, that are replaced during a run, or that
// cannot be written.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/assert_hook.hpp"
#include "core/proto/client_session.hpp"
#include "core/record/recorder.hpp"
#include "core/record/writer.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace::test::recorder_file_test {
namespace {

class FileTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  static ReplayResult replayed(const std::string& path) {
    const std::string bytes = bytes_of(path);
    MemorySource source(bytes);
    ReplayOptions options;
    options.blank = blank_core_machines();
    return replay(source, core_machines(), options);
  }

 private:
  const tools::ScratchFolder folder_;
};

// A client whose server never answers, so that the client retries to connect.
class Client {
 public:
  explicit Client(Recorder& recorder) : recorder_(recorder), session_(config()) {
    recorder_.begin(0, kInstance, MachineKind::client_session, config());
    recorder_.watch(kInstance, MachineKind::client_session, session_);
    feed(PathAdded{10, 0});
  }
  ~Client() { recorder_.forget(kInstance, &session_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void attempts(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const ConKey key = session_.path(0).key(0);
      feed(ConnectFailed{now_ += 1000, key, Reason::connect_refused, 0});
      feed(ConnectionClosed{now_ += 1000, key});
      now_ = std::max(now_, session_.next_deadline());
      feed(DeadlineReached{now_});
    }
  }

 private:
  static constexpr InstanceId kInstance = 3;
  static ClientConfig config() {
    ClientConfig config;
    config.seed = 11;
    return config;
  }
  template <class Input>
  void feed(const Input& in) {
    recorder_.input(kInstance, in);
    actions_.clear();
    session_.on(in, actions_);
    recorder_.actions(kInstance, actions_);
  }
  Recorder& recorder_;
  ClientSession session_;
  ClientActions actions_;
  Nanos now_ = 100;
};

TEST_F(FileTest, StateHashesAreWrittenAndCompared) {
  Recorder recorder;
  ASSERT_EQ(recorder.open_file(path("t").c_str(), {}, {Detail::machines, 1}), 0);
  Client client(recorder);
  client.attempts(20);
  ASSERT_EQ(recorder.close_file(), 0);
  const ReplayResult result = replayed(path("t"));
  EXPECT_EQ(result.verdict, Verdict::identical) << result.why;
  EXPECT_EQ(result.state_hashes, result.inputs);
  EXPECT_EQ(result.inputs, 61U);
}

TEST_F(FileTest, FileOpenedLateBeginsWithASnapshot) {
  Recorder recorder;
  Client client(recorder);
  client.attempts(20);
  ASSERT_EQ(recorder.open_file(path("late").c_str(), {}, {Detail::machines, 1}), 0);
  client.attempts(5);
  ASSERT_EQ(recorder.close_file(), 0);
  const ReplayResult result = replayed(path("late"));
  EXPECT_EQ(result.verdict, Verdict::identical) << result.why;
  EXPECT_EQ(result.inputs, 15U);
  EXPECT_EQ(result.snapshots, 1U);
  EXPECT_EQ(result.skipped, 0U);
}

TEST_F(FileTest, WrappedRingContainsASnapshot) {
  Recorder recorder(64);
  Client client(recorder);
  client.attempts(200);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), {}), 0);
  const ReplayResult result = replayed(path("ring"));
  EXPECT_EQ(result.verdict, Verdict::identical) << result.why;
  EXPECT_GE(result.inputs, 32U);
  EXPECT_LE(result.inputs + result.skipped, 64U + 64U);
  EXPECT_GE(result.snapshots, 1U);
  EXPECT_TRUE(result.counts_only);
  EXPECT_GT(recorder.counters().snapshots, 15U);
}

TEST_F(FileTest, ChangedSnapshotIsADivergence) {
  Recorder recorder;
  Client client(recorder);
  client.attempts(2);
  ASSERT_EQ(recorder.open_file(path("late").c_str(), {}), 0);
  client.attempts(1);
  ASSERT_EQ(recorder.close_file(), 0);
  // Copies the first snapshot to a later position, where the snapshot no longer matches the state.
  const std::string bytes = bytes_of(path("late"));
  MemorySource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Reader::Status::ok);
  std::string copy;
  Writer writer(std::make_unique<StringSink>(copy));
  ASSERT_EQ(writer.start(reader.header()), 0);
  Record record;
  std::string state;
  Snapshot snapshot;
  const Compatibility compatibility(reader.header().schema);
  while (reader.next(record) == Reader::Status::ok) {
    if (record.event->id == kKindOf<Snapshot>) {
      snapshot = get_struct<Snapshot>(record, compatibility.map(record.event->id));
      state.assign(reinterpret_cast<const char*>(snapshot.part.data()), snapshot.part.size());
    }
    ASSERT_EQ(writer.append_values(*record.event, record.instance, record.time, record.values), 0);
  }
  snapshot.part = std::as_bytes(std::span(state));
  ASSERT_EQ(writer.append_note(3, snapshot), 0);
  ASSERT_EQ(writer.finish(), 0);
  MemorySource again(copy);
  ReplayOptions options;
  options.blank = blank_core_machines();
  const ReplayResult result = replay(again, core_machines(), options);
  EXPECT_EQ(result.verdict, Verdict::diverged);
  EXPECT_EQ(result.divergence.recorded.substr(0, 6), "state ");
  EXPECT_NE(result.divergence.recorded, result.divergence.rerun);
}

TEST_F(FileTest, RotatedFilesAreBoundedAndReplayable) {
  Recorder recorder;
  FileOptions options;
  options.rotate_bytes = 20'000;
  options.rotate_files = 3;
  options.state_every = 10;
  ASSERT_EQ(recorder.open_file(path("r").c_str(), {}, options), 0);
  Client client(recorder);
  for (unsigned i = 0; i < 400; ++i) {
    client.attempts(10);
    recorder.flush_file();
  }
  ASSERT_EQ(recorder.close_file(), 0);
  EXPECT_GT(recorder.counters().files_rotated, 3U);
  unsigned files = 0;
  for (const char* name : {"r", "r.1", "r.2"}) {
    const ReplayResult result = replayed(path(name));
    EXPECT_EQ(result.verdict, Verdict::identical) << name << ' ' << result.why;
    EXPECT_EQ(result.skipped, 0U);
    EXPECT_EQ(result.machines, 1U);
    EXPECT_LT(std::filesystem::file_size(path(name)), 60'000U);
    ++files;
  }
  EXPECT_EQ(files, 3U);
  EXPECT_FALSE(std::filesystem::exists(path("r.3")));
}

TEST_F(FileTest, PartlyFilledBlocksAreWrittenAfterTheFlushInterval) {
  Recorder recorder;
  FileOptions options;
  options.flush_every = seconds(1);
  ASSERT_EQ(recorder.open_file(path("t").c_str(), {}, options), 0);
  Client client(recorder);
  client.attempts(20);
  const ReadBack killed = read_all(bytes_of(path("t")));
  EXPECT_EQ(killed.status, Reader::Status::damaged);
  EXPECT_GT(killed.records.size(), 60U);
  EXPECT_EQ(replayed(path("t")).verdict, Verdict::damaged);
}

// The part of the file before the size limit must be replayable. Recording continues in the ring.
TEST_F(FileTest, FileSizeLimitKeepsTheWrittenPart) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 200'000;
  Recorder recorder;
  ASSERT_EQ(recorder.open_file(path("t").c_str(), {}), 0);
  Client client(recorder);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  client.attempts(5000);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(recorder.file_failed());
  EXPECT_EQ(recorder.file_errno(), EFBIG);
  EXPECT_EQ(recorder.close_file(), EFBIG);
  EXPECT_GT(recorder.counters().file_records_lost, 0U);
  const ReplayResult result = replayed(path("t"));
  EXPECT_EQ(result.verdict, Verdict::damaged);
  EXPECT_GT(result.inputs, 1000U);
  EXPECT_EQ(recorder.dump_ring(path("ring").c_str(), {}), 0);
  EXPECT_EQ(replayed(path("ring")).verdict, Verdict::identical);
}

// A broken invariant ends the program. The dump must contain the records before the failure.
TEST_F(FileTest, BrokenInvariantLeavesADump) {
  const std::string dump = path("dump");
  EXPECT_DEATH(
      {
        struct Context {
          Recorder recorder;
          std::string path;
        } context;
        context.path = dump;
        set_assert_hook(
            [](void* of) noexcept {
              const auto* at = static_cast<const Context*>(of);
              at->recorder.dump_ring(at->path.c_str(), {});
            },
            &context);
        Client client(context.recorder);
        client.attempts(3);
        RTRS_ASSERT(1 + 1 == 3);
      },
      "broken invariant: 1 \\+ 1 == 3");
  EXPECT_EQ(replayed(dump).verdict, Verdict::identical);
  EXPECT_EQ(replayed(dump).inputs, 10U);
}

TEST_F(FileTest, OnlyTracesAndEmptyFilesAreReplaced) {
  Recorder recorder;
  Client client(recorder);
  const auto write = [this](const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
  };
  write("image", std::string(4096, '\0'));
  write("short", "x");
  write("empty", "");
  write("begun", std::string(kMagic.substr(0, 5)));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"image", "short", "pipe"}) {
    const auto before = std::filesystem::status(path(name)).permissions();
    EXPECT_EQ(may_replace(path(name).c_str()), EEXIST) << name;
    EXPECT_EQ(recorder.open_file(path(name).c_str(), {}), EEXIST) << name;
    EXPECT_EQ(recorder.dump_ring(path(name).c_str(), {}), EEXIST) << name;
    EXPECT_EQ(std::filesystem::status(path(name)).permissions(), before) << name;
  }
  EXPECT_EQ(recorder.dump_ring("/dev/null", {}), EEXIST);
  EXPECT_EQ(bytes_of(path("image")), std::string(4096, '\0'));
  EXPECT_EQ(bytes_of(path("short")), "x");
  for (const char* name : {"empty", "begun", "new", "new"}) {
    EXPECT_EQ(may_replace(path(name).c_str()), 0) << name;
    EXPECT_EQ(recorder.dump_ring(path(name).c_str(), {}), 0) << name;
    EXPECT_EQ(replayed(path(name)).verdict, Verdict::identical) << name;
  }
}

TEST_F(FileTest, FilesAndLinksOfOtherUsersInPublicFoldersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  constexpr uid_t kNobody = 65534;
  Recorder recorder;
  Client client(recorder);
  const auto refused = [&](const std::string& name) {
    const std::string at = path("public/" + name);
    const int error = recorder.dump_ring(at.c_str(), {});
    // Linux returns EACCES if fs.protected_symlinks or fs.protected_regular is set.
    EXPECT_TRUE(error == EPERM || error == EACCES) << name << ' ' << error;
  };
  std::filesystem::create_directory(path("public"));
  ASSERT_EQ(::chmod(path("public").c_str(), 01777), 0);
  std::ofstream(path("empty")).flush();
  for (const auto& [name, target] :
       {std::pair<std::string, std::string>{"to_empty", path("empty")}, {"to_new", path("new")}}) {
    std::filesystem::create_symlink(target, path("public/" + name));
    ASSERT_EQ(::lchown(path("public/" + name).c_str(), kNobody, kNobody), 0);
    refused(name);
  }
  std::ofstream(path("public/theirs")).flush();
  ASSERT_EQ(::chown(path("public/theirs").c_str(), kNobody, kNobody), 0);
  refused("theirs");
  EXPECT_FALSE(std::filesystem::exists(path("new")));
  EXPECT_EQ(bytes_of(path("empty")), "");
  // Links are followed if this user owns them, or if the folder is not world-writable.
  std::filesystem::create_symlink("../new", path("public/own"));
  EXPECT_EQ(recorder.dump_ring(path("public/own").c_str(), {}), 0);
  EXPECT_EQ(replayed(path("new")).verdict, Verdict::identical);
  ASSERT_EQ(::chmod(path("public").c_str(), 0755), 0);
  EXPECT_EQ(recorder.dump_ring(path("public/to_empty").c_str(), {}), 0);
}

TEST_F(FileTest, RotationReplacesOnlyTraces) {
  std::ofstream(path("t.2")) << "notes";
  Recorder recorder;
  FileOptions options;
  options.rotate_bytes = 4096;
  options.rotate_files = 3;
  EXPECT_EQ(recorder.open_file(path("t").c_str(), {}, options), EEXIST);
  EXPECT_FALSE(std::filesystem::exists(path("t")));
  EXPECT_EQ(bytes_of(path("t.2")), "notes");
  options.rotate_files = 2;
  EXPECT_EQ(recorder.open_file(path("t").c_str(), {}, options), 0);
  EXPECT_EQ(recorder.close_file(), 0);
}

TEST(State, TextAndDifferences) {
  ClientConfig config;
  ClientSession session(config);
  const StateText before = state_text(session);
  ClientActions actions;
  session.on(PathAdded{10, 0}, actions);
  const std::vector<std::string> lines = differences(before, state_text(session));
  EXPECT_NE(std::find(lines.begin(), lines.end(), "paths[0].state: - -> connecting"), lines.end());
  EXPECT_EQ(differences(before, before).size(), 0U);
  const StateDifference first = first_difference(before, state_text(session));
  EXPECT_EQ(first.b, "paths[0].index=0");
}

TEST(State, RoundTripThroughBytes) {
  ClientConfig config;
  config.seed = 99;
  ClientSession session(config);
  ClientActions actions;
  session.on(PathAdded{10, 0}, actions);
  std::vector<std::uint8_t> bytes(state::bound(session));
  const std::uint8_t* const end = state::save(bytes.data(), session);
  ASSERT_LT(end - bytes.data(), static_cast<std::ptrdiff_t>(bytes.size()));
  ClientSession back{ClientConfig{}};
  EXPECT_FALSE(back == session);
  ASSERT_EQ(state::load(bytes.data(), end, back), end);
  EXPECT_TRUE(back == session);
  for (const std::uint8_t* cut = bytes.data(); cut != end; ++cut) {
    ClientSession other{ClientConfig{}};
    EXPECT_EQ(state::load(bytes.data(), cut, other), nullptr);
  }
}

}  // namespace
}  // namespace rtrs::trace::test::recorder_file_test
