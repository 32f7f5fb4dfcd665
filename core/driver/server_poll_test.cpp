// What a server does with messages and deadlines that are there at the same time.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/driver/server.hpp"
#include "core/driver/test_held_fabric.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {
namespace {

class ServerPollTest : public testing::Test {
 protected:
  ServerPollTest() : server(clamp_to(config(), fabric.capabilities()), nullptr) {
    EXPECT_EQ(server.listen(fabric, seconds(1), {}), Errc::ok);
    wire::ConnReq request;
    request.cid_num = 1;
    request.first_conn = true;
    request.sess_uuid.bytes[0] = request.paths_uuid.bytes[0] = 1;
    asked.resize(wire::encode(request, asked));
    named.resize(wire::encode(wire::InfoReq{wire::make_name("late").value}, named));
    fabric.events.emplace_back(event::ConnectRequested{1, 1, 1, asked, {}, Reason::none});
    poll(seconds(1));
  }
  static ServerConfig config() {
    ServerConfig one;
    one.queue_depth = 8;
    one.max_sessions = 2;
    return one;
  }
  std::vector<ServerEvent> poll(Nanos now) {
    std::array<ServerEvent, 8> out;
    const std::size_t count = server.poll(fabric, now, out);
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  // Events that nobody waits for, then the INFO_REQ of the only path.
  void ask_behind(std::size_t others) {
    ASSERT_EQ(fabric.accepts.size(), 1U);
    fabric.events.assign(others, event::SendDone{{9, 0, 77}, 0});
    fabric.events.emplace_back(event::MessageReceived{fabric.accepts.front(), {}, named});
  }
  // The clock jumps over the deadline of the handshake: the process was stopped. Whether the path is up.
  bool comes_up_late() {
    const std::vector<ServerEvent> events = poll(seconds(8) + config().handshake_timeout);
    return events.size() == 1 && events[0].kind == ServerEvent::Kind::session_opened;
  }

  std::vector<std::byte> asked = std::vector<std::byte>(wire::kConnReqBytes);
  std::vector<std::byte> named = std::vector<std::byte>(wire::kInfoReqBytes);
  test::HeldFabric fabric;
  Server server;
};

TEST_F(ServerPollTest, AMessageThatIsThereComesBeforeTheDeadlineThatMissesIt) {
  ask_behind(2000);
  EXPECT_TRUE(comes_up_late());
}

TEST_F(ServerPollTest, ARefusedNameIsToldWithTheSessionThatHoldsIt) {
  ask_behind(0);
  poll(seconds(1));
  wire::ConnReq request;
  request.cid_num = 1;
  request.first_conn = true;
  request.sess_uuid.bytes[0] = request.paths_uuid.bytes[0] = 2;
  ASSERT_EQ(wire::encode(request, asked), asked.size());
  fabric.events.emplace_back(event::ConnectRequested{2, 2, 2, asked, {}, Reason::none});
  poll(seconds(1));
  ASSERT_EQ(fabric.accepts.size(), 2U);
  fabric.events.emplace_back(event::MessageReceived{fabric.accepts.back(), {}, named});
  poll(seconds(1));
  PathEvent news;
  while (server.take_news(news) && news.path.reason != Reason::name_refused) {
  }
  ASSERT_EQ(news.path.reason, Reason::name_refused);
  EXPECT_EQ(news.refused_name, "late");
  EXPECT_EQ(news.refusal_words.find("session 0 holds it"), 0U) << news.refusal_words;
}

TEST_F(ServerPollTest, AlsoWhenTheFabricGivesItsEventsOneByOne) {
  ask_behind(20);
  fabric.at_a_time = 1;
  EXPECT_TRUE(comes_up_late());
}

TEST_F(ServerPollTest, AlsoWhenTheFabricHasToBeAskedToLook) {
  ask_behind(3);
  fabric.blind_polls = 30;
  EXPECT_TRUE(comes_up_late());
}

TEST_F(ServerPollTest, WithoutTheMessageThePathIsClosed) {
  EXPECT_FALSE(comes_up_late());
  EXPECT_EQ(server.sessions()[0].paths[0].reason, Reason::handshake_timeout);
}

TEST_F(ServerPollTest, AFloodDoesNotPutDeadlinesOffForEver) {
  ask_behind(1'000'000);
  EXPECT_FALSE(comes_up_late());
}

}  // namespace
}  // namespace rtrs
