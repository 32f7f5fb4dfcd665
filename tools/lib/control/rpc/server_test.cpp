// Tests a control socket with well-behaved and misbehaving clients: long lines, unread responses, too many
// connections.
#include "tools/lib/control/rpc/server.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::rpc::server_test {
namespace {

using nlohmann::json;
using std::chrono::seconds;

class RpcServerTest : public testing::Test {
 protected:
  RpcServerTest() { options.path = folder / "control.sock"; }
  ~RpcServerTest() override { stop(); }

  void start() {
    auto made = Server::listen(context, options,
                               [this](const Caller& caller, const Request& request, const Reply& reply) {
                                 serve(caller, request, reply);
                               });
    ASSERT_TRUE(made) << made.error();
    server = std::move(*made);
    thread = std::thread([this] { context.run(); });
  }
  void stop() {
    if (!thread.joinable()) return;
    boost::asio::post(context, [this] {
      server.reset();
      guard.reset();
    });
    thread.join();
  }
  void serve(const Caller& caller, const Request& request, const Reply& reply) {
    if (request.method == "who")
      return reply.result({{"uid", caller.uid}, {"may_change", caller.may_change}});
    if (request.method == "large") return reply.result({{"text", std::string(100'000, 'x')}});
    if (request.method == "later") {
      boost::asio::post(context, [reply] { reply.result({{"late", true}}); });
      return;
    }
    if (request.method == "chatter") {
      // Sends a notification every millisecond, but no response.
      server->broadcast("event", {{"serial", 1}});
      auto timer = std::make_shared<boost::asio::steady_timer>(context, std::chrono::milliseconds(1));
      timer->async_wait([this, timer, caller, request, reply](const auto& error) {
        if (!error && server != nullptr) serve(caller, request, reply);
      });
      return;
    }
    if (request.method == "watch") {
      reply.subscribe();
      return reply.result(json::object());
    }
    reply.error({Code::no_such_method, "unknown method " + request.method, "", 0});
  }
  Client client() {
    auto connected = Client::connect(options.path);
    EXPECT_TRUE(connected) << connected.error().message;
    return std::move(*connected);
  }
  // Returns all bytes up to the end of the stream.
  static std::string rest_of(int fd) {
    std::string got;
    std::vector<char> room(4096);
    for (ssize_t n = 0; (n = ::recv(fd, room.data(), room.size(), 0)) > 0;)
      got.append(room.data(), static_cast<std::size_t>(n));
    ::close(fd);
    return got;
  }
  // Returns a connected socket without a JSON-RPC client on it.
  int raw() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, options.path.data(), options.path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  tools::ScratchFolder folder;
  ServerOptions options;
  boost::asio::io_context context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{context.get_executor()};
  std::unique_ptr<Server> server;
  std::thread thread;
};

TEST_F(RpcServerTest, RespondsAtOnceAndLater) {
  start();
  Client asks = client();
  const auto now = asks.call("who", json::object());
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ((*now)["uid"], ::geteuid());
  EXPECT_EQ((*now)["may_change"], true);
  const auto later = asks.call("later", json::object());
  ASSERT_TRUE(later) << later.error().message;
  EXPECT_EQ((*later)["late"], true);
  const auto refused = asks.call("nothing", json::object());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::no_such_method);
}

TEST_F(RpcServerTest, OnlyOwnerAndGroupMayOpenTheSocket) {
  start();
  struct stat found {};
  ASSERT_EQ(::stat(options.path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0660U);
}

TEST_F(RpcServerTest, EndlessLineIsRefusedAndOthersAreServed) {
  start();
  const int fd = raw();
  const std::string much(kMaxLineBytes + 8192, 'x');
  static_cast<void>(::send(fd, much.data(), much.size(), MSG_NOSIGNAL));
  const std::string got = rest_of(fd);
  EXPECT_NE(got.find("a line has at most"), std::string::npos) << got;
  EXPECT_TRUE(client().call("who", json::object()));
}

TEST_F(RpcServerTest, LineLengthLimitIsExact) {
  start();
  const std::string request = R"({"jsonrpc":"2.0","id":1,"method":"who"})";
  const auto answer_to = [&](std::size_t bytes) {
    const int fd = raw();
    const std::string line = request + std::string(bytes - request.size(), ' ') + "\n";
    EXPECT_EQ(::send(fd, line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
    ::shutdown(fd, SHUT_WR);
    return rest_of(fd);
  };
  EXPECT_NE(answer_to(kMaxLineBytes).find("may_change"), std::string::npos);
  EXPECT_NE(answer_to(kMaxLineBytes + 1).find("a line has at most"), std::string::npos);
}

TEST_F(RpcServerTest, ExcessConnectionGetsAnError) {
  options.most_connections = 2;
  start();
  Client first = client();
  Client second = client();
  ASSERT_TRUE(first.call("watch", json::object()));
  ASSERT_TRUE(second.call("watch", json::object()));
  const auto third = client().call("who", json::object());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::busy) << third.error().message;
  EXPECT_TRUE(first.call("who", json::object()));
}

TEST_F(RpcServerTest, LongestIdleIsClosedForANewConnection) {
  options.most_connections = 3;
  start();
  Client watcher = client();
  Client idle = client();
  Client used = client();
  ASSERT_TRUE(watcher.call("watch", json::object()));
  ASSERT_TRUE(idle.call("who", json::object()));
  ASSERT_TRUE(used.call("who", json::object()));
  EXPECT_TRUE(client().call("who", json::object()));
  EXPECT_FALSE(idle.call("who", json::object()));
  EXPECT_TRUE(used.call("who", json::object()));
  EXPECT_TRUE(watcher.call("who", json::object()));
}

TEST_F(RpcServerTest, ClientThatDoesNotReadIsDisconnected) {
  options.most_unsent = 200'000;
  start();
  const int fd = raw();
  const std::string ask = request_line(1, "large", json::object()) + '\n';
  // Sending fails when the server has closed the connection.
  for (int i = 0; i < 1000; ++i)
    if (::send(fd, ask.data(), ask.size(), MSG_NOSIGNAL) < 0) break;
  EXPECT_TRUE(client().call("who", json::object()));
  std::vector<char> room(1 << 16);
  std::size_t got = 0;
  for (ssize_t n = 0; (n = ::recv(fd, room.data(), room.size(), 0)) > 0;) got += static_cast<std::size_t>(n);
  ::close(fd);
  EXPECT_LT(got, 1000U * 100'000U);
}

TEST_F(RpcServerTest, ClientThatReadsIsNeverDisconnected) {
  options.most_unsent = 200'000;
  start();
  Client asks = client();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(asks.call("large", json::object())) << i;
}

TEST_F(RpcServerTest, PipeliningClientThatReadsIsNotDisconnected) {
  options.most_unsent = 300'000;
  start();
  const int fd = raw();
  const std::string ask = request_line(1, "large", json::object()) + '\n';
  // Two responses together are larger than the socket buffers.
  for (int i = 0; i < 10; ++i) {
    const std::string two = ask + ask;
    ASSERT_EQ(::send(fd, two.data(), two.size(), MSG_NOSIGNAL), static_cast<ssize_t>(two.size())) << i;
    std::vector<char> room(1 << 16);
    for (std::ptrdiff_t lines = 0; lines < 2;) {
      const ssize_t got = ::recv(fd, room.data(), room.size(), 0);
      ASSERT_GT(got, 0) << i;
      lines += std::count(room.begin(), room.begin() + got, '\n');
    }
  }
  ::close(fd);
}

TEST_F(RpcServerTest, SubscriberReceivesBroadcasts) {
  start();
  Client watcher = client();
  ASSERT_TRUE(watcher.call("watch", json::object()));
  boost::asio::post(context, [this] { server->broadcast("event", {{"serial", 1}}); });
  const auto event = watcher.next(seconds(30));
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->method, "event");
  EXPECT_EQ(event->params["serial"], 1);
}

TEST_F(RpcServerTest, CallTimesOutDespiteNotifications) {
  start();
  Client asks = client();
  ASSERT_TRUE(asks.call("watch", json::object()));
  const auto answer = asks.call("chatter", json::object(), std::chrono::milliseconds(200));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().error, ETIMEDOUT) << answer.error().message;
}

TEST_F(RpcServerTest, MissingDescriptorIsLoggedOnce) {
  std::promise<std::string> told;
  unsigned times = 0;
  options.trouble = [&](const std::string& sentence) {
    if (++times == 1) told.set_value(sentence);
  };
  start();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, options.path.data(), options.path.size());
  const int newcomer = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int next = ::dup(newcomer);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(::connect(newcomer, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string sentence = told.get_future().get();
  // The sleep is long enough for several failed accept() calls, which are 100 ms apart.
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(
      sentence.find("accepting connections failed: Too many open files; raise the limit with ulimit -n"),
      std::string::npos)
      << sentence;
  EXPECT_TRUE(client().call("who", json::object())) << "accepts connections again";
  ::close(newcomer);
  stop();
  EXPECT_EQ(times, 1U);
}

TEST_F(RpcServerTest, StaleSocketIsReplaced) {
  start();
  stop();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, options.path.data(), options.path.size());
  const int left = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(left, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(left);
  context.restart();
  auto again = Server::listen(context, options, [](const Caller&, const Request&, const Reply&) {});
  EXPECT_TRUE(again) << again.error();
}

TEST_F(RpcServerTest, SocketInUseAndRegularFileAreNotReplaced) {
  start();
  auto second = Server::listen(context, options, [](const Caller&, const Request&, const Reply&) {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().find("another process listens on it"), std::string::npos);
  ServerOptions file = options;
  file.path = folder / "file";
  std::ofstream(file.path) << "text";
  auto third = Server::listen(context, file, [](const Caller&, const Request&, const Reply&) {});
  ASSERT_FALSE(third);
  EXPECT_NE(third.error().find("not a socket"), std::string::npos);
  EXPECT_TRUE(client().call("who", json::object()));
}

// Returns a listening socket with a queue of one connection. No process accepts connections.
int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(listener, 0), 0);
  return listener;
}

// The listen queue is full, and the server accepts no connection.
TEST(RpcClientTest, StalledPeerTimesOut) {
  const tools::ScratchFolder folder;
  const std::string path = folder / "control.sock";
  const int listener = listen_at(path);
  const auto first = Client::connect(path);
  EXPECT_TRUE(first);
  constexpr std::chrono::milliseconds kPatience{50};
  const auto before = std::chrono::steady_clock::now();
  const auto second = Client::connect(path, kPatience);
  EXPECT_GE(std::chrono::steady_clock::now() - before, kPatience) << "and not sooner";
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().error, ETIMEDOUT);
  ::close(listener);
}

// The server never reads from the socket.
TEST(RpcClientTest, PeerThatDoesNotReadTimesOut) {
  const tools::ScratchFolder folder;
  const std::string path = folder / "control.sock";
  const int listener = listen_at(path);
  auto one = Client::connect(path, std::chrono::milliseconds(50));
  ASSERT_TRUE(one);
  const auto answer =
      one->call("any", json{{"text", std::string(std::size_t{8} << 20, 'x')}}, std::chrono::milliseconds(0));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().error, ETIMEDOUT);
  EXPECT_NE(answer.error().message.find("cannot send"), std::string::npos) << answer.error().message;
  ::close(listener);
}

}  // namespace
}  // namespace rtrs::rpc::server_test
