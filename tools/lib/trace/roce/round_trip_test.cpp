// Tests the round trip of traces: traces of simulated worlds are converted to captures and back to traces.
// The messages of the clients must stay the same, whether the capture was made from the traces of the
// clients, of the servers, or of both.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <rapidcheck/gtest.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/record/schema.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "sim/world/world.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/roce/analyzer.hpp"
#include "tools/lib/trace/roce/clock_offsets.hpp"
#include "tools/lib/trace/roce/cm.hpp"
#include "tools/lib/trace/roce/recordings.hpp"
#include "tools/lib/trace/roce/synthesis.hpp"
#include "tools/lib/trace/roce/trace_import.hpp"

namespace rtrs::roce::round_trip_test {
namespace {

using trace::WireCmKind;
using trace::WireOp;

// A message or CM message, reduced to the fields that are compared.
struct Line {
  bool to_server = false;
  bool cm = false;
  WireCmKind kind = WireCmKind::req;
  WireOp op = WireOp::write;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Line&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Line& line) {
  out << (line.to_server ? "> " : "< ");
  if (line.cm) return out << trace::to_string(line.kind);
  return out << trace::to_string(line.op) << " imm " << line.imm << " key " << line.rkey << " at "
             << line.remote_addr << " length " << line.length << " head " << line.bytes.size();
}

// Name identifies a connection: its connect request, and its number among equal requests. Story contains the
// messages of each connection.
using Name = std::pair<std::vector<std::byte>, unsigned>;
using Story = std::map<Name, std::vector<Line>>;

struct Files {
  std::vector<std::string> clients;
  std::vector<std::string> servers;
};

Files play(const tools::ScratchFolder& folder, std::uint64_t seed) {
  // The conversion handles neither clocks of different rates, nor equal connect requests, nor violations.
  sim::FaultFilter filter;
  filter.calm = {sim::Label::clock_rate, sim::Label::rare_swarm};
  filter.off[static_cast<std::size_t>(sim::FaultClass::lie)] = true;
  filter.keys = true;
  sim::WorldOptions options;
  options.seed = seed;
  options.trace = folder / "world";
  options.filter = &filter;
  sim::run_seed(options);
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string path = entry.path().string();
    (path.find("server") != std::string::npos ? files.servers : files.clients).push_back(path);
  }
  return files;
}

void add(Recordings& recordings, trace::Source& source) {
  trace::Reader reader(source);
  ASSERT_EQ(reader.open(), trace::Reader::Status::ok);
  ASSERT_EQ(recordings.add(reader), trace::Reader::Status::end);
}

Recordings load(const std::vector<std::string>& paths) {
  Recordings recordings;
  for (const std::string& path : paths) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    trace::FdSource source(fd);
    add(recordings, source);
    ::close(fd);
  }
  recordings.join();
  return recordings;
}

Recordings load_text(const std::string& text) {
  Recordings recordings;
  trace::MemorySource source(text);
  add(recordings, source);
  recordings.join();
  return recordings;
}

// Returns the number of a half (connection end) among those with the same connect request. A server half gets
// the number of its client half, because a duplicated request gives the server more halves than the client.
unsigned number_of_half(const Recordings& recordings, const Half& half, unsigned seen) {
  if (half.client) return seen;
  constexpr unsigned kDoubled = 1000;
  const auto& halves = recordings.halves();
  const auto& connections = recordings.connections();
  const auto index = static_cast<std::uint32_t>(&half - halves.data());
  const auto ends = std::find_if(connections.begin(), connections.end(),
                                 [&](const ConnectionEnds& one) { return one.server == index; });
  const bool any_client =
      std::any_of(halves.begin(), halves.end(), [](const Half& one) { return one.client; });
  if (!any_client) return seen;
  if (ends == connections.end() || ends->client == ConnectionEnds::kNone) return kDoubled + seen;
  return static_cast<unsigned>(
      std::count_if(halves.begin(), halves.begin() + ends->client,
                    [&](const Half& one) { return one.client && one.request == half.request; }));
}

// Returns the messages in the halves of one side. Of the CM messages, only requests and replies are returned,
// because the traces of the two sides can differ in which side disconnects first.
Story told_by(const Recordings& recordings, bool client) {
  Story story;
  std::map<std::vector<std::byte>, unsigned> seen;
  std::vector<std::vector<Line>*> lines;
  for (const Half& half : recordings.halves()) {
    std::vector<std::byte> request = half.request;
    request.resize(wire::kConnReqBytes);
    const bool told = half.client == client && !half.request.empty();
    lines.push_back(told ? &story[Name(request, number_of_half(recordings, half, seen[request]))] : nullptr);
    if (told) ++seen[request];
  }
  for (const Recordings::Told& told : recordings.story()) {
    const StoredNote& note = *told.note;
    std::vector<Line>* to = lines[note.half];
    if (to == nullptr) continue;
    Line line;
    const bool sent = note.kind == StoredNote::Kind::cm ? note.cm_sent : note.kind == StoredNote::Kind::sent;
    line.to_server = sent == client;
    line.bytes = note.bytes;
    if (note.kind == StoredNote::Kind::cm) {
      if (note.cm == WireCmKind::dreq || note.cm == WireCmKind::closed) continue;
      line.cm = true;
      line.kind = note.cm;
      line.bytes.resize(wire::kConnReqBytes);
    } else {
      line.op = note.op;
      line.imm = note.imm;
      line.rkey = note.rkey;
      line.remote_addr = note.remote_addr;
      line.length = note.length;
    }
    to->push_back(line);
  }
  return story;
}

std::string exported_and_imported(const Recordings& recordings, std::uint32_t mtu,
                                  AnalyzerCounters& counters) {
  std::string text;
  trace::Writer writer(std::make_unique<trace::StringSink>(text));
  trace::Header header;
  header.schema = trace::builtin_schema();
  EXPECT_EQ(writer.start(header), 0);
  TraceImport import(writer, ImportOptions{});
  Analyzer* self = nullptr;
  Analyzer analyzer([&](const WireEvent& event) { import.on(*self, event); });
  self = &analyzer;
  Synthesis synthesis(recordings, SynthesisOptions{mtu, 1234}, [&](Nanos time, Bytes frame) {
    Packet packet;
    ASSERT_EQ(decode(link_ethernet, frame, frame.size(), packet), Decoded::packet);
    analyzer.packet(time, std::move(packet));
  });
  synthesis.run();
  analyzer.finish();
  EXPECT_EQ(import.error(), 0);
  EXPECT_EQ(writer.finish(), 0);
  counters = analyzer.counters();
  EXPECT_EQ(counters.bad_icrc, 0U);
  EXPECT_EQ(counters.gaps, 0U);
  EXPECT_EQ(counters.strangers, 0U);
  EXPECT_EQ(counters.retransmitted, 0U);
  return text;
}

// Returns only data writes, or everything else. A response that carries data counts as both.
std::vector<Line> only(const std::vector<Line>& lines, bool to_server, bool writes) {
  std::vector<Line> some;
  for (Line line : lines) {
    if (line.to_server != to_server) continue;
    const bool write = !line.cm && line.op == WireOp::write;
    const bool answer = !line.cm && !to_server && line.op == WireOp::write_imm;
    // The receiver does not notice an empty write, which is a liveness probe.
    if (write && line.length == 0) continue;
    if (writes ? !write && !(answer && line.length != 0) : write) continue;
    // The receiver of a response does not know address, key and length.
    if (answer && !writes) {
      line.rkey = line.length = 0;
      line.remote_addr = 0;
    }
    some.push_back(line);
  }
  return some;
}

std::vector<Line> without_cm(std::vector<Line> lines) {
  std::erase_if(lines, [](const Line& line) { return line.cm; });
  return lines;
}

bool is_prefix(const std::vector<Line>& part, const std::vector<Line>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

class RoundTrip : public ::testing::Test {};

void check_both(const Files& files, std::uint32_t mtu) {
  std::vector<std::string> all = files.clients;
  all.insert(all.end(), files.servers.begin(), files.servers.end());
  const Recordings recordings = load(all);
  RC_ASSERT(recordings.drifting() == 0U);
  AnalyzerCounters counters;
  const Story original = told_by(recordings, true);
  const Story servers = told_by(recordings, false);
  const Story back = told_by(load_text(exported_and_imported(recordings, mtu, counters)), true);
  // Duplicated connect requests and lost replies are in the capture, but not in the traces of the clients.
  RC_ASSERT(back.size() >= original.size());
  for (const auto& [name, lines] : original) {
    const std::vector<Line>& again = back.at(name);
    RC_ASSERT(only(again, true, false) == only(lines, true, false));
    RC_ASSERT(without_cm(only(again, false, false)) == without_cm(only(lines, false, false)));
    const auto server = servers.find(name);
    if (server == servers.end()) continue;
    // The data of reads must be a prefix of what servers wrote: unacknowledged data is not exported.
    std::vector<Line> data = only(again, false, true);
    std::vector<Line> wrote = only(server->second, false, true);
    for (Line& line : data) line.bytes.clear();
    for (Line& line : wrote) line.bytes.clear();
    RC_ASSERT(is_prefix(data, wrote));
  }
}

void check_client(const Files& files, std::uint32_t mtu) {
  const Recordings recordings = load(files.clients);
  AnalyzerCounters counters;
  const Story original = told_by(recordings, true);
  const Story back = told_by(load_text(exported_and_imported(recordings, mtu, counters)), true);
  RC_ASSERT(counters.unacknowledged == 0U);
  RC_ASSERT(back.size() == original.size());
  for (const auto& [name, lines] : original) {
    RC_ASSERT(only(back.at(name), true, false) == only(lines, true, false));
    RC_ASSERT(only(back.at(name), false, false) == only(lines, false, false));
  }
}

// Clears PREFLUSH. In some worlds the fabric sets this flag in writes, after the client has recorded them
// (sim/net/basic/preflush_fabric.hpp).
std::vector<Line> without_preflush(std::vector<Line> lines) {
  constexpr std::byte kPreflush{wire::rnbd::kRwPreflush >> 8};
  for (Line& line : lines)
    if (line.bytes.size() > 20 && line.bytes[0] == std::byte{4})
      line.bytes[17] &= ~kPreflush;  // a byte of the field `rw`, which begins at byte 16
  return lines;
}

// Removes the requests that the server received after their connection had ended. It does not read their
// content, so the export leaves them out.
std::vector<Line> without_unread(std::vector<Line> lines) {
  std::erase_if(lines, [](const Line& line) {
    return line.op == WireOp::write_imm && line.length == 0 &&
           wire::imm_type(line.imm) == wire::ImmType::io_req;
  });
  return lines;
}

// The export must reconstruct the addresses and keys of requests, which a server does not know.
void check_server(const Files& files, std::uint32_t mtu) {
  const Recordings recordings = load(files.servers);
  AnalyzerCounters counters;
  const Story original = told_by(recordings, false);
  const Story truth = told_by(load(files.clients), true);
  const Story back = told_by(load_text(exported_and_imported(recordings, mtu, counters)), true);
  RC_ASSERT(back.size() == original.size());
  for (const auto& [name, lines] : original) {
    const auto client = truth.find(name);
    if (client == truth.end()) continue;  // server end of a duplicated connect request
    const std::vector<Line> requests = without_preflush(only(back.at(name), true, false));
    RC_ASSERT(requests.size() == without_unread(only(lines, true, false)).size());
    RC_ASSERT(is_prefix(requests, without_preflush(only(client->second, true, false))));
    RC_ASSERT(is_prefix(only(back.at(name), false, false), only(lines, false, false)));
  }
}

using Frames = std::vector<std::pair<std::uint64_t, Packet>>;

Frames frames_of(const Recordings& recordings) {
  Frames frames;
  Synthesis synthesis(recordings, SynthesisOptions{1024, 1234}, [&](Nanos time, Bytes frame) {
    Packet packet;
    ASSERT_EQ(decode(link_ethernet, frame, frame.size(), packet), Decoded::packet);
    frames.emplace_back(static_cast<std::uint64_t>(time) + 1'000'000'000, std::move(packet));
  });
  synthesis.run();
  return frames;
}

// Returns the frames as they would be in a merged capture of two hosts whose clocks differ.
Frames with_server_clock_ahead(Frames frames, std::int64_t ahead) {
  std::set<Address> servers;
  for (const auto& [time, packet] : frames)
    if (packet.dest_qp == kCmQueuePair)
      if (const auto message = decode_cm(packet); message && message->attribute == CmAttribute::reply)
        servers.insert(packet.source);
  for (auto& [time, packet] : frames)
    if (servers.contains(packet.source)) time += static_cast<std::uint64_t>(ahead);
  std::stable_sort(frames.begin(), frames.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  return frames;
}

Story imported(const Frames& frames, AnalyzerCounters& counters) {
  std::string text;
  trace::Writer writer(std::make_unique<trace::StringSink>(text));
  trace::Header header;
  header.schema = trace::builtin_schema();
  EXPECT_EQ(writer.start(header), 0);
  TraceImport import(writer, ImportOptions{});
  Analyzer* self = nullptr;
  Analyzer analyzer([&](const WireEvent& event) { import.on(*self, event); });
  self = &analyzer;
  ClockOffsets clocks;
  for (const auto& [time, packet] : frames) clocks.look(time, packet);
  clocks.finish();
  FrameOrder order(static_cast<std::uint64_t>(std::abs(clocks.largest())));
  const auto take = [&](std::uint64_t time, Packet&& packet) { analyzer.packet(time, std::move(packet)); };
  for (const auto& [time, packet] : frames)
    order.add(time + static_cast<std::uint64_t>(clocks.correction(packet)), Packet(packet), take);
  order.finish(take);
  analyzer.finish();
  EXPECT_EQ(writer.finish(), 0);
  counters = analyzer.counters();
  return told_by(load_text(text), true);
}

TEST_F(RoundTrip, ServerClockOffsetDoesNotChangeTheMessages) {
  for (const std::uint64_t seed : {3U, 5U, 14U}) {
    const tools::ScratchFolder folder;
    const Files files = play(folder, seed);
    std::vector<std::string> all = files.clients;
    all.insert(all.end(), files.servers.begin(), files.servers.end());
    const Frames frames = frames_of(load(all));
    AnalyzerCounters plain;
    const Story original = imported(frames, plain);
    for (const std::int64_t ahead : {3'000'000, -3'000'000, 90'000'000, -90'000'000}) {
      SCOPED_TRACE(std::to_string(seed) + ", ahead by " + std::to_string(ahead));
      AnalyzerCounters shifted;
      const Story back = imported(with_server_clock_ahead(frames, ahead), shifted);
      EXPECT_EQ(shifted.gaps, plain.gaps);
      EXPECT_EQ(shifted.lost_packets, plain.lost_packets);
      EXPECT_EQ(shifted.unacknowledged, plain.unacknowledged);
      ASSERT_EQ(back.size(), original.size());
      for (const auto& [name, lines] : original) {
        EXPECT_EQ(only(back.at(name), true, false), only(lines, true, false));
        EXPECT_EQ(only(back.at(name), false, false), only(lines, false, false));
      }
    }
  }
}

// In these worlds the network duplicates a connect request, and the server accepts both copies.
TEST_F(RoundTrip, DuplicatedConnectRequestIsPairedByItsMessages) {
  for (const std::uint64_t seed : {82612U, 8988U}) {
    SCOPED_TRACE(seed);
    const tools::ScratchFolder folder;
    const Files files = play(folder, seed);
    EXPECT_NO_THROW(check_both(files, 1024));
    EXPECT_NO_THROW(check_client(files, 1024));
    EXPECT_NO_THROW(check_server(files, 1024));
  }
}

TEST_F(RoundTrip, RequestThatTheServerDidNotReadIsLeftOut) {
  const tools::ScratchFolder folder;
  EXPECT_NO_THROW(check_server(play(folder, 6847), 1024));
}

// A client sleeps while heartbeats arrive and the server disconnects.
TEST_F(RoundTrip, MessagesRecordedAfterTheDisconnectArrivedBefore) {
  for (const std::uint64_t seed : {9727U, 19734U}) {
    const tools::ScratchFolder folder;
    EXPECT_NO_THROW(check_both(play(folder, seed), 1024)) << seed;
  }
}

TEST_F(RoundTrip, InvalidationWithoutResponseIsExported) {
  const tools::ScratchFolder folder;
  EXPECT_NO_THROW(check_client(play(folder, 47914), 4096));
}

// The connection never ends. One of its last messages is older than Analyzer::kPatience, one is younger.
TEST_F(RoundTrip, OldMessagesOfASilentServerAreAcknowledged) {
  const tools::ScratchFolder folder;
  EXPECT_NO_THROW(check_server(play(folder, 25388), 256));
}

RC_GTEST_FIXTURE_PROP(RoundTrip, EventsOfSimulatedWorldsRoundTrip, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 100'000);
  const auto mtu = *rc::gen::element<std::uint32_t>(256, 1024, 4096);
  const tools::ScratchFolder folder;
  const Files files = play(folder, seed);
  RC_LOG() << "seed " << seed << " mtu " << mtu;
  RC_ASSERT(!files.clients.empty() && !files.servers.empty());
  const int side = *rc::gen::inRange(0, 3);
  if (side == 0) check_both(files, mtu);
  if (side == 1) check_client(files, mtu);
  if (side == 2) check_server(files, mtu);
}

}  // namespace
}  // namespace rtrs::roce::round_trip_test
