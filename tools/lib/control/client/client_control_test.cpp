#include "tools/lib/control/client/client_control.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "tools/lib/control/client/test_fake_client.hpp"

namespace rtrs::control::client_control_test {
namespace {

using nlohmann::json;

class ClientControlTest : public testing::Test {
 protected:
  tl::expected<json, rpc::Error> ask(const std::string& method, json params = json::object()) {
    rpc::Request request;
    request.method = method;
    request.params = std::move(params);
    const auto answer = control.answer(caller, request);
    return answer ? *answer : tl::expected<json, rpc::Error>(json());
  }
  int errno_of(const std::string& method, json params = json::object()) {
    const auto answer = ask(method, std::move(params));
    return answer ? 0 : answer.error().error;
  }

  FakeClient client;
  std::vector<std::string> log;
  ClientControl control{client, [this](const std::string& line) { log.push_back(line); }};
  rpc::Caller caller{0, 0, 1, true};
};

TEST_F(ClientControlTest, ShowsPathsWithTheNextAttemptAndTheReason) {
  const json shown = *ask("client.show");
  EXPECT_EQ(shown["schema_version"], 1);
  const json& session = shown["sessions"][0];
  EXPECT_EQ(session["name"], "web1");
  EXPECT_EQ(session["mp_short"], "MI");
  ASSERT_EQ(session["paths"].size(), 2U) << "a path that was removed is not shown";
  EXPECT_EQ(session["paths"][0]["pathname"], "ip:10.0.0.1@ip:10.0.0.2");
  EXPECT_EQ(session["paths"][0]["rtt_us"], 41.0);
  EXPECT_EQ(session["paths"][0]["hca_name"], "rxe0");
  EXPECT_EQ(session["paths"][0]["posting"], "send");
  const json& down = session["paths"][1];
  EXPECT_EQ(down["pathname"], "ip:10.0.1.2");
  EXPECT_EQ(down["attempt"], 3);
  EXPECT_NEAR(down["next_s"].get<double>(), 4.2, 1e-6);
  EXPECT_EQ(down["reason"], "connect_refused");
  EXPECT_FALSE(down["sentence"].get<std::string>().empty());
  EXPECT_EQ(shown["devices"][0]["mapping_path"], "disk0");
}

TEST_F(ClientControlTest, ExhaustedAttemptsReportTheCauseOfTheLastOne) {
  PathStatus& status = client.shown.paths[1].status;
  status.reason = Reason::attempts_exhausted;
  status.last_cause = Reason::connect_refused;
  EXPECT_EQ((*ask("client.show"))["sessions"][0]["paths"][1]["sentence"],
            "all reconnect attempts failed, the last of them: connection refused");
}

TEST_F(ClientControlTest, PathShowsItsTimersAndResponseTimes) {
  client.shown.heartbeat = {milliseconds(500), 3};
  client.shown.reconnect_min = milliseconds(250);
  client.shown.reconnect_max = seconds(4);
  for (const Nanos time : {microseconds(100), microseconds(301)})
    client.shown.paths[0].writes.record(static_cast<std::uint64_t>(time));
  const json path = (*ask("client.show"))["sessions"][0]["paths"][0];
  EXPECT_EQ(path["heartbeat_s"], 0.5);
  EXPECT_EQ(path["missed_max"], 3);
  EXPECT_EQ(path["dead_s"], 2.5);
  EXPECT_EQ(path["reconnect_min_s"], 0.25);
  EXPECT_EQ(path["reconnect_max_s"], 4.0);
  EXPECT_EQ(path["answer_time"]["write"],
            (json{{"count", 2}, {"mean_us", 200.5}, {"p99_us", 301.0}, {"max_us", 301.0}}));
  EXPECT_EQ(path["answer_time"]["read"]["count"], 0);
}

TEST_F(ClientControlTest, SilentPathShowsTheDuration) {
  EXPECT_FALSE(client.shown.paths.empty());
  EXPECT_FALSE((*ask("client.show"))["sessions"][0]["paths"][0].contains("silent_s"));
  client.shown.paths[0].status.silent_since = seconds(88);
  EXPECT_EQ((*ask("client.show"))["sessions"][0]["paths"][0]["silent_s"], 12.0);
}

TEST_F(ClientControlTest, PathShowsWhenItsConnectionWasLost) {
  EXPECT_FALSE((*ask("client.show"))["sessions"][0]["paths"][0].contains("lost_s"));
  client.shown.paths[0].status.lost_at = seconds(90);
  EXPECT_EQ((*ask("client.show"))["sessions"][0]["paths"][0]["lost_s"], 10.0);
}

TEST_F(ClientControlTest, PathIsFoundByAnyUnambiguousName) {
  for (const char* name : {"ip:10.0.1.2", "1", "10.0.1.2"})
    EXPECT_EQ(errno_of("path.reconnect", {{"path", name}}), 0);
  for (const char* name : {"ip:10.0.0.1@ip:10.0.0.2", "ip:10.0.0.1", "rxe0", "0"})
    EXPECT_EQ(errno_of("path.disconnect", {{"path", name}}), 0) << name;
  ASSERT_EQ(client.done.size(), 7U);
  EXPECT_EQ(client.done[0], (std::pair<std::string, unsigned>("reconnect", 1)));
  EXPECT_EQ(client.done[3], (std::pair<std::string, unsigned>("disconnect", 0)));
  EXPECT_EQ(errno_of("path.remove", {{"path", "2"}}), ENOENT) << "already removed";
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}, {"session", "web2"}}), ENOENT);
  EXPECT_EQ(errno_of("path.remove", {{"path", "1"}, {"session", "web1"}}), 0);
}

TEST_F(ClientControlTest, AmbiguousPathNameIsRefused) {
  client.shown.paths[1].device = {"rxe0", 1};
  const auto refused = ask("path.remove", {{"path", "rxe0"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error, EINVAL);
  EXPECT_EQ(refused.error().code, rpc::Code::failed) << "valid syntax; unambiguous in another session";
  EXPECT_TRUE(client.done.empty());
}

TEST_F(ClientControlTest, LastPathIsRemovedOnlyByForce) {
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), EBUSY) << "the other one is not connected";
  EXPECT_TRUE(client.done.empty());
  EXPECT_EQ(errno_of("path.remove", {{"path", "1"}}), 0) << "the other one is connected";
  client.shown.paths[0].status.state = PathState::waiting;
  client.shown.paths[0].status.ever_connected = true;
  client.shown.paths[1].status.ever_connected = false;
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), EBUSY) << "only this path was ever connected";
  EXPECT_EQ(errno_of("path.remove", {{"path", "1"}}), 0);
  client.shown.paths[1].status.ever_connected = true;
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), 0) << "either may reconnect";
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}, {"force", "true"}}), 0);
  client.shown.paths.resize(1);
  client.shown.paths[0].status.state = PathState::waiting;
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), EBUSY) << "it is the only path";
}

TEST_F(ClientControlTest, RemovedAndNeverConnectedPathsDoNotCountAsAlternatives) {
  client.shown.paths[0].status.state = PathState::waiting;
  client.shown.paths[0].status.ever_connected = false;
  client.shown.paths[1].status = {};
  client.shown.paths[1].status.state = PathState::absent;
  client.shown.paths[1].status.ever_connected = true;
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), EBUSY) << "the other one was removed";
  client.shown.paths[0].status.ever_connected = true;
  client.shown.paths[1].status.state = PathState::waiting;
  client.shown.paths[2].status.state = PathState::waiting;
  client.shown.paths[2].status.ever_connected = false;
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), 0) << "another path was connected before";
  client.shown.paths[1].status.ever_connected = false;
  EXPECT_EQ(errno_of("path.remove", {{"path", "0"}}), EBUSY) << "no other path was ever connected";
}

TEST_F(ClientControlTest, AddedPathMustDifferFromExistingOnes) {
  const auto added = ask("path.add", {{"path", "ip:10.0.2.1@ip:10.0.2.2"}, {"port", "4321"}});
  ASSERT_TRUE(added);
  EXPECT_EQ((*added)["path"], 2);
  EXPECT_EQ(client.added.source, "10.0.2.1");
  EXPECT_EQ(client.added.port, 4321);
  EXPECT_EQ(errno_of("path.add", {{"path", "10.0.0.1@10.0.0.2"}}), EEXIST);
  EXPECT_EQ(errno_of("path.add", {{"path", "10.0.2.2"}}), 0) << "the old path of this address is removed";
  for (const char* port : {"0", "65536", "-1", "1x", "999999"})
    EXPECT_EQ(errno_of("path.add", {{"path", "10.0.9.2"}, {"port", port}}), EINVAL) << port;
  EXPECT_EQ(errno_of("path.add", {{"path", "ip:10.0.0.1@"}}), EINVAL);
  client.error = ENOSPC;
  EXPECT_EQ(errno_of("path.add", {{"path", "10.0.9.2"}}), ENOSPC);
}

TEST_F(ClientControlTest, PathWithUnusableAddressIsRefusedWithTheCause) {
  client.error = EHOSTUNREACH;
  const auto unknown = ask("path.add", {{"path", "nosuchhost"}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "adding the path: the name or address does not resolve to a host");
  EXPECT_FALSE(unknown.error().hint.empty());
  client.error = EADDRNOTAVAIL;
  const auto foreign = ask("path.add", {{"path", "10.9.9.9@10.0.9.2"}});
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().message, "adding the path: the source address does not belong to this host");
}

TEST_F(ClientControlTest, PolicyNamesAreThoseOfLinux) {
  for (const auto& [text, policy] : std::initializer_list<std::pair<const char*, MultipathPolicy>>{
           {"0", MultipathPolicy::round_robin},
           {"MI", MultipathPolicy::min_inflight},
           {"Min-Latency", MultipathPolicy::min_latency}}) {
    EXPECT_EQ(errno_of("session.policy", {{"policy", text}}), 0) << text;
    EXPECT_EQ(client.shown.policy, policy) << text;
  }
  for (const char* text : {"", "3", "min", "rr "})
    EXPECT_EQ(errno_of("session.policy", {{"policy", text}}), EINVAL);
}

TEST_F(ClientControlTest, ReadOnlyCallerCannotChangeAnything) {
  caller.may_change = false;
  for (const char* method : {"path.add", "path.remove", "path.disconnect", "path.reconnect", "session.policy",
                             "session.recover", "device.map", "device.unmap", "device.remap", "stats.reset"})
    EXPECT_EQ(errno_of(method, {{"path", "0"}}), EPERM) << method;
  for (const char* method : {"client.show", "device.list", "stats", "debug.dump"})
    EXPECT_EQ(errno_of(method), 0) << method;
  EXPECT_TRUE(client.done.empty());
  EXPECT_TRUE(log.empty());
}

TEST_F(ClientControlTest, LoggedChangeIsOneLineWithoutControlCharacters) {
  ask("path.remove", {{"path", "x\nroot: done\x1b[2J"}});
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(log[0].find('\n'), std::string::npos);
  EXPECT_EQ(log[0].find('\x1b'), std::string::npos);
}

TEST_F(ClientControlTest, InvalidParametersAreRefused) {
  EXPECT_EQ(errno_of("path.remove", {{"pth", "0"}}), EINVAL);
  EXPECT_EQ(errno_of("path.remove", {{"path", 0}}), EINVAL);
  EXPECT_EQ(errno_of("path.remove", {{"path", std::string("0\0x", 3)}}), EINVAL);
  EXPECT_EQ(errno_of("path.remove"), EINVAL);
  EXPECT_EQ(ask("path.remov").error().hint, "did you mean \"path.remove\"?");
}

TEST_F(ClientControlTest, DeviceInUseIsUnmappedOnlyByForce) {
  client.error = EBUSY;
  EXPECT_EQ(errno_of("device.unmap", {{"device", "disk0"}}), EBUSY);
  EXPECT_EQ(errno_of("device.unmap", {{"device", "disk0"}, {"force", "true"}}), 0);
}

TEST_F(ClientControlTest, StatisticsOfOneOrAllPathsAreReset) {
  EXPECT_EQ(errno_of("stats.reset", {{"path", "1"}}), 0);
  EXPECT_EQ(client.done.size(), 1U);
  EXPECT_EQ(errno_of("stats.reset"), 0);
  EXPECT_EQ(client.done.size(), 4U);
}

TEST_F(ClientControlTest, StatisticsOfAnUnknownSessionAreRefused) {
  EXPECT_EQ(errno_of("stats.reset", {{"session", "web2"}}), ENOENT);
  EXPECT_EQ(errno_of("stats.reset", {{"session", "web2"}, {"path", "0"}}), ENOENT);
  EXPECT_TRUE(client.done.empty());
}

TEST_F(ClientControlTest, DumpShowsWhatEachPathWaitsFor) {
  client.shown.oldest = OldestRequest{seconds(98), 0, 1};
  const json session = (*ask("debug.dump"))["sessions"][0];
  EXPECT_EQ(session["paths"][1]["waits"], "the next attempt in 4.2 s");
  EXPECT_EQ(session["paths"][0]["waits"], "");
  EXPECT_EQ(session["oldest_request"]["age_s"], 2.0);
}

TEST(ClientEvents, FailoverEventHasThePathAndTheNewRequests) {
  ClientPathModel path = FakeClient().shown.paths[0];
  std::uint64_t seen = 0;
  EXPECT_TRUE(failover_json(path, seen).is_null());
  path.status.failovers = 5;
  const json told = failover_json(path, seen);
  EXPECT_EQ(
      told,
      (json{{"what", "failover"}, {"path", 0}, {"pathname", "ip:10.0.0.1@ip:10.0.0.2"}, {"requests", 5}}));
  EXPECT_TRUE(failover_json(path, seen).is_null()) << "reported once";
  path.status.failovers = 7;
  EXPECT_EQ(failover_json(path, seen)["requests"], 2);
  path.status.failovers = 3;
  EXPECT_EQ(failover_json(path, seen)["requests"], 3) << "the counter was reset in between";
  path.status.failovers = 0;
  EXPECT_TRUE(failover_json(path, seen).is_null());
}

TEST(ClientEvents, PathEventHasAttemptReasonAndTimeToTheNext) {
  PathEvent event;
  event.path = {1, PathState::waiting, Reason::connect_refused, 0, 3, milliseconds(4200)};
  const json told = event_json(event, "tcp");
  EXPECT_EQ(told["what"], "path");
  EXPECT_EQ(told["attempt"], 3);
  EXPECT_EQ(told["next_s"], 4.2);
  EXPECT_EQ(told["reason"], "connect_refused");
}

}  // namespace
}  // namespace rtrs::control::client_control_test
