#include "tools/lib/trace/replay/replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/proto/client_session.hpp"
#include "core/record/recorder.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"
#include "tools/lib/trace/replay/replay_adapter.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace::test::replay_test {
namespace {

// Test state machine that answers each immediate with (imm % 3) completions with increasing numbers.
class Toy {
 public:
  void on(const ImmReceived& in, ClientActions& actions) noexcept {
    for (unsigned i = 0; i < in.imm % 3; ++i) actions.push(Complete{count_++, Errc::ok, 0});
  }
  void on(const DeadlineReached&, ClientActions&) noexcept { count_ += 100; }
  std::uint64_t fingerprint() const { return count_; }

 private:
  std::uint16_t count_ = 0;
};
using ToyInputs = std::variant<ImmReceived, DeadlineReached>;

std::unique_ptr<ReplayMachine> make_toy(const Record& record, const FieldMap&, std::string&) {
  if (record.event->id != kKindOf<BeginClient>) return nullptr;
  return std::make_unique<ReplayAdapter<Toy, ToyInputs, ClientActions>>();
}

// Writes a trace in the same way as a recorder, but can change records.
class ChoiceLog {
 public:
  ChoiceLog() : writer_(std::make_unique<StringSink>(bytes_)) { start(plain_header()); }
  explicit ChoiceLog(const Header& header) : writer_(std::make_unique<StringSink>(bytes_)) { start(header); }

  template <class T>
  void put(InstanceId instance, const T& value) {
    EXPECT_EQ(writer_.append(kKindOf<T>, instance, &value), 0);
  }
  void begin(InstanceId instance) {
    put(instance, BeginClient{});
    toys_[instance] = Toy();
  }
  void imm(InstanceId instance, std::uint32_t imm) {
    const ImmReceived in{++now_, {0, 0, 1}, imm};
    put(instance, in);
    ClientActions actions;
    toys_[instance].on(in, actions);
    for (const ClientAction& action : actions) put(instance, std::get<Complete>(action));
  }
  void hash(InstanceId instance) { put(instance, StateHash{toys_[instance].fingerprint()}); }
  ReplayResult replay(bool complete = true) {
    EXPECT_EQ(complete ? writer_.finish() : writer_.flush(), 0);
    MemorySource source(bytes_);
    return trace::replay(source, &make_toy);
  }
  Nanos now() const { return now_; }

 private:
  void start(const Header& header) { EXPECT_EQ(writer_.start(header), 0); }
  std::string bytes_;
  Writer writer_;
  Toy toys_[4];
  Nanos now_ = 0;
};

TEST(Replay, Identical) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  choice_log.begin(2);
  for (unsigned i = 0; i < 90; ++i) choice_log.imm(1 + i % 2, i);
  choice_log.hash(1);
  choice_log.put(1, End{choice_log.now()});
  const ReplayResult result = choice_log.replay();
  EXPECT_EQ(result.verdict, Verdict::identical) << result.why << result.divergence.recorded;
  EXPECT_EQ(result.machines, 2U);
  EXPECT_EQ(result.inputs, 90U);
  EXPECT_EQ(result.actions, 90U);
  EXPECT_EQ(result.state_hashes, 1U);
  EXPECT_EQ(result.records, 2 + 90 + 90 + 2U);
}

TEST(Replay, InstanceThatBeginsAgainIsANewMachine) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  choice_log.imm(1, 2);
  choice_log.begin(1);
  choice_log.imm(1, 2);
  EXPECT_EQ(choice_log.replay().verdict, Verdict::identical);
}

TEST(Replay, DifferentActionIsADivergence) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  for (unsigned i = 0; i < 30; ++i) choice_log.imm(1, 1);
  choice_log.put(1, ImmReceived{31, {0, 0, 1}, 1});
  choice_log.put(1, Complete{30, Errc::no_path, 0});
  choice_log.imm(1, 1);
  const ReplayResult result = choice_log.replay();
  ASSERT_EQ(result.verdict, Verdict::diverged);
  EXPECT_EQ(result.divergence.seq, 62U);
  EXPECT_EQ(result.divergence.input_seq, 61U);
  EXPECT_EQ(result.divergence.time, 31U);
  EXPECT_EQ(result.divergence.instance, 1U);
  EXPECT_EQ(result.divergence.recorded, "Complete permit=30 result=no_path peer_errno=0");
  EXPECT_EQ(result.divergence.rerun, "Complete permit=30 result=ok peer_errno=0");
  ASSERT_EQ(result.divergence.before.size(), 20U);
  EXPECT_EQ(result.divergence.before.back().substr(0, 2), "61");
}

TEST(Replay, MissingActionIsADivergence) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  choice_log.put(1, ImmReceived{1, {0, 0, 1}, 2});
  choice_log.put(1, Complete{0, Errc::ok, 0});
  choice_log.put(1, ImmReceived{2, {0, 0, 1}, 0});
  const ReplayResult result = choice_log.replay();
  ASSERT_EQ(result.verdict, Verdict::diverged);
  EXPECT_EQ(result.divergence.seq, 3U);
  EXPECT_EQ(result.divergence.recorded, "no further action");
  EXPECT_EQ(result.divergence.rerun, "Complete permit=1 result=ok peer_errno=0 (1 more than recorded)");
}

TEST(Replay, MissingActionAtTheEndIsADivergenceOrDamage) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  choice_log.put(1, ImmReceived{1, {0, 0, 1}, 1});
  EXPECT_EQ(choice_log.replay().verdict, Verdict::diverged);
  ChoiceLog cut;
  cut.begin(1);
  cut.put(1, ImmReceived{1, {0, 0, 1}, 1});
  EXPECT_EQ(cut.replay(false).verdict, Verdict::damaged);
}

TEST(Replay, ExtraActionIsADivergence) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  choice_log.imm(1, 1);
  choice_log.put(1, Complete{9, Errc::ok, 0});
  const ReplayResult result = choice_log.replay();
  ASSERT_EQ(result.verdict, Verdict::diverged);
  EXPECT_EQ(result.divergence.rerun, "no further action");
}

TEST(Replay, DifferentStateHashIsADivergence) {
  ChoiceLog choice_log;
  choice_log.begin(1);
  choice_log.imm(1, 1);
  choice_log.put(1, StateHash{7});
  const ReplayResult result = choice_log.replay();
  ASSERT_EQ(result.verdict, Verdict::diverged);
  EXPECT_EQ(result.divergence.recorded, "StateHash fingerprint=7");
  EXPECT_EQ(result.divergence.rerun, "StateHash fingerprint=1");
}

TEST(Replay, TraceWithoutBeginningIsNotReplayable) {
  Header header = plain_header();
  header.flags = partial;
  ChoiceLog choice_log(header);
  choice_log.imm(1, 0);
  EXPECT_EQ(choice_log.replay().verdict, Verdict::not_replayable);

  ChoiceLog stranger;
  stranger.imm(1, 0);
  const ReplayResult result = stranger.replay();
  EXPECT_EQ(result.verdict, Verdict::not_replayable);
  EXPECT_EQ(result.why, "record 0 (ImmReceived): the machine was never begun");

  ChoiceLog wrong;
  wrong.begin(1);
  wrong.put(1, Continued{1});
  EXPECT_EQ(wrong.replay().why, "record 1 (Continued): a machine of this kind has no such input");
}

TEST(Replay, ActionCountsOfARingAreCompared) {
  Header header = plain_header();
  header.flags = action_counts;
  for (const std::uint16_t counted : {std::uint16_t{2}, std::uint16_t{1}}) {
    ChoiceLog choice_log(header);
    choice_log.put(1, BeginClient{});
    choice_log.put(1, ImmReceived{1, {0, 0, 1}, 2});
    choice_log.put(1, ActionCount{counted});
    const ReplayResult result = choice_log.replay();
    EXPECT_TRUE(result.counts_only);
    EXPECT_EQ(result.verdict, counted == 2 ? Verdict::identical : Verdict::diverged);
  }
}

// --- protocol state machines ---

class CoreRun {
 public:
  CoreRun() : session_(config()) {
    path_ = (::testing::TempDir() + "urtrs-replay-test.rtrc");
    EXPECT_EQ(recorder_.open_file(path_.c_str(), {}), 0);
    recorder_.begin(0, 1, MachineKind::client_session, config());
  }
  static ClientConfig config() {
    ClientConfig config;
    config.con_num = 3;
    config.seed = 42;
    return config;
  }
  template <class Input>
  void feed(const Input& in) {
    recorder_.input(1, in);
    actions_.clear();
    session_.on(in, actions_);
    recorder_.actions(1, actions_);
    recorder_.state(1, session_.fingerprint());
  }
  // Runs failing connection attempts, with back-off and jitter between them.
  void run() {
    feed(PathAdded{10, 0});
    for (unsigned attempt = 1; attempt < 12; ++attempt) {
      std::vector<ConKey> keys;
      for (const ClientAction& action : actions_) {
        if (const auto* connect = action_if<Connect>(action)) keys.push_back(connect->key);
      }
      connects_ += keys.size();
      for (const ConKey& key : keys) feed(ConnectFailed{now_ += 1000, key, Reason::connect_refused, 0});
      for (const ConKey& key : keys) feed(ConnectionClosed{now_ += 1000, key});
      now_ = std::max(now_, session_.next_deadline());
      feed(DeadlineReached{now_});
    }
    EXPECT_EQ(recorder_.close_file(), 0);
  }
  std::string bytes() const {
    std::string bytes;
    std::FILE* file = std::fopen(path_.c_str(), "rb");
    char buffer[4096];
    for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) != 0;) bytes.append(buffer, got);
    std::fclose(file);
    return bytes;
  }
  std::size_t connects() const { return connects_; }
  int dump(const std::string& path) const { return recorder_.dump_ring(path.c_str(), {}); }

 private:
  Recorder recorder_;
  ClientSession session_;
  ClientActions actions_;
  Nanos now_ = 100;
  std::size_t connects_ = 0;
  std::string path_;
};

// Copies a trace; `change` may alter the values of every record.
std::string copy(const std::string& bytes,
                 const std::function<void(const Record&, std::vector<Value>&)>& change) {
  MemorySource source(bytes);
  Reader reader(source);
  EXPECT_EQ(reader.open(), Reader::Status::ok);
  std::string out;
  Writer writer(std::make_unique<StringSink>(out));
  EXPECT_EQ(writer.start(reader.header()), 0);
  Record record;
  while (reader.next(record) == Reader::Status::ok) {
    std::vector<Value> values(record.values.begin(), record.values.end());
    change(record, values);
    EXPECT_EQ(writer.append_values(*record.event, record.instance, record.time, values), 0);
  }
  EXPECT_EQ(writer.finish(), 0);
  return out;
}

ReplayResult replay_core(const std::string& bytes) {
  MemorySource source(bytes);
  return replay(source, core_machines());
}

TEST(ReplayCore, ClientSessionReplaysIdentically) {
  CoreRun choice_log;
  choice_log.run();
  EXPECT_GE(choice_log.connects(), 10U);
  const ReplayResult result = replay_core(choice_log.bytes());
  EXPECT_EQ(result.verdict, Verdict::identical)
      << result.why << ' ' << result.divergence.recorded << " / " << result.divergence.rerun;
  EXPECT_EQ(result.state_hashes, result.inputs);
  EXPECT_GT(result.actions, 20U);
}

TEST(ReplayCore, ChangedActionIsADivergence) {
  CoreRun choice_log;
  choice_log.run();
  const std::string bytes = choice_log.bytes();
  EXPECT_EQ(copy(bytes, [](const Record&, std::vector<Value>&) {}), bytes);
  // Changes each field of each action in turn. All fields are numbers.
  std::uint64_t actions = 0;
  std::vector<std::uint64_t> seqs;
  copy(bytes, [&](const Record& record, std::vector<Value>& values) {
    if (record.event->category != EventClass::action) return;
    ++actions;
    if (!values.empty()) seqs.push_back(record.seq);
  });
  ASSERT_GT(actions, 20U);
  for (const std::uint64_t seq : seqs) {
    const ReplayResult result =
        replay_core(copy(bytes, [seq](const Record& record, std::vector<Value>& values) {
          if (record.seq == seq) values[0].number ^= 1;
        }));
    ASSERT_EQ(result.verdict, Verdict::diverged);
    ASSERT_EQ(result.divergence.seq, seq);
    ASSERT_NE(result.divergence.recorded, result.divergence.rerun);
  }
}

// Another seed changes the back-off jitter. The first delay that differs must be reported.
TEST(ReplayCore, DifferentConfigurationDivergesOrIsRefused) {
  CoreRun choice_log;
  choice_log.run();
  const ReplayResult result =
      replay_core(copy(choice_log.bytes(), [](const Record& record, std::vector<Value>& values) {
        if (record.event->id == kKindOf<BeginClient>) values[0].number = 43;
      }));
  ASSERT_EQ(result.verdict, Verdict::diverged);

  const ReplayResult refused =
      replay_core(copy(choice_log.bytes(), [](const Record& record, std::vector<Value>& values) {
        if (record.event->id == kKindOf<BeginClient>) values[1].number = 1;
      }));
  EXPECT_EQ(refused.verdict, Verdict::not_replayable);
  EXPECT_EQ(refused.why, "record 0 (BeginClient): config.con_num is out of range");
}

// The trace comes from a version without the configuration field `close_timeout`.
TEST(ReplayCore, StateHashesOfAnOlderVersionAreNotCompared) {
  CoreRun choice_log;
  choice_log.run();
  const std::string bytes = choice_log.bytes();
  MemorySource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Reader::Status::ok);
  Header older = reader.header();
  std::ptrdiff_t left_out = -1;
  for (EventInfo& event : older.schema.events) {
    if (event.id != kKindOf<BeginClient>) continue;
    const auto at = std::find_if(event.fields.begin(), event.fields.end(),
                                 [](const FieldInfo& field) { return field.name == "config.close_timeout"; });
    ASSERT_NE(at, event.fields.end());
    left_out = at - event.fields.begin();
    event.fields.erase(at);
  }
  std::string out;
  Writer writer(std::make_unique<StringSink>(out));
  ASSERT_EQ(writer.start(older), 0);
  for (Record record; reader.next(record) == Reader::Status::ok;) {
    std::vector<Value> values(record.values.begin(), record.values.end());
    if (record.event->id == kKindOf<BeginClient>) values.erase(values.begin() + left_out);
    ASSERT_EQ(
        writer.append_values(*older.schema.find(record.event->id), record.instance, record.time, values), 0);
  }
  ASSERT_EQ(writer.finish(), 0);
  const ReplayResult result = replay_core(out);
  EXPECT_EQ(result.verdict, Verdict::identical) << result.why << result.divergence.recorded;
  EXPECT_EQ(result.state_hashes, 0U);
  EXPECT_EQ(result.other_hashes, result.inputs);
  EXPECT_GT(result.actions, 20U);
}

TEST(ReplayCore, RingThatNeverWrappedReplaysIdentically) {
  CoreRun choice_log;
  choice_log.run();
  const std::string path = ::testing::TempDir() + "urtrs-replay-ring.rtrc";
  ASSERT_EQ(choice_log.dump(path), 0);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  FdSource source(fileno(file));
  const ReplayResult result = replay(source, core_machines());
  std::fclose(file);
  EXPECT_EQ(result.verdict, Verdict::identical) << result.why << result.divergence.recorded;
  EXPECT_TRUE(result.counts_only);
}

}  // namespace
}  // namespace rtrs::trace::test::replay_test
