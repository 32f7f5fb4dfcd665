// Session with the real server, on TCP over loopback in one process.
#include "backends/bindings/asio/session.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include "conformance/asio/loop.hpp"
#include "conformance/asio/memory_server.hpp"
#include "core/driver/test_held_fabric.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::conformance::session_test {
namespace {

std::unique_ptr<Fabric> open_fabric() {
  auto fabric = ofi::open_ofi_fabric({});
  if (!fabric) throw std::runtime_error(to_string(fabric.error()));
  return std::move(*fabric);
}

asio::SessionSettings settings_for(std::uint16_t port) {
  asio::SessionSettings settings;
  settings.client.session_name = "session_test";
  settings.client.paths = {PathAddress{"", "127.0.0.1", port}};
  settings.client.session_uuid.bytes[0] = 1;
  settings.client.path_uuids.resize(kMaxPaths);
  for (std::size_t i = 0; i < kMaxPaths; ++i)
    settings.client.path_uuids[i].bytes[0] = static_cast<std::uint8_t>(i + 2);
  settings.client.protocol.reconnect_min = milliseconds(5);
  settings.client.protocol.reconnect_jitter = 0;
  return settings;
}

struct SessInfo {
  std::array<std::byte, wire::rnbd::kSessInfoBytes> question{};
  std::array<std::byte, wire::rnbd::kSessInfoRspBytes> answer{};
  IoRequest request;

  SessInfo() {
    EXPECT_EQ(wire::rnbd::encode(wire::rnbd::SessInfo{}, question), question.size());
    request.service = true;
    request.user_header = question;
    request.data = answer;
  }
  bool answered() const { return static_cast<bool>(wire::rnbd::parse_sess_info_rsp(answer)); }
};

// A fabric that never answers; its wait_fd() is never readable.
class SilentFabric final : public test::HeldFabric {
 public:
  SilentFabric() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~SilentFabric() override { ::close(fd_); }
  void disconnect(ConKey key) override { events.emplace_back(event::ConnectionClosed{key}); }
  int wait_fd() const noexcept override { return fd_; }

 private:
  int fd_;
};

class SessionTest : public ::testing::Test {
 protected:
  boost::asio::io_context context;
  sim::MemoryDisks disks;
};

TEST_F(SessionTest, ServesCoroutines) {
  MemoryServer server(context, disks, {});
  asio::Session session(context, open_fabric(), settings_for(server.port()));
  SessInfo info;
  run(context, [&]() -> boost::asio::awaitable<void> {
    co_await session.async_open(boost::asio::use_awaitable);
    co_await session.async_request(info.request, boost::asio::use_awaitable);
    co_await session.async_close(boost::asio::use_awaitable);
  }());
  EXPECT_TRUE(info.answered());
  EXPECT_TRUE(session.client().closed());
}

// Clients that lose their server at the same moment must not all reconnect at the same moment.
TEST_F(SessionTest, L09SessionsUseDifferentReconnectDelays) {
  std::uint16_t port = 0;
  {
    MemoryServer server(context, disks, {});
    port = server.port();
  }
  std::array<Nanos, 2> delays{};
  for (std::size_t i = 0; i < delays.size(); ++i) {
    asio::SessionSettings settings = settings_for(port);
    settings.client.session_uuid.bytes[1] = static_cast<std::uint8_t>(i);
    settings.client.protocol.reconnect_min = seconds(10);
    settings.client.protocol.reconnect_jitter = seconds(10);
    settings.on_news = [&delays, i](const PathEvent& news) {
      if (news.path.state == PathState::waiting) delays[i] = news.path.delay;
    };
    asio::Session session(context, open_fabric(), settings);
    session.async_open([](Error) {});
    run_until(context, [&] { return delays[i] != 0; });
  }
  EXPECT_NE(delays[0], delays[1]);
}

TEST_F(SessionTest, HandlersNeverRunInsideTheCall) {
  MemoryServer server(context, disks, {});
  asio::Session session(context, open_fabric(), settings_for(server.port()));
  SessInfo info;
  bool inside = true;
  bool closed = false;
  session.async_open([&](Error opened) {
    EXPECT_FALSE(inside);
    EXPECT_FALSE(opened) << opened.message();
    inside = true;
    session.async_request(info.request, [&](Error answered) {
      EXPECT_FALSE(inside);
      EXPECT_FALSE(answered) << answered.message();
      session.async_close([&](Error) { closed = true; });
    });
    inside = false;
  });
  inside = false;
  run_until(context, [&] { return closed; });
  EXPECT_TRUE(info.answered());
}

TEST_F(SessionTest, BusyPollingServesRequests) {
  MemoryServer server(context, disks, {});
  auto settings = settings_for(server.port());
  settings.wait = asio::WaitMode::busy_poll;
  asio::Session session(context, open_fabric(), std::move(settings));
  SessInfo info;
  run(context, [&]() -> boost::asio::awaitable<void> {
    co_await session.async_open(boost::asio::use_awaitable);
    co_await session.async_request(info.request, boost::asio::use_awaitable);
    co_await session.async_close(boost::asio::use_awaitable);
  }());
  EXPECT_TRUE(info.answered());
}

TEST_F(SessionTest, OpenFailsWithoutAListenerAndRetries) {
  std::uint16_t port = 0;
  { port = MemoryServer(context, disks, {}).port(); }
  auto settings = settings_for(port);
  settings.client.protocol.max_reconnect_attempts = 0;
  asio::Session session(context, open_fabric(), std::move(settings));
  Error error;
  run(context, [&]() -> boost::asio::awaitable<void> { co_await session.async_open(into(error)); }());
  EXPECT_EQ(error, asio::to_error_code(Errc::no_path)) << error.message();
}

TEST_F(SessionTest, ErrorsAreReportedThroughTheHandler) {
  MemoryServer server(context, disks, {});
  asio::Session session(context, open_fabric(), settings_for(server.port()));
  SessInfo info;
  Error early;
  Error late;
  run(context, [&]() -> boost::asio::awaitable<void> {
    co_await session.async_request(info.request, into(early));
    co_await session.async_open(boost::asio::use_awaitable);
    co_await session.async_close(boost::asio::use_awaitable);
    co_await session.async_request(info.request, into(late));
    co_await session.async_close(boost::asio::use_awaitable);
  }());
  EXPECT_EQ(early, asio::to_error_code(Errc::not_open)) << early.message();
  EXPECT_EQ(late, asio::to_error_code(Errc::session_closed)) << late.message();
}

// The fabric reports no events, so only deadlines of the paths wake the loop.
TEST_F(SessionTest, PathOperationsSetTheirDeadlines) {
  asio::SessionSettings settings = settings_for(1);
  settings.client.protocol.connect_timeout = milliseconds(1);
  settings.client.protocol.reconnect_min = settings.client.protocol.reconnect_max = seconds(1'000'000);
  asio::Session session(context, std::make_unique<SilentFabric>(), settings);
  session.async_open([](const boost::system::error_code&) {});
  const auto until_waits = [&](unsigned path) {
    const auto waits = [&] { return session.client().paths()[path].state == PathState::waiting; };
    const Nanos end = asio::steady_now() + seconds(60);
    while (!waits() && asio::steady_now() < end) context.run_one_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(waits()) << path;
    // Runs all handlers that are ready.
    while (context.poll() != 0) continue;
  };
  until_waits(0);
  EXPECT_EQ(session.reconnect_path(0), Errc::ok);
  EXPECT_NE(session.client().paths()[0].state, PathState::waiting);
  until_waits(0);
  EXPECT_EQ(session.add_path(PathAddress{"", "127.0.0.2", 1}), Errc::ok);
  until_waits(1);
}

TEST_F(SessionTest, PathCallsReturnWhyTheyDidNothing) {
  MemoryServer server(context, disks, {});
  const asio::SessionSettings settings = settings_for(server.port());
  asio::Session session(context, open_fabric(), settings);
  run(context, [&]() -> boost::asio::awaitable<void> {
    co_await session.async_open(boost::asio::use_awaitable);
    EXPECT_EQ(session.add_path(settings.client.paths[0]), Errc::path_exists);
    for (const unsigned none : {1U, kMaxPaths}) {
      EXPECT_EQ(session.reconnect_path(none), Errc::no_such_path);
      EXPECT_EQ(session.disconnect_path(none), Errc::no_such_path);
      EXPECT_EQ(session.remove_path(none), Errc::no_such_path);
    }
    EXPECT_EQ(session.disconnect_path(0), Errc::ok);
    EXPECT_EQ(session.reconnect_path(0), Errc::ok);
    co_await session.async_close(boost::asio::use_awaitable);
    EXPECT_EQ(session.add_path(PathAddress{"", "127.0.0.2", server.port()}), Errc::session_closed);
  }());
}

}  // namespace
}  // namespace rtrs::conformance::session_test
