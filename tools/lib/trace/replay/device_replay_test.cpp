// Tests recording and replaying the RNBD device state machine of a client.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <type_traits>

#include "core/record/recorder.hpp"
#include "core/rnbd/test_client.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace::test::device_replay_test {
namespace {

constexpr InstanceId kDevices = 7;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

ReplayResult replayed_bytes(const std::string& bytes) {
  MemorySource source(bytes);
  ReplayOptions options;
  options.blank = blank_core_machines();
  return replay(source, core_machines(), options);
}

// A client device state machine that is recorded in the same way as in BlockClient.
class RecordedDevices {
 public:
  explicit RecordedDevices(Recorder& recorder) : recorder_(recorder) {
    recorder_.begin(kDevices, BeginClientDevices{now_});
    recorder_.watch(kDevices, MachineKind::client_devices, machine);
  }
  ~RecordedDevices() { recorder_.forget(kDevices, &machine); }
  RecordedDevices(const RecordedDevices&) = delete;
  RecordedDevices& operator=(const RecordedDevices&) = delete;

  template <class Input>
  auto step(Input input) {
    input.now = ++now_;
    recorder_.input(kDevices, recorded(input));
    actions.clear();
    if constexpr (std::is_void_v<decltype(machine.on(input, actions))>) {
      machine.on(input, actions);
      recorder_.device_actions(kDevices, actions);
    } else {
      const auto outcome = machine.on(input, actions);
      recorder_.device_actions(kDevices, actions, outcome);
      return outcome;
    }
  }
  rnbd::IoTicket begin_io(rnbd::DeviceHandle device, rnbd::IoNature nature) {
    const rnbd::IoBegun begun{device, nature, machine.arrive(device), ++now_};
    recorder_.input(kDevices, begun);
    const rnbd::IoStart start = machine.begin_io(begun);
    recorder_.device_actions(kDevices, std::span<const rnbd::ClientAction>(), start);
    return start.ticket;
  }
  std::uint64_t token() const { return std::get<rnbd::SendMessage>(actions[actions.size() - 1]).token; }
  void answer_info() {
    std::array<std::byte, wire::rnbd::kSessInfoRspBytes> response{};
    ASSERT_NE(encode(wire::rnbd::SessInfoRsp{2}, response), 0U);
    step(rnbd::MessageDone{token(), true, 0, response});
  }
  void answer_open(std::uint32_t id, std::uint64_t instance = 1) {
    std::array<std::byte, wire::rnbd::kOpenRspBytes> response{};
    ASSERT_NE(encode(rnbd::test::disk(id, 1024, instance), response), 0U);
    step(rnbd::MessageDone{token(), true, 0, response});
  }

  rnbd::ClientDevices machine;
  rnbd::ClientActions actions;

 private:
  Recorder& recorder_;
  Nanos now_ = 100;
};

constexpr rnbd::IoNature kWrite{true, false, false};
constexpr rnbd::IoNature kFlush{false, false, true};

// Feeds each kind of input at least once, including invalid names and a server restart that loses the cache.
void feed_all_inputs(RecordedDevices& devices) {
  EXPECT_EQ(devices.step(rnbd::MapRequested{"", wire::rnbd::AccessMode::read_only}).error, 22);
  EXPECT_NE(devices.step(rnbd::MapRequested{std::string_view("a\0b", 3), {}}).error, 0);
  EXPECT_NE(devices.step(rnbd::MapRequested{std::string(300, 'n'), {}}).error, 0);
  const auto disk =
      devices.step(rnbd::MapRequested{"sh\\elf/\xff\x1b", wire::rnbd::AccessMode::read_write}).device;
  devices.step(rnbd::LinkUp{true});
  devices.answer_info();
  devices.answer_open(5);
  ASSERT_EQ(devices.machine.state(disk), rnbd::DeviceState::open);
  for (unsigned i = 0; i < 3; ++i)
    EXPECT_EQ(devices.step(rnbd::IoDone{disk, true, 0, devices.begin_io(disk, kWrite)}),
              rnbd::Disposition::ok);
  const rnbd::IoTicket held = devices.begin_io(disk, kWrite);
  devices.step(rnbd::LinkDown{});
  devices.step(rnbd::LinkUp{true});
  EXPECT_EQ(devices.step(rnbd::IoDone{disk, true, 107, held}), rnbd::Disposition::retry_after_remap);
  devices.step(rnbd::MessageDone{devices.token(), false, 0, {}});
  devices.step(rnbd::RetryDue{});
  devices.answer_info();
  devices.answer_open(6, 2);
  EXPECT_EQ(devices.step(rnbd::IoDone{disk, true, 0, devices.begin_io(disk, kFlush)}),
            rnbd::Disposition::lost);
  devices.step(rnbd::LinkUp{true});
  devices.answer_info();
  devices.step(rnbd::MessageDone{devices.token(), true, 2, {}});
  devices.step(rnbd::ReopenDue{});
  devices.step(rnbd::MessageDone{devices.token(), true, 2, {}});
  devices.step(rnbd::RemapRequested{disk});
  devices.answer_open(7, 2);
  devices.step(rnbd::ResizeRequested{disk, 64});
  devices.step(rnbd::UnmapRequested{disk});
  devices.step(rnbd::MessageDone{devices.token(), true, 0, {}});
  EXPECT_EQ(devices.machine.mapped_count(), 0U);
}

class DeviceReplay : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  // Returns a complete trace with a state hash after each input.
  std::string story() const {
    Recorder recorder;
    EXPECT_EQ(recorder.open_file(path("t").c_str(), {}, {Detail::machines, 1}), 0);
    RecordedDevices devices(recorder);
    feed_all_inputs(devices);
    EXPECT_EQ(recorder.close_file(), 0);
    return bytes_of(path("t"));
  }
  // Changes to a trace: record `left_out` is removed, and `change` is called with field `field` of record
  // `changed`.
  struct TraceEdit {
    std::uint64_t left_out = kNever;
    std::uint64_t changed = kNever;
    std::size_t field = 0;
    std::function<void(Value&)> change = [](Value& value) { value.number ^= 1; };
  };
  static std::string edited_trace(const std::string& trace, const TraceEdit& how) {
    MemorySource source(trace);
    Reader reader(source);
    EXPECT_EQ(reader.open(), Reader::Status::ok);
    std::string copy;
    Writer writer(std::make_unique<StringSink>(copy));
    EXPECT_EQ(writer.start(reader.header()), 0);
    Record record;
    while (reader.next(record) == Reader::Status::ok) {
      if (record.seq == how.left_out) continue;
      std::vector<Value> values(record.values.begin(), record.values.end());
      if (record.seq == how.changed) how.change(values[how.field]);
      EXPECT_EQ(writer.append_values(*record.event, record.instance, record.time, values), 0);
    }
    EXPECT_EQ(writer.finish(), 0);
    return copy;
  }
  template <class Visit>
  static void each_record(const std::string& trace, Visit&& visit) {
    MemorySource source(trace);
    Reader reader(source);
    EXPECT_EQ(reader.open(), Reader::Status::ok);
    Record record;
    while (reader.next(record) == Reader::Status::ok) visit(record, reader.header().schema);
  }
  // Returns the number of the last record whose text contains `part`.
  static std::uint64_t last_with(const std::string& trace, const std::string& part) {
    std::uint64_t found = kNever;
    each_record(trace, [&](const Record& record, const Schema& schema) {
      if (record_text(record, schema).find(part) != std::string::npos) found = record.seq;
    });
    EXPECT_NE(found, kNever) << part;
    return found;
  }

 private:
  const tools::ScratchFolder folder_;
};

TEST_F(DeviceReplay, ReplayGivesTheSameStatesAndActions) {
  const ReplayResult result = replayed_bytes(story());
  ASSERT_EQ(result.verdict, Verdict::identical) << result.why << result.divergence.rerun;
  EXPECT_EQ(result.machines, 1U);
  EXPECT_EQ(result.state_hashes, result.inputs);
  EXPECT_GT(result.actions, 30U);
}

TEST_F(DeviceReplay, StoryCoversEveryKindOfInputAndAction) {
  std::set<KindId> seen;
  each_record(story(), [&](const Record& record, const Schema&) { seen.insert(record.event->id); });
#define RTRS_TRACE_SEEN(number, event_class, type) EXPECT_TRUE(seen.contains(number)) << #type;
  RTRS_TRACE_CLIENT_DEVICES(RTRS_TRACE_SEEN)
#undef RTRS_TRACE_SEEN
}

TEST_F(DeviceReplay, RecordsAsText) {
  const std::string trace = story();
  last_with(trace, "> MapRequested             mode=rw name=\"sh\\\\\\\\elf/\\\\xff\\x1b\"");
  last_with(trace, "< SendMessage            token=2 kind=open direction=read response_length=56 header=02");
  last_with(trace, "< DeviceChanged          device=0 state=open peer_errno=0 geometry.nsectors=1024");
  last_with(trace, "> IoDone                   arrival.flush_told=0");
  last_with(trace, "< IoJudged               disposition=retry_after_remap");
}

// Dumps a ring in which inputs take several slots and each input is followed by the number of its actions.
TEST_F(DeviceReplay, RingDumpReplaysIdentically) {
  Recorder recorder;
  RecordedDevices devices(recorder);
  feed_all_inputs(devices);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), {}), 0);
  const ReplayResult result = replayed_bytes(bytes_of(path("ring")));
  ASSERT_EQ(result.verdict, Verdict::identical) << result.why << result.divergence.rerun;
  EXPECT_TRUE(result.counts_only);
  EXPECT_EQ(result.actions, replayed_bytes(story()).actions);
}

TEST_F(DeviceReplay, WrappedRingAndLateFileBeginWithASnapshot) {
  Recorder recorder(64);
  RecordedDevices devices(recorder);
  const auto disk = devices.step(rnbd::MapRequested{"disk", wire::rnbd::AccessMode::read_write}).device;
  devices.step(rnbd::LinkUp{true});
  devices.answer_info();
  devices.answer_open(5);
  const auto write = [&](unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      devices.step(rnbd::IoDone{disk, true, 0, devices.begin_io(disk, kWrite)});
  };
  write(300);
  ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), {}), 0);
  ASSERT_EQ(recorder.open_file(path("late").c_str(), {}, {Detail::machines, 1}), 0);
  write(5);
  ASSERT_EQ(recorder.close_file(), 0);
  for (const char* name : {"ring", "late"}) {
    const ReplayResult result = replayed_bytes(bytes_of(path(name)));
    EXPECT_EQ(result.verdict, Verdict::identical) << name << result.why << result.divergence.rerun;
    EXPECT_GE(result.snapshots, 1U) << name;
    EXPECT_GE(result.inputs, 10U) << name;
  }
}

TEST_F(DeviceReplay, InvalidStateIsRefused) {
  rnbd::test::Client client;
  client.begin(client.opened("disk", 5));
  const auto machine = blank_core_machines()(MachineKind::client_devices);
  std::string bytes(state::bound(client.devices), 0);
  auto* const begin = reinterpret_cast<std::uint8_t*>(bytes.data());
  bytes.resize(static_cast<std::size_t>(state::save(begin, client.devices) - begin));
  EXPECT_EQ(machine->load(bytes, state_layout(client.devices)), nullptr);
  unsigned refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ 1);
    if (machine->load(other, state_layout(client.devices)) != nullptr) ++refused;
  }
  EXPECT_GT(refused, 10U);
}

// Changes one field of an action. The replay must report a divergence at that record.
TEST_F(DeviceReplay, ChangedFieldOfAnActionIsADivergence) {
  const std::string trace = story();
  unsigned changed = 0;
  each_record(trace, [&](const Record& record, const Schema&) {
    if (record.event->category != EventClass::action) return;
    for (std::size_t field = 0; field < record.values.size(); ++field) {
      const bool bytes = record.event->fields[field].type == FieldType::bytes;
      const auto change = [bytes](Value& value) {
        if (bytes)
          value.bytes.remove_suffix(1);
        else
          value.number ^= 1;
      };
      const ReplayResult result = replayed_bytes(edited_trace(trace, {kNever, record.seq, field, change}));
      EXPECT_EQ(result.verdict, Verdict::diverged) << record.seq << ' ' << field;
      EXPECT_EQ(result.divergence.seq, record.seq) << field;
      ++changed;
    }
  });
  EXPECT_GT(changed, 100U);
}

// Changes an input: an id in an OPEN_RSP, a name, an errno. The replay must report the change, because the
// state machine reacts differently.
TEST_F(DeviceReplay, ChangedInputIsADivergence) {
  const std::string trace = story();
  const auto found = [&](const std::string& record, std::size_t field, std::function<void(Value&)> change) {
    const std::uint64_t seq = last_with(trace, record);
    const ReplayResult result = replayed_bytes(edited_trace(trace, {kNever, seq, field, std::move(change)}));
    EXPECT_EQ(result.verdict, Verdict::diverged) << record;
    EXPECT_EQ(result.divergence.input_seq, seq) << record;
  };
  const auto flip = [](Value& value) { value.number ^= 1; };
  std::string other;
  found("MessageDone              token=2", 3, [&other](Value& value) {
    other = value.bytes;
    other[4] ^= 1;
    value.bytes = other;
  });
  found("name=\"sh", 1, [](Value& value) { value.bytes.remove_prefix(1); });
  found("peer_errno=107", 6, flip);
  found("LinkUp                   extended=true", 0, flip);
}

// Removes the OPEN after a reconnect, as if the state machine had forgotten it. The first input that is
// different must be reported.
TEST_F(DeviceReplay, MissingReopenIsADivergence) {
  const std::string trace = story();
  std::vector<std::uint64_t> opens;
  std::uint64_t input = 0;
  std::vector<std::uint64_t> inputs;
  each_record(trace, [&](const Record& record, const Schema& schema) {
    if (record.event->category == EventClass::input) input = record.seq;
    if (record_text(record, schema).find("kind=open") == std::string::npos) return;
    opens.push_back(record.seq);
    inputs.push_back(input);
  });
  ASSERT_GE(opens.size(), 3U);
  const ReplayResult result = replayed_bytes(edited_trace(trace, {opens[1]}));
  EXPECT_EQ(result.verdict, Verdict::diverged);
  EXPECT_EQ(result.divergence.input_seq, inputs[1]);
  EXPECT_EQ(result.divergence.recorded, "no further action");
  EXPECT_EQ(result.divergence.rerun.rfind("SendMessage token=", 0), 0U) << result.divergence.rerun;
}

}  // namespace
}  // namespace rtrs::trace::test::device_replay_test
