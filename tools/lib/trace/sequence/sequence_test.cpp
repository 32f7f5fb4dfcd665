#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/record/recorder.hpp"
#include "core/wire/imm.hpp"
#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/page.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence::sequence_test {
namespace {

constexpr std::uint32_t kDepth = 8;
constexpr Nanos kServerClock = seconds(5000);  // the server's clock minus the client's clock

// Writes the traces of both sides of a short session: connect, INFO, a write with its response, and a
// heartbeat that never arrives.
class Conversation : public testing::Test {
 protected:
  void SetUp() override {
    const std::string base = testing::TempDir() + "sequence diagram-" + std::to_string(::getpid());
    client_file_ = base + "-client.rtrc";
    server_file_ = base + "-server.rtrc";
    write_client();
    write_server();
  }
  void TearDown() override {
    std::remove(client_file_.c_str());
    std::remove(server_file_.c_str());
  }

  template <class List, class Input, class... Actions>
  static void step(Recorder& recorder, InstanceId instance, const Input& input, const Actions&... actions) {
    recorder.input(instance, input);
    List list;
    (list.push(actions), ...);
    recorder.actions(instance, list);
  }

  void write_client() {
    const ConKey key{0, 0, 1};
    Recorder recorder(64);
    ASSERT_EQ(recorder.open_file(client_file_.c_str(), {"test", "client", "wires", 0, {}}), 0);
    recorder.begin(0, 0, MachineKind::client_session, ClientConfig{});
    step<ClientActions>(recorder, 0, PathAdded{10, 0}, Connect{key, 2, 1, wire::Extensions::none, true},
                        PathChanged{0, PathState::connecting, Reason::none, 0, 1, 0});
    step<ClientActions>(recorder, 0, Connected{milliseconds(2), key, 4096, 4096, 0, kDepth},
                        SendInfoReq{key, 0});
    step<ClientActions>(recorder, 0, InfoAccepted{milliseconds(4), key},
                        PathChanged{0, PathState::connected, Reason::none, 0, 0, 0}, LinkChanged{true});
    step<ClientActions>(recorder, 0,
                        Submitted{milliseconds(5), 3, Direction::write, false, false, 0, 4096, 24},
                        PostRequest{key, wire::encode_io_req(kDepth, 3, 4096), 3, 0, false, 0});
    step<ClientActions>(recorder, 0,
                        ImmReceived{milliseconds(8), key, wire::encode_io_rsp(wire::ImmType::io_rsp, 3, 0)},
                        Complete{3, Errc::ok, 0});
    step<ClientActions>(recorder, 0, DeadlineReached{milliseconds(9)},
                        PostImm{key, wire::encode_hb(wire::ImmType::hb_msg), 0});
    EXPECT_EQ(recorder.close_file(), 0);
  }

  void write_server() {
    const ConKey key{0, 0, 7};
    const auto at = [](Nanos time) { return kServerClock + time; };
    ServerConfig config;
    config.queue_depth = kDepth;
    Recorder recorder(64);
    ASSERT_EQ(recorder.open_file(server_file_.c_str(), {"test", "server", "wires", 0, {}}), 0);
    recorder.begin(at(0), 1, MachineKind::server_session, config, 0);
    step<ServerActions>(
        recorder, 1,
        ConnectRequested{at(milliseconds(1)), key, 5, 1, wire::Uuid{{1}}, 2, 1, wire::Extensions::none, true},
        Accept{key, 5, 0}, PathChanged{0, PathState::connecting, Reason::none, 0, 0, 0});
    step<ServerActions>(recorder, 1, InfoRequested{at(milliseconds(3)), key, 0}, SendInfoRsp{key, 0},
                        PathChanged{0, PathState::connected, Reason::none, 0, 0, 0});
    step<ServerActions>(
        recorder, 1, RequestArrived{at(milliseconds(6)), key, 4096, 24, 3, 0, Direction::write, false, false},
        Deliver{key, 3, 1, false});
    step<ServerActions>(recorder, 1, Responded{at(milliseconds(7)), 3, 1, 0},
                        PostResponse{key, wire::encode_io_rsp(wire::ImmType::io_rsp, 3, 0), 3, false, false,
                                     false, false, 0});
    EXPECT_EQ(recorder.close_file(), 0);
  }

  Story both(const std::vector<WantedMark>& marks = {}) {
    Story story = build_story({client_file_, server_file_}, marks, code_);
    EXPECT_EQ(code_, exit_ok);
    return story;
  }
  static const Step& find(const Story& story, std::string_view event, std::string_view words = "") {
    for (const Step& step : story.steps) {
      if (step.event == event && step.title.find(words) != std::string::npos) return step;
    }
    ADD_FAILURE() << "no " << event << ' ' << words;
    return story.steps.front();
  }
  std::string text(const std::vector<WantedMark>& marks = {}, TextStyle style = {}) {
    std::string out;
    const StoryReader reader({client_file_, server_file_}, marks, code_);
    print_diagram(reader, {0, reader.steps(), ~0U}, style, [&out](std::string_view line) {
      out.append(line).append("\n");
      return true;
    });
    return out;
  }

  std::string client_file_, server_file_;
  int code_ = 0;
};

TEST_F(Conversation, MessagesArePairedAcrossClockOffset) {
  const Story story = both();
  constexpr std::pair<const char*, const char*> kMessages[] = {
      {"Connect", "ConnectRequested"}, {"Accept", "Connected"},           {"SendInfoReq", "InfoRequested"},
      {"SendInfoRsp", "InfoAccepted"}, {"PostRequest", "RequestArrived"}, {"PostResponse", "ImmReceived"}};
  for (const auto& [sent, received] : kMessages) {
    const Step& from = find(story, sent);
    ASSERT_NE(from.peer, kNone) << sent;
    const Step& to = story.steps[static_cast<std::size_t>(from.peer)];
    EXPECT_EQ(to.event, received);
    EXPECT_LT(&from, &to) << "a message arrives after it was sent";
    EXPECT_GE(to.at, from.at);
  }
  EXPECT_FALSE(story.same_clock);
  // Any offset between 4999.999 s and 5000.001 s explains the trace; the middle must be chosen.
  EXPECT_NEAR(static_cast<double>(story.files[0].clock), static_cast<double>(kServerClock), 1e6);
}

TEST_F(Conversation, LostMessageIsShown) {
  const Story story = both();
  EXPECT_TRUE(find(story, "PostImm").lost);
  EXPECT_FALSE(find(story, "PostRequest").lost);
  EXPECT_NE(text().find("HB - never arrived"), std::string::npos);
}

// The server disconnects, and the client's driver records this as a refused name.
TEST_F(Conversation, DisconnectAfterRefusedNameIsPairedWithItsCause) {
  const ConKey here{0, 0, 1}, there{0, 0, 7};
  Recorder client(64), server(64);
  ASSERT_EQ(client.open_file(client_file_.c_str(), {"test", "client", "wires", 0, {}}), 0);
  client.begin(0, 0, MachineKind::client_session, ClientConfig{});
  step<ClientActions>(client, 0, PathAdded{10, 0}, Connect{here, 2, 1, wire::Extensions::none, true});
  step<ClientActions>(client, 0, Connected{milliseconds(2), here, 4096, 4096, 0, kDepth},
                      SendInfoReq{here, 0});
  step<ClientActions>(client, 0, ConnectionLost{milliseconds(4), here, Reason::name_refused});
  ASSERT_EQ(client.close_file(), 0);
  ASSERT_EQ(server.open_file(server_file_.c_str(), {"test", "server", "wires", 0, {}}), 0);
  server.begin(0, 1, MachineKind::server_session, ServerConfig{}, 0);
  step<ServerActions>(
      server, 1,
      ConnectRequested{milliseconds(1), there, 5, 1, wire::Uuid{{1}}, 2, 1, wire::Extensions::none, true},
      Accept{there, 5, 0});
  step<ServerActions>(server, 1, InfoRequested{milliseconds(3), there, 1},
                      Disconnect{there, Reason::name_refused});
  ASSERT_EQ(server.close_file(), 0);
  const Story story = both();
  const Step& sent = find(story, "Disconnect");
  ASSERT_NE(sent.peer, kNone);
  EXPECT_EQ(story.steps[static_cast<std::size_t>(sent.peer)].event, "ConnectionLost");
}

// In the notes of a response with data, only the server records the length. Even if many notes differ in this
// way, the two ends of the connection must be matched.
TEST_F(Conversation, ResponsesWithDataArePairedAlthoughTheLengthDiffers) {
  constexpr std::uint16_t kReads = 40;
  const ConKey ours{0, 0, 1};
  const ConKey theirs{0, 0, 7};
  trace::FileOptions options;
  options.detail = trace::Detail::wire;
  Recorder client(64);
  Recorder server(64);
  ASSERT_EQ(client.open_file(client_file_.c_str(), {"test", "client", "wires", 0, {}}, options), 0);
  ASSERT_EQ(server.open_file(server_file_.c_str(), {"test", "server", "wires", 0, {}}, options), 0);
  ServerConfig config;
  config.queue_depth = kDepth;
  client.begin(0, 0, MachineKind::client_session, ClientConfig{});
  server.begin(0, 1, MachineKind::server_session, config, 0);
  step<ClientActions>(client, 0, PathAdded{10, 0}, Connect{ours, 2, 1, wire::Extensions::none, true});
  step<ServerActions>(
      server, 1, ConnectRequested{20, theirs, 5, 1, wire::Uuid{{1}}, 2, 1, wire::Extensions::none, true});
  for (std::uint16_t read = 0; read < kReads; ++read) {
    const std::uint32_t imm = wire::encode_io_rsp(wire::ImmType::io_rsp, read % kDepth, 0);
    const Nanos now = milliseconds(1) + read;
    server.note(1, trace::WireSent{now, theirs, trace::WireOp::write_imm, true, imm, 1, 0, 4096, 2, {}});
    client.note(0, trace::WireReceived{now, ours, trace::WireOp::write_imm, true, imm, 0, 0, 0, 0, {}});
  }
  EXPECT_EQ(client.close_file(), 0);
  EXPECT_EQ(server.close_file(), 0);
  const Story story = both();
  EXPECT_NE(find(story, "Connect").peer, kNone);
  EXPECT_FALSE(find(story, "Connect").lost);
  std::size_t met = 0;
  for (const Step& step : story.steps) met += step.event == "WireReceived" && step.peer != kNone ? 1 : 0;
  EXPECT_EQ(met, kReads);
}

TEST_F(Conversation, TraceOfOneSideShowsNoLostMessages) {
  const Story story = build_story({client_file_}, {}, code_);
  EXPECT_EQ(code_, exit_ok);
  for (const Step& step : story.steps) EXPECT_FALSE(step.lost) << step.title;
  ASSERT_EQ(story.lanes.back().kind, Lane::Kind::server);
  EXPECT_FALSE(story.lanes.back().recorded);
  const Story server = build_story({server_file_}, {}, code_);
  EXPECT_FALSE(server.lanes.front().recorded);
  EXPECT_EQ(server.requests.size(), 1U);
}

TEST_F(Conversation, RequestIsFollowedToStorageAndBack) {
  const Story story = both();
  ASSERT_EQ(story.requests.size(), 1U);
  std::vector<std::string> events;
  for (const Step& step : story.steps) {
    if (step.io == 0) events.push_back(step.event);
  }
  const std::vector<std::string> expected = {"Submitted", "PostRequest",  "RequestArrived", "Deliver",
                                             "Responded", "PostResponse", "ImmReceived",    "Complete"};
  EXPECT_EQ(events, expected);
  EXPECT_TRUE(story.requests[0].write);
  EXPECT_EQ(story.requests[0].bytes, 4096U);
  ASSERT_EQ(story.storage_spans.size(), 1U);
  EXPECT_EQ(story.steps[static_cast<std::size_t>(story.requests[0].last)].event, "Complete");
}

TEST_F(Conversation, RestartedProcessHasNoRequestsInFlight) {
  Recorder recorder(64);
  ASSERT_EQ(recorder.open_file(client_file_.c_str(), {"test", "client", "wires", 0, {}}), 0);
  recorder.begin(0, 0, MachineKind::client_session, ClientConfig{});
  step<ClientActions>(recorder, 0, Submitted{10, 3, Direction::read, false, false, 0, 512, 24});
  recorder.begin(20, 0, MachineKind::client_session, ClientConfig{});
  step<ClientActions>(recorder, 0, PathAdded{30, 0});
  recorder.state(0, 4711);
  ASSERT_EQ(recorder.close_file(), 0);
  const Story story = build_story({client_file_}, {}, code_);
  ASSERT_EQ(story.requests.size(), 1U);
  ASSERT_NE(story.requests[0].last, kNone);
  EXPECT_EQ(story.steps[static_cast<std::size_t>(story.requests[0].last)].event, "BeginClient");
  EXPECT_EQ(find(story, "StateHash").group, Group::local);
}

// Records of device state machines must become steps of their session, except IO. The device machine must not
// be shown as a second client.
TEST_F(Conversation, ClientDeviceRecordsAreStepsOfTheirSession) {
  Recorder recorder(64);
  ASSERT_EQ(recorder.open_file(client_file_.c_str(), {"test", "client", "wires", 0, {}}), 0);
  recorder.begin(0, 0, MachineKind::client_session, ClientConfig{});
  step<ClientActions>(recorder, 0, PathAdded{10, 0});
  recorder.begin(kClientDevices, trace::BeginClientDevices{20});
  rnbd::ClientActions actions;
  recorder.input(kClientDevices, trace::MapRequested{30, {}, trace::name_text("disk")});
  recorder.device_actions(kClientDevices, actions, rnbd::MapOutcome{2, 0});
  recorder.input(kClientDevices, trace::MessageDone{2, true, 0, {}, 40});
  actions.push_back(rnbd::DeviceChanged{0, rnbd::DeviceState::open, 0, {}});
  recorder.device_actions(kClientDevices, actions);
  recorder.input(kClientDevices, trace::IoBegun{0, {}, {}, 50});
  recorder.state(kClientDevices, 4711);
  ASSERT_EQ(recorder.close_file(), 0);
  const Story story = build_story({client_file_}, {}, code_);
  EXPECT_EQ(story.machines.size(), 1U);
  EXPECT_EQ(story.clients.size(), 1U);
  EXPECT_EQ(find(story, "MapRequested").title, "map \"disk\" ro");
  EXPECT_EQ(find(story, "MapAnswered").title, "device 0: errno 2 (ENOENT)");
  EXPECT_EQ(find(story, "DeviceChanged").title, "device 0 is open");
  EXPECT_EQ(story.steps.back().event, "DeviceChanged");
}

TEST_F(Conversation, ServerDeviceRecordsAreStepsOfTheirSession) {
  constexpr InstanceId kDevices = kServerDevices + 2;
  Recorder recorder(64);
  ASSERT_EQ(recorder.open_file(server_file_.c_str(), {"test", "server", "wires", 0, {}}), 0);
  recorder.begin(0, 2, MachineKind::server_session, ServerConfig{}, 1);
  recorder.begin(kDevices, trace::BeginServerDevices{20, 1, {}});
  recorder.input(kDevices, trace::ExportOpened{0, 2, 9, {}, 0, 30});
  recorder.input(kDevices, trace::StorageDone{0, 0, false, 40});
  recorder.input(kDevices, trace::SessionClosed{50});
  recorder.end(60, kDevices);
  ASSERT_EQ(recorder.close_file(), 0);
  const Story story = build_story({server_file_}, {}, code_);
  EXPECT_EQ(story.machines.size(), 1U);
  EXPECT_EQ(find(story, "ExportOpened").title, "export 9 opened: errno 2 (ENOENT)");
  EXPECT_EQ(story.steps.back().event, "SessionClosed");
}

TEST_F(Conversation, PathHasStatesOnBothSides) {
  const Story story = both();
  ASSERT_EQ(story.paths.size(), 1U) << "the server's path is the client's";
  std::vector<std::pair<Side, std::string>> spans;
  for (const PathSpan& span : story.path_spans) spans.emplace_back(span.side, span.state);
  const std::vector<std::pair<Side, std::string>> expected = {{Side::client, "connecting"},
                                                              {Side::server, "connecting"},
                                                              {Side::server, "connected"},
                                                              {Side::client, "connected"}};
  EXPECT_EQ(spans, expected);
}

TEST_F(Conversation, MarksAreShownAndEscaped) {
  const std::vector<WantedMark> marks = {{1, 8, "seen <too> late"}};
  const Story story = both(marks);
  EXPECT_NE(text(marks).find("VIOLATION at B8: seen <too> late"), std::string::npos);
  const std::string page = story_page(story, {{{0, story.steps.size()}}, ~0U, {}});
  EXPECT_EQ(page.find("<too>"), std::string::npos) << "data must not become markup";
  EXPECT_NE(page.find("seen \\u003ctoo>"), std::string::npos);
  testing::internal::CaptureStderr();
  build_story({client_file_}, {{0, 4711, "nowhere"}}, code_);
  EXPECT_EQ(code_, exit_usage);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("no record 4711"), std::string::npos);
}

TEST_F(Conversation, TextRespectsAsciiAndWidth) {
  TextStyle style;
  style.ascii = true;
  style.width = 100;
  const std::string out = text({}, style);
  for (const char c : out) ASSERT_LT(static_cast<unsigned char>(c), 0x80U);
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = out.find('\n', at);
    if (out[at] != '#') {
      EXPECT_LE(end - at, 100U) << out.substr(at, end - at);
    }
    at = end + 1;
  }
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
}

TEST_F(Conversation, AnswerNamesWhatHappened) {
  trace::RunSummary summary;
  Story story = build_story({client_file_, server_file_}, {{1, 8, "too late"}}, code_, &summary);
  story.devices.push_back("</script><img src=x>");
  PageFacts facts;
  facts.summary = &summary;
  facts.judged = true;
  facts.faults.push_back({milliseconds(1), "<img> is cut"});
  const Answer answer = make_answer(story, facts);
  EXPECT_EQ(answer.tone, Tone::bad);
  EXPECT_NE(answer.verdict.find("1 violation of the protocol, the first at 0.00"), std::string::npos)
      << answer.verdict;
  for (const AnswerRow& row : answer.rows) {
    const bool expected = row.kind == std::string("violation") || row.kind == std::string("slowest");
    EXPECT_EQ(row.count, expected ? 1U : 0U) << row.kind;
    EXPECT_EQ(row.items.size(), row.count) << row.kind;
  }
  EXPECT_EQ(answer.rows.back().items.front().text.substr(0, 7), "3.00 ms") << "from 5 ms to 8 ms";
  const std::string page = story_page(story, {{{0, story.steps.size()}}, ~0U, facts});
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("\"completed\":["), std::string::npos);
  facts.failure = Happening{milliseconds(8), "O4: lost update"};
  EXPECT_EQ(make_answer(story, facts).verdict.substr(0, 44), "The run fails at 0.008000 s: O4: lost update");
}

TEST_F(Conversation, PageKeepsStepsAroundMarks) {
  trace::RunSummary summary;
  const Story story = build_story({client_file_, server_file_}, {{1, 8, "too late"}}, code_, &summary);
  PageFacts facts;
  facts.summary = &summary;
  const std::size_t all = story.steps.size();
  EXPECT_EQ(choose_ranges(story, facts, {0, all, ~0U}, all).size(), 1U);
  const auto marked = static_cast<std::size_t>(story.marks.front().step);
  for (std::size_t limit = 1; limit < all; ++limit) {
    const auto ranges = choose_ranges(story, facts, {0, all, ~0U}, limit);
    std::size_t length = 0, last = 0;
    bool has_mark = false;
    for (const Range& one : ranges) {
      EXPECT_LT(one.from, one.to);
      EXPECT_TRUE(length == 0 || one.from > last) << "disjoint";
      length += one.to - one.from;
      last = one.to;
      has_mark |= one.from <= marked && marked < one.to;
    }
    EXPECT_LE(last, all);
    EXPECT_LE(length, limit);
    EXPECT_TRUE(has_mark) << limit;
  }
}

TEST_F(Conversation, WindowCutsRequestsAndMessages) {
  const Story story = both();
  const auto middle = static_cast<std::size_t>(&find(story, "RequestArrived") - &story.steps.front());
  const std::string json = story_json(story, {{{middle, middle + 2}}, ~0U, {}});
  EXPECT_NE(json.find("\"before\":" + std::to_string(middle)), std::string::npos);
  EXPECT_NE(json.find("\"peer\":[-1,-1]"), std::string::npos);
  // The request begins before the window and ends after it. It must span the whole window, and be marked as
  // open and cut.
  EXPECT_NE(json.find("\"requests\":[[0,1,1,1,0,0,4096,3,0,1,3000000,-1]]"), std::string::npos) << json;
}

}  // namespace
}  // namespace rtrs::tools::sequence::sequence_test
