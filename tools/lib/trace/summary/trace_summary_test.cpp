// Tests with recorded steps of a client what its summary names.
#include "tools/lib/trace/summary/trace_summary.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "core/record/recorder.hpp"
#include "core/wire/imm.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::trace::trace_summary_test {
namespace {

constexpr std::uint32_t kDepth = 8;

// A client with two paths that are connected at 4 ms.
class Client {
 public:
  Client() {
    recorder.open_file(file.c_str(), {"test", "client", "wires", 0, {}});
    recorder.begin(0, 0, MachineKind::client_session, ClientConfig{});
    for (std::uint16_t path : {std::uint16_t{0}, std::uint16_t{1}}) {
      step(PathAdded{10, path}, PathChanged{path, PathState::connecting, Reason::none, 0, 1, 0});
      step(InfoAccepted{milliseconds(4), key(path)},
           PathChanged{path, PathState::connected, Reason::none, 0, 0, 0});
    }
  }
  ~Client() { std::remove(file.c_str()); }

  static ConKey key(std::uint16_t path) { return {path, 0, 1}; }
  template <class Input, class... Actions>
  void step(const Input& input, const Actions&... actions) {
    recorder.input(0, input);
    ClientActions list;
    (list.push(actions), ...);
    recorder.actions(0, list);
  }
  void submit(Nanos now, std::uint16_t permit, std::uint16_t path) {
    step(Submitted{now, permit, Direction::write, false, false, 0, 4096, 24},
         PostRequest{key(path), wire::encode_io_req(kDepth, permit, 4096), permit, 0, false, 0});
  }
  void complete(Nanos now, std::uint16_t permit, std::uint16_t path, Errc result = Errc::ok) {
    step(ImmReceived{now, key(path), wire::encode_io_rsp(wire::ImmType::io_rsp, permit, 0)},
         Complete{permit, result, 0});
  }
  // Ends the trace and reads it.
  const TraceSummary& summary() {
    EXPECT_EQ(recorder.close_file(), 0);
    FILE* const stream = std::fopen(file.c_str(), "rb");
    FdSource source(::fileno(stream));
    Reader reader(source);
    EXPECT_EQ(reader.open(), Reader::Status::ok);
    TraceSummary& summary = run.begin_trace(reader.header());
    Record record;
    while (reader.next(record) == Reader::Status::ok) summary.add(record);
    summary.finish();
    std::fclose(stream);
    return summary;
  }

  std::string file = testing::TempDir() + "summary-" + std::to_string(::getpid()) + ".rtrc";
  Recorder recorder{64};
  RunSummary run;
};

TEST(TraceSummary, LostPathHasCauseEndAndFailovers) {
  Client client;
  client.submit(milliseconds(5), 3, 0);
  client.step(ConnectionLost{seconds(1), Client::key(0), Reason::heartbeat_lost},
              PathChanged{0, PathState::draining, Reason::heartbeat_lost, 0, 0, 0});
  client.step(ConnectionClosed{seconds(1) + 1, Client::key(0)},
              PathChanged{0, PathState::waiting, Reason::heartbeat_lost, 0, 0, 0}, FailedOver{3, 0, 1, true});
  client.step(ConnectFailed{seconds(2), Client::key(0), Reason::connect_timeout, 0});
  client.complete(seconds(3), 3, 1);
  client.step(InfoAccepted{seconds(12), Client::key(0)},
              PathChanged{0, PathState::connected, Reason::none, 0, 0, 0});
  const TraceSummary& summary = client.summary();
  ASSERT_EQ(summary.path_losses().count(), 1U);
  const PathLoss& loss = summary.path_losses().kept().front();
  EXPECT_EQ(loss.path, 0);
  EXPECT_EQ(loss.reason, "heartbeat_lost");
  EXPECT_EQ(loss.from.time, seconds(1));
  ASSERT_TRUE(loss.to);
  EXPECT_EQ(loss.to->time, seconds(12));
  EXPECT_EQ(loss.attempts, 1U);
  EXPECT_EQ(loss.failovers, 1U);
  ASSERT_TRUE(summary.clients().slowest);
  EXPECT_EQ(summary.clients().slowest->took, seconds(3) - milliseconds(5));
  EXPECT_EQ(summary.clients().completed, 1U);
  EXPECT_EQ(summary.servers().completed, 0U);
  EXPECT_EQ(summary.clients().paths.size(), 2U);
  EXPECT_TRUE(client.run.hangs.unanswered().empty());
}

TEST(TraceSummary, NoPathFailedRequestsAndBrokenSession) {
  Client client;
  client.submit(milliseconds(5), 3, 0);
  client.step(PathDisconnectRequested{seconds(1), 0},
              PathChanged{0, PathState::draining, Reason::requested, 0, 0, 0});
  client.step(ConnectionLost{seconds(2), Client::key(1), Reason::heartbeat_lost},
              PathChanged{1, PathState::draining, Reason::heartbeat_lost, 0, 0, 0}, LinkChanged{false});
  client.complete(seconds(8), 3, 0, Errc::no_path);
  client.step(DeadlineReached{seconds(9)}, EndSession{Reason::heartbeat_lost});
  const TraceSummary& summary = client.summary();
  EXPECT_EQ(summary.path_losses().count(), 2U);
  ASSERT_EQ(summary.link_losses().count(), 1U);
  EXPECT_EQ(summary.link_losses().kept().front().from.time, seconds(2));
  EXPECT_FALSE(summary.link_losses().kept().front().to);
  EXPECT_EQ(summary.link_losses().kept().front().waiting, 1U);
  EXPECT_EQ(summary.clients().failed, 1U);
  ASSERT_TRUE(summary.clients().first_failed);
  EXPECT_EQ(summary.clients().first_failed->time, seconds(8));
  ASSERT_EQ(summary.broken_sessions().count(), 1U);
  EXPECT_EQ(summary.broken_sessions().kept().front().second, "heartbeat_lost");
}

TEST(TraceSummary, CloseLosesNoPath) {
  Client client;
  client.step(CloseRequested{seconds(1)}, PathChanged{0, PathState::closing, Reason::session_closed, 0, 0, 0},
              PathChanged{1, PathState::closing, Reason::session_closed, 0, 0, 0}, LinkChanged{false});
  client.step(DeadlineReached{seconds(9)}, EndSession{Reason::session_closed});
  const TraceSummary& summary = client.summary();
  EXPECT_EQ(summary.path_losses().count(), 0U);
  EXPECT_EQ(summary.link_losses().count(), 0U);
  EXPECT_EQ(summary.broken_sessions().count(), 0U);
}

TEST(TraceSummary, ListsStayShort) {
  Client client;
  for (Nanos i = 0; i < 1000; ++i) {
    const Nanos now = seconds(1) + i * milliseconds(10);
    client.step(ConnectionLost{now, Client::key(0), Reason::heartbeat_lost},
                PathChanged{0, PathState::waiting, Reason::heartbeat_lost, 0, 0, 0});
    client.step(InfoAccepted{now + milliseconds(5), Client::key(0)},
                PathChanged{0, PathState::connected, Reason::none, 0, 0, 0});
  }
  const TraceSummary& summary = client.summary();
  EXPECT_EQ(summary.path_losses().count(), 1000U);
  ASSERT_EQ(summary.path_losses().kept().size(), Ends<PathLoss>::kKept);
  EXPECT_EQ(summary.path_losses().kept().front().from.time, seconds(1));
  EXPECT_EQ(summary.path_losses().kept().back().from.time, seconds(1) + 999 * milliseconds(10));
  EXPECT_LE(summary.clients().timeline.buckets().size(), Timeline::kBuckets);
}

// The figures of the axis are those of `stat`.
TEST(TraceSummary, TimelineEqualsTheLatencyMeter) {
  Client client;
  for (Nanos i = 0; i < 2000; ++i) {
    client.submit(milliseconds(5) + i * milliseconds(1), static_cast<std::uint16_t>(i % kDepth), i % 2);
    client.complete(milliseconds(5) + i * milliseconds(1) + 1000 * (i % 700), i % kDepth, i % 2);
  }
  const TraceSummary& summary = client.summary();
  std::uint64_t requests = 0, completed = 0;
  Nanos longest = 0, most = 0;
  std::vector<Nanos> all;
  for (const auto& [place, path] : summary.latency().paths()) {
    requests += path.reads + path.writes;
    most = std::max(most, path.percentile(1));
    all.insert(all.end(), path.took.begin(), path.took.end());
  }
  Timeline::Latencies took;
  for (const auto& bucket : summary.clients().timeline.buckets()) {
    completed += bucket.completed;
    longest = std::max(longest, bucket.longest);
    if (bucket.took != nullptr) took.merge(*bucket.took);
  }
  EXPECT_EQ(completed, 2000U);
  EXPECT_EQ(completed, requests);
  EXPECT_EQ(longest, most);
  std::sort(all.begin(), all.end());
  const auto median = static_cast<double>(all[all.size() / 2]);
  EXPECT_NEAR(static_cast<double>(took.percentile(50)), median, median / 16);
}

}  // namespace
}  // namespace rtrs::trace::trace_summary_test
