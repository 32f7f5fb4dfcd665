// Tests the round trip of traces: traces of simulated worlds are converted to captures and back to traces.
// The messages of the clients must stay the same, whether the capture was made from the traces of the
// clients, of the servers, or of both.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/record/schema.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/roce/analyzer.hpp"
#include "tools/lib/trace/roce/clock_offsets.hpp"
#include "tools/lib/trace/roce/cm.hpp"
#include "tools/lib/trace/roce/recordings.hpp"
#include "tools/lib/trace/roce/synthesis.hpp"
#include "tools/lib/trace/roce/test_story.hpp"
#include "tools/lib/trace/roce/trace_import.hpp"

namespace rtrs::roce::round_trip_test {
namespace {

using namespace test;

std::string exported_and_imported(const Recordings& recordings, std::uint32_t mtu,
                                  AnalyzerCounters& counters) {
  std::string text;
  trace::Writer writer(std::make_unique<trace::StringSink>(text));
  trace::Header header;
  header.schema = trace::builtin_schema();
  EXPECT_EQ(writer.start(header), 0);
  TraceImport import(writer, ImportOptions{});
  Analyzer analyzer([&](const WireEvent& event) { import.on(event); });
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
  Analyzer analyzer([&](const WireEvent& event) { import.on(event); });
  ClockOffsets clocks;
  for (const auto& [time, packet] : frames) clocks.look(time, packet);
  clocks.finish();
  FrameOrder<Packet> order(static_cast<std::uint64_t>(std::abs(clocks.largest())));
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
