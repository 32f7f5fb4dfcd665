// Tests recording and replaying the RNBD device state machine of a server session.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/record/recorder.hpp"
#include "core/rnbd/test_server_session.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace::test::server_device_replay_test {
namespace {

constexpr InstanceId kOfServer = kServerDevices + 1;
constexpr rnbd::ServerOptions kOptions{77, 1000};

// A server device state machine that is recorded in the same way as in BlockServer.
class RecordedServer {
 public:
  explicit RecordedServer(Recorder& recorder) : machine(kOptions), recorder_(recorder) {
    recorder_.begin(kOfServer, BeginServerDevices{now_, 0, kOptions});
    recorder_.watch(kOfServer, MachineKind::server_devices, machine);
  }
  ~RecordedServer() { recorder_.forget(kOfServer, &machine); }
  RecordedServer(const RecordedServer&) = delete;
  RecordedServer& operator=(const RecordedServer&) = delete;

  template <class Input>
  void step(Input input) {
    input.now = ++now_;
    recorder_.input(kOfServer, input);
    actions.clear();
    machine.on(input, actions);
    recorder_.device_actions(kOfServer, actions);
  }
  void request(Direction direction, std::uint32_t data_len, wire::Bytes header) {
    step(rnbd::DeviceRequest{++last_request_, data_len, direction, header});
  }
  void io(wire::rnbd::Opcode opcode, std::uint64_t sector = 0, std::size_t padding = 0) {
    wire::rnbd::Io message;
    message.device_id = machine.begin()->id;
    message.opcode = opcode;
    message.sector = sector;
    message.size = opcode == wire::rnbd::Opcode::flush ? 0 : 4096;
    const auto framing = io_framing(message);
    auto header = rnbd::test::encoded(message);
    header.resize(header.size() + padding, std::byte{7});
    request(framing.direction, framing.data_len, header);
  }
  template <class Action>
  const Action& last() const {
    for (std::size_t at = actions.size(); at-- > 0;)
      if (const auto* one = std::get_if<Action>(&actions[at])) return *one;
    throw std::runtime_error("no such action");
  }

  rnbd::ServerDevices machine;
  rnbd::ServerActions actions;

 private:
  Recorder& recorder_;
  Nanos now_ = 100;
  std::uint64_t last_request_ = 0;
};

// Causes each kind of input and action at least once.
void feed_all_inputs(RecordedServer& server) {
  rnbd::Geometry geometry;
  geometry.nsectors = 1024;
  server.request(Direction::read, wire::rnbd::kSessInfoRspBytes,
                 rnbd::test::encoded(wire::rnbd::SessInfo{2}));
  server.request(Direction::read, 56,
                 rnbd::test::open_message("shelf\\one\xff", wire::rnbd::AccessMode::read_write));
  server.step(rnbd::ExportOpened{server.last<rnbd::OpenExport>().operation, 0, 9, geometry, 4});
  server.io(wire::rnbd::Opcode::write);
  server.step(rnbd::StorageDone{server.last<rnbd::Storage>().operation, 0, false});
  // The header is longer than the message in it.
  server.io(wire::rnbd::Opcode::read, 0, 200);
  server.step(rnbd::StorageDone{server.last<rnbd::Storage>().operation, 5, false});
  server.step(rnbd::ExportMeasured{server.last<rnbd::MeasureExport>().operation, 512});
  server.io(wire::rnbd::Opcode::read, 512);
  server.step(rnbd::ExportMeasured{server.last<rnbd::MeasureExport>().operation, 2048});
  server.step(rnbd::StorageDone{server.last<rnbd::Storage>().operation, 0, false});
  server.io(wire::rnbd::Opcode::flush);
  server.step(rnbd::StorageDone{server.last<rnbd::Storage>().operation, 28, true});
  server.step(rnbd::SyncFailed{9, 5});
  server.step(rnbd::DeviceForceClosed{server.machine.begin()->id});
  server.request(Direction::write, 0, rnbd::test::encoded(wire::rnbd::Close{server.machine.begin()->id}));
  const std::byte nonsense[3]{};
  server.request(Direction::write, 0, nonsense);
  server.step(rnbd::SessionClosed{});
  EXPECT_EQ(server.machine.broken_invariant(), nullptr);
}

class ServerDeviceReplay : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string bytes_of(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  static ReplayResult replayed(const std::string& bytes) {
    MemorySource source(bytes);
    ReplayOptions options;
    options.blank = blank_core_machines();
    return replay(source, core_machines(), options);
  }
  std::string story() const {
    Recorder recorder;
    EXPECT_EQ(recorder.open_file(path("t").c_str(), {}, {Detail::machines, 1}), 0);
    RecordedServer server(recorder);
    feed_all_inputs(server);
    EXPECT_EQ(recorder.close_file(), 0);
    return bytes_of("t");
  }
  // Copies a trace; visit(record, values) can change the values of each record.
  template <class Visit>
  static std::string copied(const std::string& trace, Visit&& visit) {
    MemorySource source(trace);
    Reader reader(source);
    EXPECT_EQ(reader.open(), Reader::Status::ok);
    std::string copy;
    Writer writer(std::make_unique<StringSink>(copy));
    EXPECT_EQ(writer.start(reader.header()), 0);
    Record record;
    while (reader.next(record) == Reader::Status::ok) {
      std::vector<Value> values(record.values.begin(), record.values.end());
      visit(record, values);
      EXPECT_EQ(writer.append_values(*record.event, record.instance, record.time, values), 0);
    }
    EXPECT_EQ(writer.finish(), 0);
    return copy;
  }

 private:
  const tools::ScratchFolder folder_;
};

TEST_F(ServerDeviceReplay, ReplayGivesTheSameStatesAndActions) {
  const ReplayResult result = replayed(story());
  ASSERT_EQ(result.verdict, Verdict::identical) << result.why << result.divergence.rerun;
  EXPECT_EQ(result.machines, 1U);
  EXPECT_EQ(result.state_hashes, result.inputs);
}

TEST_F(ServerDeviceReplay, StoryCoversEveryKindAndHasItAsText) {
  std::set<KindId> seen;
  std::string text;
  copied(story(), [&](const Record& record, const std::vector<Value>&) {
    seen.insert(record.event->id);
    text += record_text(record, builtin_schema()) + '\n';
  });
#define RTRS_TRACE_SEEN(number, event_class, type) EXPECT_TRUE(seen.contains(number)) << #type;
  RTRS_TRACE_SERVER_DEVICES(RTRS_TRACE_SEEN)
#undef RTRS_TRACE_SEEN
  EXPECT_NE(text.find("request=2 operation=0 mode=rw name=\"shelf"), text.npos) << text;
  EXPECT_NE(text.find("operation=0 error=28 sync_failed=true"), text.npos) << text;
  EXPECT_NE(text.find("opcode=write fua=false"), text.npos) << text;
}

TEST_F(ServerDeviceReplay, RingDumpAndLateFileReplayIdentically) {
  Recorder recorder;
  {
    RecordedServer server(recorder);
    feed_all_inputs(server);
    ASSERT_EQ(recorder.dump_ring(path("ring").c_str(), {}), 0);
    ASSERT_EQ(recorder.open_file(path("late").c_str(), {}, {Detail::machines, 1}), 0);
    server.step(rnbd::SyncFailed{1, 5});
    ASSERT_EQ(recorder.close_file(), 0);
  }
  const ReplayResult ring = replayed(bytes_of("ring"));
  EXPECT_EQ(ring.verdict, Verdict::identical) << ring.why << ring.divergence.rerun;
  EXPECT_EQ(ring.actions, replayed(story()).actions);
  const ReplayResult late = replayed(bytes_of("late"));
  EXPECT_EQ(late.verdict, Verdict::identical) << late.why << late.divergence.rerun;
  EXPECT_EQ(late.snapshots, 1U);
}

TEST_F(ServerDeviceReplay, ChangedFieldOfAnActionIsADivergence) {
  const std::string trace = story();
  std::vector<std::pair<std::uint64_t, std::size_t>> fields;
  copied(trace, [&](const Record& record, const std::vector<Value>& values) {
    for (std::size_t at = 0; at < values.size(); ++at)
      if (record.event->category == EventClass::action) fields.emplace_back(record.seq, at);
  });
  EXPECT_GT(fields.size(), 60U);
  for (const auto& [seq, field] : fields) {
    const std::string other = copied(trace, [&, s = seq, f = field](const Record& record, auto& values) {
      const FieldType type = s == record.seq ? record.event->fields[f].type : FieldType::uuid;
      if (type == FieldType::bytes || type == FieldType::text)
        values[f].bytes.remove_suffix(1);
      else if (s == record.seq)
        values[f].number ^= 1;
    });
    const ReplayResult result = replayed(other);
    EXPECT_EQ(result.verdict, Verdict::diverged) << seq << ' ' << field;
    EXPECT_EQ(result.divergence.seq, seq) << field;
  }
}

// Changes an input: a byte in a request header, a storage error, or a result that the state machine does not
// wait for. The replay must report each change.
TEST_F(ServerDeviceReplay, ChangedInputIsADivergence) {
  const std::string trace = story();
  const auto changed = [&](std::string_view event, std::size_t field, std::size_t byte) {
    std::string bytes;
    std::uint64_t seq = kNever;
    const std::string other = copied(trace, [&](const Record& record, std::vector<Value>& values) {
      if (record.event->name != event || seq != kNever) return;
      seq = record.seq;
      values[field].number ^= 1;
      if (record.event->fields[field].type != FieldType::bytes) return;
      bytes = values[field].bytes;
      bytes[byte] ^= 1;
      values[field].bytes = bytes;
    });
    const ReplayResult result = replayed(other);
    EXPECT_EQ(result.verdict, Verdict::diverged) << event;
    EXPECT_EQ(result.divergence.input_seq, seq) << event;
  };
  changed("LongDeviceRequest", 3, 0);
  changed("DeviceRequest", 1, 0);
  changed("ExportOpened", 3, 0);
  changed("StorageDone", 0, 0);
  changed("StorageDone", 1, 0);
  changed("DeviceForceClosed", 0, 0);
}

TEST_F(ServerDeviceReplay, InvalidStateIsRefused) {
  rnbd::test::Session session;
  session.io(session.opened("disk"), wire::rnbd::Opcode::write);
  const auto machine = blank_core_machines()(MachineKind::server_devices);
  std::string bytes(state::bound(session.devices), 0);
  auto* const begin = reinterpret_cast<std::uint8_t*>(bytes.data());
  bytes.resize(static_cast<std::size_t>(state::save(begin, session.devices) - begin));
  EXPECT_EQ(machine->load(bytes, state_layout(session.devices)), nullptr);
  unsigned refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ 1);
    if (machine->load(other, state_layout(session.devices)) != nullptr) ++refused;
  }
  EXPECT_GT(refused, 10U);
}

}  // namespace
}  // namespace rtrs::trace::test::server_device_replay_test
