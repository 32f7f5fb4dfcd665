#include "tools/nbdkit/status.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/proto/reasons.hpp"
#include "tools/lib/text/test_schema.hpp"
#include "tools/nbdkit/status_file.hpp"

namespace rtrs::nbdkit::status_test {
namespace {

PathEvent change(std::uint16_t path, PathState state, Reason reason = Reason::none,
                 std::uint32_t attempt = 0) {
  PathEvent news;
  news.at = asio::steady_now();
  news.path = PathChanged{path, state, reason, 0, attempt, 0};
  return news;
}

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() {
    settings.paths = {"10.0.0.2", "10.0.1.2"};
    settings.devices = {"disk"};
    settings.session = "me";
    status.emplace(settings, [this](bool important, const std::string& line) {
      if (important) lines.push_back(line);
    });
  }
  nlohmann::json render() { return nlohmann::json::parse(status->render(asio::steady_now(), {}, {})); }

  plugin::Settings settings;
  std::vector<std::string> lines;
  std::optional<Status> status;
};

TEST_F(StatusTest, LossAttemptsAndReconnectOfAPathAreLogged) {
  status->on_path(change(0, PathState::connected), {});
  status->on_path(change(1, PathState::connected), {});
  EXPECT_TRUE(lines.empty());
  status->on_path(change(0, PathState::draining, Reason::heartbeat_lost), {});
  status->on_path(change(0, PathState::waiting, Reason::heartbeat_lost), {});
  status->on_path(change(0, PathState::waiting, Reason::connect_refused, 1), {});
  status->on_path(change(1, PathState::draining, Reason::peer_closed), {});
  status->on_path(change(0, PathState::connected), {});
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0],
            "session me, path 10.0.0.2 lost: nothing received for the dead-peer time [heartbeat_lost]; IO "
            "continues on 1 of 2 paths");
  EXPECT_EQ(lines[1],
            "session me, path 10.0.0.2: attempt 1, next in 0.0 s (last: connection refused "
            "[connect_refused]); IO continues on 1 of 2 paths");
  EXPECT_EQ(lines[2],
            "session me, path 10.0.1.2 lost: disconnected by the peer [peer_closed]; no path left, IO waits "
            "up to 2 min (queue_timeout)");
  EXPECT_EQ(lines[3].find("session me, path 10.0.0.2: connected again after "), 0U);
  EXPECT_NE(lines[3].find(" s (2 attempts); IO continues on 1 of 2 paths"), std::string::npos);
  const nlohmann::json shown = render();
  ASSERT_EQ(shown["events"].size(), 7U);
  EXPECT_EQ(shown["events"][2]["reason"], to_string(Reason::heartbeat_lost));
  EXPECT_EQ(shown["events"][2]["path"], 0);
  EXPECT_EQ(shown["events"][4]["attempt"], 1);
}

TEST_F(StatusTest, AttemptsOfAnEarlierOutageDoNotCount) {
  status->on_path(change(0, PathState::connected), {});
  for (const std::uint32_t failed : {3U, 0U, 1U}) {
    status->on_path(change(0, PathState::draining, Reason::heartbeat_lost), {});
    for (std::uint32_t attempt = 1; attempt <= failed; ++attempt)
      status->on_path(change(0, PathState::waiting, Reason::connect_refused, attempt), {});
    lines.clear();
    status->on_path(change(0, PathState::connected), {});
    ASSERT_EQ(lines.size(), 1U);
    const std::string attempts =
        failed == 0 ? " s (1 attempt);" : " s (" + std::to_string(failed + 1) + " attempts);";
    EXPECT_NE(lines[0].find(attempts), std::string::npos) << lines[0];
  }
}

TEST_F(StatusTest, RepeatedRejectionsAreLoggedLessAndLessOften) {
  status->on_path(change(0, PathState::connected), {});
  for (std::uint32_t attempt = 1; attempt <= 1000; ++attempt)
    status->on_path(change(1, PathState::waiting, Reason::rejected, attempt), {});
  ASSERT_EQ(lines.size(), 10U);  // lines for the failed attempts 1, 2, 4 .. 512
  EXPECT_EQ(lines[9].find("session me, path 10.0.1.2: attempt 512, next in 0.0 s (last: rejected by "
                          "the server [rejected])"),
            0U);
  status->on_path(change(1, PathState::closed, Reason::attempts_exhausted), {});
  EXPECT_EQ(lines[10],
            "session me, path 10.0.1.2 is closed and will not be retried: all reconnect attempts failed "
            "[attempts_exhausted] (last: rejected by the server [rejected]); IO continues on 1 of 2 paths");
}

TEST_F(StatusTest, NewAttemptIsLoggedWithTheLastReason) {
  std::vector<std::string> all;
  Status told(settings, [&all](bool, const std::string& line) { all.push_back(line); });
  told.on_path(change(0, PathState::waiting, Reason::connect_refused, 1), {});
  told.on_path(change(0, PathState::connecting), {});
  told.on_path(change(0, PathState::connected), {});
  told.on_path(change(0, PathState::draining, Reason::requested), {});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1], "session me, path 10.0.0.2: connecting, last: connection refused [connect_refused]");
}

TEST_F(StatusTest, LostReasonIsKeptAfterAReconnect) {
  const std::array<PathStatus, 2> paths;
  const auto cause = [&](std::size_t path) {
    return nlohmann::json::parse(status->render(asio::steady_now(), paths, {}))["paths"][path]["lost_reason"];
  };
  EXPECT_EQ(cause(0), "none");
  status->on_path(change(0, PathState::connected), {});
  status->on_path(change(0, PathState::draining, Reason::heartbeat_lost), {});
  status->on_path(change(0, PathState::waiting, Reason::connect_refused, 1), {});
  status->on_path(change(0, PathState::connected), {});
  EXPECT_EQ(cause(0), "heartbeat_lost");
  EXPECT_EQ(cause(1), "none");
  status->on_path(change(1, PathState::connected), {});
  status->on_path(change(1, PathState::closing, Reason::requested), {});
  status->on_path(change(1, PathState::connected), {});
  EXPECT_EQ(cause(1), "requested") << "a request by an operator is a reason too";
  status->on_path_added(0);
  EXPECT_EQ(cause(0), "none") << "another path";
  EXPECT_EQ(cause(1), "requested");
}

TEST_F(StatusTest, StartWithoutAConnectedPathIsLogged) {
  status->on_path(change(1, PathState::waiting, Reason::connect_timeout, 1), {});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("; no path is connected yet"), std::string::npos);
}

TEST_F(StatusTest, RequestedChangesAreNotImportant) {
  status->on_path(change(0, PathState::connected), {});
  status->on_path(change(0, PathState::closing, Reason::session_closed), {});
  asio::DeviceNews news;
  news.state = rnbd::DeviceState::unmapped;
  news.error = ENOENT;
  status->on_device("disk", news);
  EXPECT_TRUE(lines.empty());
  news.state = rnbd::DeviceState::closed;
  status->on_device("disk", news);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("No such file or directory (errno 2) [device_absent]"), std::string::npos)
      << lines[0];
}

TEST_F(StatusTest, LatencyIsCountedPerPhase) {
  const auto done = [this](Phase began, Nanos latency) { status->on_request_done(began, latency, false); };
  status->on_path(change(0, PathState::connected), {});
  done(Phase::before, microseconds(10));
  status->on_path(change(0, PathState::draining, Reason::peer_closed), {});
  done(Phase::before, seconds(1));
  done(Phase::during, seconds(2));
  status->on_path(change(0, PathState::connected), {});
  done(Phase::during, seconds(3));
  done(Phase::after, microseconds(20));
  const nlohmann::json latency = render()["latency"];
  EXPECT_EQ(latency["before"]["ios"], 1);
  EXPECT_EQ(latency["during"]["ios"], 3);
  EXPECT_EQ(latency["after"]["ios"], 1);
  EXPECT_EQ(latency["during"]["max_us"], 3e6);
  EXPECT_EQ(latency["after"]["mean_us"], 20.0);
}

TEST(DeviceReasonCodes, DifferFromPathReasonCodes) {
  for (unsigned i = 1; i < rnbd::kDeviceReasonCount; ++i) {
    const std::string_view code = rnbd::text_of(static_cast<rnbd::DeviceReason>(i)).code;
    EXPECT_EQ(text_of(code), nullptr) << code;
  }
}

TEST_F(StatusTest, RejectionSaysWhetherIoWaitsAndWhy) {
  asio::DeviceNews news;
  news.state = rnbd::DeviceState::closed;
  news.error = EBUSY;
  status->on_device("disk", news);
  EXPECT_EQ(render()["devices"][0]["reason"], "device_busy");
  news.error = EPERM;
  status->on_device("disk", news);
  EXPECT_EQ(render()["devices"][0]["reason"], "device_not_allowed");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("IO waits up to 2 min (queue_timeout)"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("IO fails"), std::string::npos) << lines[1];
  news.state = rnbd::DeviceState::open;
  news.error = 0;
  status->on_device("disk", news);
  EXPECT_EQ(render()["devices"][0]["reason"], "none");
}

TEST_F(StatusTest, ChangedBlockSizeIsLoggedWithBothValues) {
  asio::DeviceNews news;
  news.state = rnbd::DeviceState::open;
  news.geometry.nsectors = 16384;
  status->on_device("disk", news);
  news.state = rnbd::DeviceState::closed;
  status->on_device("disk", news);
  news.state = rnbd::DeviceState::open;
  news.geometry.logical_block_size = 4096;
  news.geometry.nsectors = 8192;
  status->on_device("disk", news);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("logical block size changed from 512 to 4096 bytes"), std::string::npos)
      << lines[0];
  EXPECT_NE(lines[0].find("size changed from 16384 to 8192 sectors"), std::string::npos) << lines[0];
  EXPECT_EQ(render()["devices"][0]["reason"], "device_block_size");
}

TEST_F(StatusTest, NewSizeIsImportant) {
  asio::DeviceNews news;
  news.state = rnbd::DeviceState::open;
  news.geometry.nsectors = 8;
  status->on_device("disk", news);
  EXPECT_TRUE(lines.empty());
  news.geometry.nsectors = 16;
  status->on_device("disk", news);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("size changed from 8 to 16 sectors"), std::string::npos);
  EXPECT_EQ(render()["size_bytes"], 8192);
}

TEST_F(StatusTest, LostCacheIsImportant) {
  asio::DeviceNews news;
  news.state = rnbd::DeviceState::open;
  news.geometry.nsectors = 8;
  status->on_device("disk", news);
  news.geometry = {};
  news.cache_replaced = true;
  status->on_device("disk", news);
  news.unflushed = 3;
  status->on_device("disk", news);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("every acknowledged write was flushed before"), std::string::npos);
  EXPECT_NE(lines[1].find("3 acknowledged writes were not flushed and may be lost"), std::string::npos);
  EXPECT_EQ(render()["size_bytes"], 4096) << "nothing else about the device changes";
}

TEST_F(StatusTest, EveryFieldIsDocumented) {
  std::ifstream in(URTRS_DOCS "/status.md");
  std::stringstream docs;
  docs << in.rdbuf();
  status->on_path(change(0, PathState::connected), {});
  const std::vector<PathStatus> paths(1);
  const auto shown = nlohmann::json::parse(status->render(asio::steady_now(), paths, {}));
  for (const nlohmann::json& object :
       {shown, shown["paths"][0], shown["devices"][0], shown["events"][0], shown["latency"]["before"]})
    for (const auto& [field, value] : object.items())
      EXPECT_NE(docs.str().find("`" + field + "`"), std::string::npos) << field;
}

// To update the file after a change: URTRS_WRITE_SCHEMA=1 build/release/tools/nbdkit/tools_nbdkit_tests
// --gtest_filter='StatusSchema.*'
TEST(StatusSchema, SchemaMatchesTheFields) {
  using tools::Schema;
  const auto list_of = [](const char* part) {
    return Schema{{"type", "array"}, {"items", {{"$ref", std::string("#/$defs/") + part}}}};
  };
  tools::expect_schema(URTRS_DOCS "/schema/nbdkit-urtrs-status.json", [&](Schema& parts) {
    for (auto [part, fields] : Status::fields()) {
      for (const tools::Field& field : std::vector(fields))
        if (field.old_name != nullptr) fields.push_back(field.with(&tools::Field::name, field.old_name + 1));
      parts[part] = tools::schema_of(fields);
    }
    parts["event"]["properties"]["path"]["minimum"] = -1;
    Schema phases;
    for (const char* phase : {"before", "during", "after"}) phases[phase]["$ref"] = "#/$defs/latency";
    const Schema oldest = tools::schema_of(
        {tools::field::real("age_s"), tools::field::plain("path"), tools::field::plain("connection")});
    parts["status"] = tools::schema_of(Status::fields().at("status"),
                                       {{"oldest_request", {{"anyOf", {{{"type", "null"}}, oldest}}}},
                                        {"devices", list_of("device")},
                                        {"paths", list_of("path")},
                                        {"latency", tools::schema_of({}, phases)},
                                        {"events", list_of("event")}});
    parts["status"]["properties"]["format"] = {{"const", 1}};
  });
}

TEST_F(StatusTest, EveryDeviceIsShownWithItsConnections) {
  settings.devices = {"a", "b"};
  status.emplace(settings, [this](bool, const std::string& line) { lines.push_back(line); });
  asio::DeviceNews news;
  news.state = rnbd::DeviceState::open;
  news.geometry.nsectors = 16;
  status->on_device("c", news);
  status->on_use("c", 2, true);
  news.geometry.nsectors = 32;
  status->on_device("b", news);
  nlohmann::json shown = render();
  ASSERT_EQ(shown["devices"].size(), 3U);
  EXPECT_EQ(shown["device"], "a") << "the first device of device=";
  EXPECT_EQ(shown["state"], "init");
  EXPECT_EQ(shown["devices"][1]["size_bytes"], 16384);
  EXPECT_EQ(shown["devices"][2]["name"], "c");
  EXPECT_EQ(shown["devices"][2]["size_bytes"], 8192) << "the size of another device does not change";
  EXPECT_EQ(shown["devices"][2]["connections"], 2);
  EXPECT_EQ(shown["devices"][2]["read_only"], true);
  EXPECT_EQ(shown["events"][0]["device"], "c");
  status->forget("c");
  status->forget("a");
  shown = render();
  ASSERT_EQ(shown["devices"].size(), 2U);
  EXPECT_EQ(shown["devices"][0]["name"], "a");
}

TEST_F(StatusTest, SessionWithoutDevicesHasTheDeviceFields) {
  settings.devices.clear();
  status.emplace(settings, [](bool, const std::string&) {});
  const nlohmann::json shown = render();
  EXPECT_EQ(shown["device"], "");
  EXPECT_EQ(shown["state"], "init");
  EXPECT_EQ(shown["size_bytes"], 0);
  EXPECT_TRUE(shown["devices"].empty());
}

TEST_F(StatusTest, UnansweredRequestIsLoggedEachTimeItsAgeDoubles) {
  const Nanos sent = asio::steady_now();
  const OldestRequest oldest{sent, 0, 2};
  EXPECT_TRUE(render()["oldest_request"].is_null());
  status->on_oldest_request(sent + seconds(29), &oldest);
  EXPECT_TRUE(lines.empty());
  for (const Nanos age : {seconds(30), seconds(59), seconds(60), seconds(119), seconds(225)})
    status->on_oldest_request(sent + age, &oldest);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[2].find("for 225.0 s: path 0 (10.0.0.2), connection 2"), std::string::npos) << lines[2];
  const nlohmann::json shown =
      nlohmann::json::parse(status->render(sent + seconds(225), {}, {}))["oldest_request"];
  EXPECT_EQ(shown["age_s"], 225.0);
  EXPECT_EQ(shown["path"], 0);
  EXPECT_EQ(shown["connection"], 2);
  status->on_oldest_request(sent + seconds(226), nullptr);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[3].find("answers again"), std::string::npos);
  EXPECT_TRUE(render()["oldest_request"].is_null());
}

TEST_F(StatusTest, DroppedEventsAreCounted) {
  for (int i = 0; i < 1003; ++i) status->on_path(change(0, PathState::connecting), {});
  const nlohmann::json shown = render();
  EXPECT_EQ(shown["events"].size(), 1000U);
  EXPECT_EQ(shown["events_dropped"], 3);
}

TEST_F(StatusTest, FileIsReplacedAtomically) {
  settings.status = ::testing::TempDir() + "status_test.json";
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(replace_file(settings.status, status->render(asio::steady_now(), {}, {})), 0);
  std::ifstream in(settings.status);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(nlohmann::json::parse(text.str())["device"], "disk");
  EXPECT_EQ(replace_file("/no/such/directory/file", "x"), ENOENT);
}

}  // namespace
}  // namespace rtrs::nbdkit::status_test
