// Tests the list of unanswered requests with handmade events of a client and a server.
#include "tools/lib/trace/hangs/unanswered.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "conformance/spec/immediate.hpp"

namespace rtrs::trace::unanswered_test {
namespace {

using spec::DeviceEvent;
using spec::DeviceKind;
using spec::Event;
using spec::Kind;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint16_t kDepth = 8;
constexpr unsigned kClient = 0, kServer = 1, kDevices = 1025;
constexpr spec::Key kKey{0, 1, 1};

// One trace, of which each record is a millisecond later than the one before.
class Trace {
 public:
  Trace(HangCollector& hangs, bool counts_only = false) : hangs_(hangs) { hangs.begin_trace(counts_only); }
  void add(unsigned instance, Kind kind, const std::function<void(Event&)>& change = {}) {
    Event event;
    event.kind = kind;
    event.key = kKey;
    stamp(event);
    if (change) change(event);
    hangs_.on(instance, event);
  }
  void device(DeviceKind kind, std::uint64_t request) {
    DeviceEvent event;
    event.kind = kind;
    event.request = request;
    stamp(event);
    hangs_.on(kDevices, event);
  }
  void wait(std::uint64_t time) { now_ += time; }

 private:
  template <class T>
  void stamp(T& event) {
    event.now = now_ += kSecond / 1000;
    event.seq = seq_++;
  }
  HangCollector& hangs_;
  std::uint64_t now_ = 0, seq_ = 0;
};

void path_is(Trace& trace, unsigned instance, spec::PathState state) {
  trace.add(instance, Kind::PathChanged, [state](Event& event) { event.state = state; });
}
Trace begun_client(HangCollector& hangs) {
  Trace trace(hangs);
  trace.add(kClient, Kind::BeginClient);
  trace.add(kClient, Kind::Connect, [](Event& event) { event.recon_cnt = 1; });
  trace.add(kClient, Kind::Connected, [](Event& event) { event.queue_depth = kDepth; });
  path_is(trace, kClient, spec::PathState::connected);
  return trace;
}
Trace begun_server(HangCollector& hangs) {
  Trace trace(hangs);
  trace.add(kServer, Kind::BeginServerSession, [](Event& event) { event.settings.depth = kDepth; });
  trace.add(kServer, Kind::ConnectRequested, [](Event& event) { event.recon_cnt = 1; });
  path_is(trace, kServer, spec::PathState::connected);
  return trace;
}
void submit(Trace& trace, std::uint16_t permit, bool sent = true) {
  const auto its = [permit](Event& event) { event.permit = permit, event.data_len = 512; };
  trace.add(kClient, Kind::Submitted, its);
  if (sent) trace.add(kClient, Kind::PostRequest, its);
}
void arrive(Trace& trace, std::uint16_t chunk) {
  trace.add(kServer, Kind::RequestArrived, [chunk](Event& event) { event.chunk = chunk; });
}
void serve(Trace& trace, Kind kind, std::uint16_t chunk) {
  trace.add(kServer, kind, [chunk](Event& event) { event.chunk = chunk, event.serial16 = 1; });
}
void complete(Trace& trace, std::uint16_t permit) {
  trace.add(kClient, Kind::Complete, [permit](Event& event) { event.permit = permit; });
}
// Ends a trace: time passes, and something else is recorded.
void end(Trace& trace, unsigned instance, std::uint64_t time = 2 * kSecond) {
  trace.wait(time);
  trace.add(instance, Kind::DeadlineReached);
}

std::string stages(const HangCollector& hangs) {
  std::string text;
  for (const Unanswered& one : hangs.unanswered())
    text += (text.empty() ? "" : " ") + std::to_string(one.request.number) + ':' + to_string(one.stage);
  return text;
}

TEST(Unanswered, ClientAloneKnowsWhatItSent) {
  HangCollector hangs;
  Trace client = begun_client(hangs);
  submit(client, 0);
  complete(client, 0);
  submit(client, 1);
  submit(client, 2, false);
  end(client, kClient);
  EXPECT_EQ(stages(hangs), "1:sent 2:turn");
  const Unanswered one = hangs.unanswered().front();
  EXPECT_EQ(one.request.begun.record, 7U);
  EXPECT_EQ(one.last.front().at.event, "PostRequest");
  EXPECT_EQ(one.age, 2 * kSecond + 3 * kSecond / 1000);
}

TEST(Unanswered, YoungRequestsAreOnTheirWay) {
  HangCollector hangs;
  Trace client = begun_client(hangs);
  submit(client, 0);
  end(client, kClient, kSecond / 2);
  EXPECT_EQ(stages(hangs), "");
  EXPECT_EQ(hangs.unanswered(kSecond / 4).size(), 1U);
}

TEST(Unanswered, RequestsOfEndedMachinesAreNoHangs) {
  for (const Kind kind : {Kind::End, Kind::EndSession, Kind::BeginClient}) {
    HangCollector hangs;
    Trace client = begun_client(hangs);
    submit(client, 0);
    client.wait(2 * kSecond);
    client.add(kClient, kind);
    end(client, kClient);
    EXPECT_EQ(stages(hangs), "") << spec::name_of(kind);
  }
}

TEST(Unanswered, RequestOfALostPathWaitsForAnother) {
  HangCollector hangs;
  Trace client = begun_client(hangs);
  submit(client, 0);
  path_is(client, kClient, spec::PathState::draining);
  end(client, kClient);
  EXPECT_EQ(stages(hangs), "0:path");
}

TEST(Unanswered, ServerKnowsHowFarARequestCame) {
  HangCollector hangs;
  Trace server = begun_server(hangs);
  for (std::uint16_t chunk = 0; chunk < 5; ++chunk) arrive(server, chunk);
  for (std::uint16_t chunk = 1; chunk < 5; ++chunk) serve(server, Kind::Deliver, chunk);
  serve(server, Kind::Responded, 2);
  serve(server, Kind::Responded, 3);
  serve(server, Kind::PostResponse, 3);
  end(server, kServer);
  EXPECT_EQ(stages(hangs), "0:server 1:storage 2:finished 4:storage");
}

TEST(Unanswered, DevicesTellWhetherStorageFinished) {
  HangCollector hangs;
  Trace server = begun_server(hangs);
  const auto request = [](std::uint64_t chunk) { return chunk << 16 | 1; };
  for (std::uint16_t chunk = 0; chunk < 4; ++chunk) {
    arrive(server, chunk);
    serve(server, Kind::Deliver, chunk);
  }
  for (std::uint16_t chunk = 1; chunk < 4; ++chunk) server.device(DeviceKind::DeviceRequest, request(chunk));
  server.device(DeviceKind::Storage, request(1));
  server.device(DeviceKind::Respond, request(2));
  end(server, kServer);
  const std::string text = stages(hangs);
  EXPECT_NE(text.find("1:storage"), std::string::npos) << text;
  EXPECT_NE(text.find("2:finished"), std::string::npos) << text;
}

TEST(Unanswered, LostPathEndsWhatStorageHasNot) {
  HangCollector hangs;
  Trace server = begun_server(hangs);
  for (std::uint16_t chunk = 0; chunk < 3; ++chunk) arrive(server, chunk);
  serve(server, Kind::Deliver, 1);
  serve(server, Kind::Deliver, 2);
  serve(server, Kind::Responded, 2);
  path_is(server, kServer, spec::PathState::draining);
  end(server, kServer);
  EXPECT_EQ(stages(hangs), "1:storage");
}

TEST(Unanswered, RestartedServerHasNoOldRequests) {
  HangCollector hangs;
  Trace server = begun_server(hangs);
  server.add(0, Kind::BeginServerRegistry);
  arrive(server, 0);
  end(server, kServer);
  EXPECT_EQ(stages(hangs), "0:server");
  server.add(0, Kind::BeginServerRegistry);
  end(server, kServer);
  EXPECT_EQ(stages(hangs), "");
}

TEST(Unanswered, BothSidesTellWhereARequestIs) {
  HangCollector hangs;
  Trace client = begun_client(hangs);
  for (std::uint16_t permit = 0; permit < 4; ++permit) submit(client, permit);
  end(client, kClient);
  Trace server = begun_server(hangs);
  for (std::uint16_t chunk = 0; chunk < 3; ++chunk) arrive(server, chunk);
  serve(server, Kind::Deliver, 0);
  serve(server, Kind::Responded, 0);
  serve(server, Kind::PostResponse, 0);
  serve(server, Kind::Deliver, 1);
  end(server, kServer);
  EXPECT_EQ(stages(hangs), "0:response 1:storage 2:server 3:wire");
  const Unanswered one = hangs.unanswered()[1];
  ASSERT_EQ(one.last.size(), 2U);
  EXPECT_EQ(one.last[1].at.event, "Deliver");
  EXPECT_EQ(one.last[1].trace, 1U);
}

// The chunk of an answered request has another user by now.
TEST(Unanswered, AnsweredRequestIsNotTakenForItsSuccessor) {
  HangCollector hangs;
  Trace client = begun_client(hangs);
  submit(client, 0);
  end(client, kClient);
  Trace server = begun_server(hangs);
  arrive(server, 0);
  serve(server, Kind::Deliver, 0);
  serve(server, Kind::Responded, 0);
  serve(server, Kind::PostResponse, 0);
  arrive(server, 0);
  EXPECT_EQ(stages(hangs), "0:response");
}

TEST(Unanswered, DumpHasNoActions) {
  HangCollector hangs;
  Trace client(hangs, true);
  client.add(kClient, Kind::Connected, [](Event& event) { event.queue_depth = kDepth; });
  submit(client, 0, false);
  submit(client, 1, false);
  client.add(kClient, Kind::ImmReceived, [](Event& event) { event.imm = spec::kIoRsp << 28 | 0; });
  end(client, kClient);
  EXPECT_EQ(stages(hangs), "1:sent");
  Trace server(hangs, true);
  for (std::uint16_t chunk = 0; chunk < 2; ++chunk) arrive(server, chunk);
  serve(server, Kind::Responded, 0);
  end(server, kServer);
  EXPECT_EQ(hangs.unanswered().back().stage, HangStage::storage);
}

TEST(Unanswered, DumpWithoutDepthSaysNothingOfAClient) {
  HangCollector hangs;
  Trace client(hangs, true);
  submit(client, 0, false);
  end(client, kClient);
  EXPECT_EQ(stages(hangs), "");
}

}  // namespace
}  // namespace rtrs::trace::unanswered_test
