// Bugs and traps of the provider that no contract clause covers, each contained by the backend
// (docs/fabric.md).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "conformance/fabric/libfabric_pair.hpp"

namespace rtrs::conformance {
namespace {

int tcp_client(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// True when the server closed the socket within five seconds.
bool closed_by_server(int fd) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  char byte = 0;
  return ::poll(&waiting, 1, 5000) == 1 && ::recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

TEST(LibfabricTraps, a_client_that_says_nothing_is_closed) {
  ofi::OfiOptions options;
  options.handshake_timeout_ms = 200;
  const auto pair = LibfabricPair::open("tcp", "127.0.0.1", options);
  ASSERT_NE(pair, nullptr);
  ASSERT_EQ(pair->server().listen(pair->listen_address()), Errc::ok);
  const int silent = tcp_client(pair->server_address().port);
  EXPECT_TRUE(closed_by_server(silent));
  EXPECT_EQ(pair->server().stats().reaped_handshakes, 1u);
  ::close(silent);
}

TEST(LibfabricTraps, a_client_that_sends_half_a_header_is_closed) {
  const auto pair = LibfabricPair::open("tcp", "127.0.0.1");
  ASSERT_NE(pair, nullptr);
  ASSERT_EQ(pair->server().listen(pair->listen_address()), Errc::ok);
  const int stalled = tcp_client(pair->server_address().port);
  ASSERT_EQ(::send(stalled, "half", 4, MSG_NOSIGNAL), 4);
  EXPECT_TRUE(closed_by_server(stalled));
  EXPECT_EQ(pair->server().stats().reaped_handshakes, 0u);
  ::close(stalled);
}

TEST(LibfabricTraps, signal_handlers_of_psm_are_gone_once_a_fabric_is_open) {
  ASSERT_TRUE(ofi::open_ofi_fabric({}).has_value());
  EXPECT_EQ(ofi::restore_signal_handlers(), 0u);
  struct sigaction action {};
  ASSERT_EQ(sigaction(SIGTERM, nullptr, &action), 0);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

TEST(LibfabricTraps, an_unknown_provider_is_an_error_that_the_log_explains) {
  ofi::OfiOptions options;
  options.provider = "nosuch";
  std::string said;
  options.log = [&](ofi::LogLevel, const std::string& text) { said += text; };
  const auto fabric = ofi::open_ofi_fabric(options);
  ASSERT_FALSE(fabric.has_value());
  EXPECT_EQ(fabric.error(), Errc::not_supported);
  EXPECT_NE(said.find("nosuch"), std::string::npos) << said;
}

}  // namespace
}  // namespace rtrs::conformance
