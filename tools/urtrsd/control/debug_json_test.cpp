#include "tools/urtrsd/control/debug_json.hpp"

#include <gtest/gtest.h>

#include <array>

#include "core/rnbd/io_request.hpp"

namespace rtrs::daemon::debug_json_test {
namespace {

constexpr Nanos kNow = seconds(100);

ServerSessionStatus session() {
  ServerSessionStatus one;
  one.session = 2;
  one.name = "web1";
  ServerPathStatus path;
  path.path = 1;
  path.peer = "10.0.0.1:5 > 10.0.0.2:1234";
  path.state = PathState::connected;
  path.since = seconds(40);
  one.paths = {path};
  return one;
}

TEST(DebugJson, RequestShowsItsKindAndWhatItWaitsFor) {
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  wire::rnbd::Io io;
  io.device_id = 9;
  io.sector = 16;
  io.size = 4096;
  (void)rnbd::encode_io(io, header);
  RequestInFlight request;
  request.chunk = 7;
  request.path = 1;
  request.waits = RequestInFlight::Waits::storage;
  request.arrived = seconds(80);
  request.since = kNow - milliseconds(12'300);
  request.user_header = header;
  const nlohmann::json shown = to_json(request, session(), "disk0", "in progress in the kernel", kNow);
  EXPECT_EQ(shown["session"], "web1");
  EXPECT_EQ(shown["path"], "ip:10.0.0.1@ip:10.0.0.2");
  EXPECT_EQ(shown["device"], "disk0");
  EXPECT_EQ(shown["opcode"], "read");
  EXPECT_EQ(shown["sector"], 16);
  EXPECT_EQ(shown["sectors"], 8);
  EXPECT_EQ(shown["state"], "storage");
  EXPECT_EQ(shown["waits"], "in storage since 12.3 s: in progress in the kernel");
  EXPECT_EQ(shown["age_s"], 20.0);
  request.waits = RequestInFlight::Waits::gate;
  EXPECT_EQ(to_json(request, session(), "", "", kNow)["waits"],
            "gated behind permit 7, which an older request of another path uses since 12.3 s");
}

TEST(DebugJson, UnknownHeadersAndPathsAreShown) {
  const std::array<std::byte, 3> header{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  RequestInFlight request;
  request.path = 6;
  request.user_header = header;
  const nlohmann::json shown = to_json(request, session(), "", "", kNow);
  EXPECT_EQ(shown["message"], "unknown");
  EXPECT_EQ(shown["path"], "?");
  EXPECT_FALSE(shown.contains("opcode"));
}

TEST(DebugJson, PathsShowWhatTheyWaitFor) {
  ServerSessionStatus one = session();
  EXPECT_EQ(waits_of(one, nullptr, kNow)["paths"][0]["waits"], "");
  one.paths[0].state = PathState::connecting;
  one.paths[0].connections = 1;
  one.paths[0].connections_wanted = 3;
  one.paths[0].handshake_deadline = kNow + seconds(4);
  EXPECT_EQ(waits_of(one, nullptr, kNow)["paths"][0]["waits"],
            "1 of 3 connections exist; closed in 4.0 s unless the client completes it");
  one.paths[0].state = PathState::closing;
  one.paths[0].reason = Reason::heartbeat_lost;
  one.paths[0].in_service = 2;
  const nlohmann::json path = waits_of(one, nullptr, kNow)["paths"][0];
  EXPECT_EQ(path["waits"], "waits for 1 connections to close and 2 requests to end");
  EXPECT_EQ(path["reason"], "heartbeat_lost");
  EXPECT_EQ(path["since_s"], 60.0);
}

TEST(DebugJson, OnlyPrintedPlacesAreParsed) {
  EXPECT_EQ(parse_place(""), DumpPlace{});
  EXPECT_EQ(parse_place(to_text({3, 511})), (DumpPlace{3, 511}));
  for (const char* text : {":", "1", "1:", ":1", "1:2x", "70000:1", "1:70000", "-1:2", " 1:2"})
    EXPECT_FALSE(parse_place(text)) << text;
}

}  // namespace
}  // namespace rtrs::daemon::debug_json_test
