// Tests the page, invalid requests, and clients that connect but send nothing.
#include "tools/lib/control/http/text_server.hpp"

#include <gtest/gtest.h>
#include <sys/un.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tools/lib/control/http/text_address.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::http::text_server_test {
namespace {

namespace asio = boost::asio;

class TextServerTest : public testing::Test {
 protected:
  void start(TextServerOptions options = {}) {
    if (options.address.empty()) options.address = "127.0.0.1:0";
    auto made = TextServer::listen(context, options,
                                   [this] { return "page " + std::to_string(++pages) + "\n" + large; });
    ASSERT_TRUE(made) << made.error().sentence;
    server = std::move(*made);
    address = server->address();
    thread = std::thread([this] { context.run(); });
  }
  ~TextServerTest() override {
    if (!thread.joinable()) return;
    asio::post(context, [this] {
      server.reset();
      guard.reset();
    });
    // Stops the loop at once, because open connections would last until their time limit.
    context.stop();
    thread.join();
  }
  asio::ip::tcp::socket connected() {
    asio::ip::tcp::socket socket(own);
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    socket.connect({asio::ip::make_address("127.0.0.1"), port});
    return socket;
  }
  template <class Socket>
  static std::string ask(Socket&& socket, const std::string& request) {
    boost::system::error_code error;
    asio::write(socket, asio::buffer(request), error);
    std::string answer;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    return answer;
  }

  asio::io_context context;
  asio::io_context own;
  asio::executor_work_guard<asio::io_context::executor_type> guard{context.get_executor()};
  std::unique_ptr<TextServer> server;
  std::string address;
  int pages = 0;
  std::string large;
  std::thread thread;
};

TEST_F(TextServerTest, ServesThePage) {
  start();
  EXPECT_TRUE(server->is_loopback());
  const std::string answer = ask(connected(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(answer.rfind("HTTP/1.1 200", 0), 0U) << answer;
  EXPECT_NE(answer.find("version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("\r\n\r\npage 1\n"), std::string::npos);
  EXPECT_NE(ask(connected(), "GET /metrics?x=1 HTTP/1.0\r\n\r\n").find("page 2"), std::string::npos);
  EXPECT_EQ(ask(connected(), "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").find("page"), std::string::npos);
}

TEST_F(TextServerTest, OtherRequestsAreRefused) {
  start();
  EXPECT_NE(ask(connected(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n").find(" 404 "), std::string::npos);
  const std::string refused = ask(connected(), "DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(refused.find(" 405 "), std::string::npos);
  EXPECT_NE(refused.find("Allow: GET, HEAD\r\n"), std::string::npos) << refused;
  EXPECT_EQ(ask(connected(), "\x16\x03\x01 hello\r\n\r\n"), "");
  const std::string much = "GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n";
  EXPECT_EQ(ask(connected(), much).find(" 200 "), std::string::npos);
  EXPECT_EQ(pages, 0);
}

TEST_F(TextServerTest, SilentConnectionsAreBounded) {
  TextServerOptions options;
  options.most_connections = 2;
  start(options);
  auto first = connected();
  auto second = connected();
  // One thread accepts connections in order: the first two are accepted before the third one, which replaces
  // the first one.
  EXPECT_NE(ask(connected(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").find(" 200 "), std::string::npos);
  EXPECT_EQ(ask(first, ""), "");
  EXPECT_NE(ask(second, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").find(" 200 "), std::string::npos);
}

TEST_F(TextServerTest, ConnectionsWithARequestAreNotReplaced) {
  // Larger than the socket buffers, so that sending blocks while the client does not read.
  large.assign(std::size_t{16} << 20, 'x');
  TextServerOptions options;
  options.most_connections = 1;
  start(options);
  auto reader = connected();
  asio::write(reader, asio::buffer(std::string("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")));
  char begun = 0;
  asio::read(reader, asio::buffer(&begun, 1));
  EXPECT_EQ(ask(connected(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "");
}

TEST_F(TextServerTest, SilentConnectionTimesOut) {
  TextServerOptions options;
  options.patience = std::chrono::milliseconds(1);
  start(options);
  auto silent = connected();
  std::string got;
  boost::system::error_code error;
  asio::read(silent, asio::dynamic_buffer(got), error);
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_EQ(got, "");
}

TEST_F(TextServerTest, ServesOnAUnixSocket) {
  const tools::ScratchFolder folder;
  TextServerOptions options;
  options.address = folder / "metrics.sock";
  start(options);
  asio::local::stream_protocol::socket socket(own);
  socket.connect({options.address});
  EXPECT_NE(ask(socket, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").find("page 1"), std::string::npos);
}

TEST_F(TextServerTest, UnixSocketIsRemovedOnlyByItsServer) {
  const tools::ScratchFolder folder;
  TextServerOptions options;
  options.address = folder / "metrics.sock";
  const auto page = [] { return std::string("page\n"); };
  auto first = TextServer::listen(own, options, page);
  ASSERT_TRUE(first) << first.error().sentence;
  const auto second = TextServer::listen(own, options, page);
  ASSERT_FALSE(second) << "the socket is in use";
  EXPECT_NE(second.error().sentence.find("another process listens on it"), std::string::npos)
      << second.error().sentence;
  EXPECT_TRUE(std::filesystem::exists(options.address));
  first->reset();
  EXPECT_FALSE(std::filesystem::exists(options.address));
}

TEST_F(TextServerTest, OnlyAStaleSocketIsReplaced) {
  const tools::ScratchFolder folder;
  TextServerOptions options;
  options.address = folder / "metrics.sock";
  { asio::local::stream_protocol::acceptor killed(own, options.address); }
  ASSERT_TRUE(std::filesystem::exists(options.address));
  EXPECT_TRUE(TextServer::listen(own, options, [] { return std::string(); }));
  options.address = folder / "file";
  std::ofstream(options.address) << "precious";
  EXPECT_FALSE(TextServer::listen(own, options, [] { return std::string(); }));
  EXPECT_EQ(std::filesystem::file_size(options.address), 8U);
}

// Connecting to a datagram socket fails although a process uses it. The server must not take this for the
// socket of a dead process.
TEST_F(TextServerTest, DatagramSocketIsNotReplaced) {
  const tools::ScratchFolder folder;
  TextServerOptions options;
  options.address = folder / "metrics.sock";
  const asio::local::datagram_protocol::socket lives(own, options.address);
  EXPECT_FALSE(TextServer::listen(own, options, [] { return std::string(); }));
  EXPECT_TRUE(std::filesystem::exists(options.address));
}

TEST_F(TextServerTest, ClosedConnectionsDoNotCount) {
  TextServerOptions options;
  options.most_connections = 2;
  start(options);
  for (int i = 1; i <= 20; ++i)
    EXPECT_NE(ask(connected(), "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").find(" 200 "), std::string::npos)
        << i;
}

TEST_F(TextServerTest, UnusableAddressesAreRefused) {
  for (const char* wrong :
       {"127.0.0.1", "localhost:1", ":1", "127.0.0.1:70000", "127.0.0.1:x", "192.0.2.1:1"}) {
    TextServerOptions options;
    options.address = wrong;
    EXPECT_FALSE(TextServer::listen(context, options, [] { return std::string(); })) << wrong;
  }
}

TEST(TextAddress, ParsesEachKindOfAddress) {
  const auto one = parse_text_address("[::1]:9469");
  ASSERT_TRUE(one) << one.error();
  EXPECT_EQ(one->host, "::1");
  EXPECT_EQ(one->port, 9469);
  EXPECT_EQ(one->socket, "");
  EXPECT_EQ(parse_text_address("fe80::1%eth0:1").value().host, "fe80::1%eth0");
  EXPECT_EQ(parse_text_address("127.0.0.1:65535").value().port, 65535);
  EXPECT_EQ(parse_text_address("/run/a:1").value().socket, "/run/a:1");
  for (const char* wrong : {"", ":", "[]:1", "[::1:1", "[127.0.0.1:1", "127.0.0.1:", "127.0.0.1:65536",
                            "127.0.0.1:1x", "127.0.0.1:-1", "%eth0:1", "run/a"})
    EXPECT_FALSE(parse_text_address(wrong)) << wrong;
}

TEST(TextAddress, SocketPathLeavesRoomForTheZeroByte) {
  constexpr std::size_t kRoom = sizeof(sockaddr_un::sun_path);
  EXPECT_TRUE(parse_text_address("/" + std::string(kRoom - 2, 'x')));
  const auto too_long = parse_text_address("/" + std::string(kRoom - 1, 'x'));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error(), "the name of a unix socket has at most 107 bytes");
}

}  // namespace
}  // namespace rtrs::http::text_server_test
