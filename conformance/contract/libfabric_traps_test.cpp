// Bugs and pitfalls of the provider that the contract does not cover and that the backend works around
// (docs/fabric.md).
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "conformance/contract/libfabric_pair.hpp"

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

// True if the server closes the socket within 5 s.
bool closed_by_server(int fd) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  char byte = 0;
  return ::poll(&waiting, 1, 5000) == 1 && ::recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

TEST(LibfabricTraps, a_silent_client_is_closed) {
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

// Header of the provider's connect request; announces private data, which the caller may leave out.
std::string header_of_a_request() {
  constexpr std::size_t kPrivateData = 100;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::listen(listener, 8), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const auto fabric = ofi::open_ofi_fabric({});
  EXPECT_TRUE(fabric.has_value());
  if (!fabric) return {};
  const std::string data(kPrivateData, 'p');
  const ConKey key{.path = 0, .con = 0, .epoch = 1};
  (*fabric)->connect(key, {.source = {}, .destination = "127.0.0.1", .port = ntohs(address.sin_port)},
                     {.send_depth = 8, .receive_depth = 8}, bytes_of(data));
  pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
  const int peer = ::accept(listener, nullptr, nullptr);
  std::string request;
  waiting.fd = peer;
  std::array<FabricEvent, 4> events;
  for (unsigned round = 0; round < 500 && !request.ends_with(data); ++round) {
    (*fabric)->poll(steady_now(), events);
    std::array<char, 512> bytes;
    if (::poll(&waiting, 1, 10) != 1) continue;
    const ssize_t size = ::recv(peer, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size > 0) request.append(bytes.data(), static_cast<std::size_t>(size));
  }
  ::close(peer);
  ::close(listener);
  EXPECT_TRUE(request.ends_with(data));
  EXPECT_GT(request.size(), kPrivateData);
  return request.substr(0, request.size() - std::min(request.size(), kPrivateData));
}

int stalled_client(std::uint16_t port, const std::string& header) {
  const int fd = tcp_client(port);
  EXPECT_EQ(::send(fd, header.data(), header.size(), MSG_NOSIGNAL), static_cast<ssize_t>(header.size()));
  return fd;
}

// If each of this number of stalled clients delayed the others in turn, the total would exceed the delay that
// is tolerated for one silent client.
constexpr unsigned kStalled = 8;

class LibfabricStalls : public FabricContract {
 protected:
  void expect_io(const Link& link, unsigned count) {
    for (std::uint32_t imm = 0; imm < count; ++imm) {
      post_one(client(), empty_imm(link.client, imm));
      ASSERT_EQ(expect(server(), SeenEvent::Kind::imm_received, link.server).imm, imm);
    }
  }
};

// Tests with a server whose timeout for the rest of a request is 10 minutes.
class LibfabricLongStalls : public LibfabricStalls {};

TEST_P(LibfabricLongStalls, stalled_clients_delay_neither_io_nor_other_clients) {
  const std::string header = header_of_a_request();
  const Link link = open_link();
  const std::uint16_t port = pair().server_address().port;
  const std::array<int, 3> stalled{stalled_client(port, header), stalled_client(port, header.substr(0, 4)),
                                   tcp_client(port)};
  expect_io(link, 2000);
  const Link admitted = open_link();
  expect_io(admitted, 100);
  EXPECT_EQ(server().count(SeenEvent::Kind::connect_requested), 0u);
  for (const int fd : stalled) {
    char byte = 0;
    EXPECT_EQ(::recv(fd, &byte, 1, MSG_DONTWAIT), -1) << "closed before its timeout";
    EXPECT_EQ(errno, EAGAIN);
    ::close(fd);
  }
  close_link(admitted);
  close_link(link);
}

// True if a connect request arrives within about 5 s. Polls `client` too, unless null.
bool is_requested(ofi::OfiFabric& server, ofi::OfiFabric* client = nullptr) {
  std::array<FabricEvent, 4> events;
  for (unsigned round = 0; round < 5000; ++round) {
    if (client != nullptr) client->poll(steady_now(), events);
    const std::size_t count = server.poll(steady_now(), events);
    for (const FabricEvent& event : std::span(events).first(count))
      if (std::holds_alternative<event::ConnectRequested>(event)) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

bool is_open(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

TEST(LibfabricTraps, oldest_of_too_many_handshakes_is_closed_and_requests_still_arrive) {
  ofi::OfiOptions options;
  options.handshake_timeout_ms = 600'000;
  options.max_handshakes = 4;
  const auto pair = LibfabricPair::open("tcp", "127.0.0.1", options);
  ASSERT_NE(pair, nullptr);
  ASSERT_EQ(pair->server().listen(pair->listen_address()), Errc::ok);
  const std::uint16_t port = pair->server_address().port;
  const std::string request = header_of_a_request() + std::string(100, 'p');
  std::vector<int> whole;
  std::array<int, 5> silent{};
  for (int& fd : silent) {
    fd = tcp_client(port);
    // Clients are accepted in order: when the complete request of the next client has arrived, the silent
    // client before it was accepted too. After 2 ms, the following client has a later arrival time.
    whole.push_back(stalled_client(port, request));
    EXPECT_TRUE(is_requested(pair->server()));
    const Nanos arrived = steady_now();
    while (steady_now() < arrived + milliseconds(2)) {
    }
  }
  EXPECT_TRUE(closed_by_server(silent[0]));
  EXPECT_TRUE(closed_by_server(silent[1]));
  for (const int fd : {silent[2], silent[3], silent[4]}) EXPECT_TRUE(is_open(fd));
  const ConKey key{.path = 0, .con = 0, .epoch = 1};
  pair->client().connect(key, pair->server_address(), {.send_depth = 8, .receive_depth = 8}, {});
  EXPECT_TRUE(is_requested(pair->server(), &pair->client()));
  EXPECT_GE(pair->server().stats().reaped_handshakes, 2u);
  for (const int fd : silent) ::close(fd);
  for (const int fd : whole) ::close(fd);
}

TEST_P(LibfabricStalls, clients_connect_while_others_stall_after_a_complete_header) {
  const std::string header = header_of_a_request();
  const Link link = open_link();
  std::vector<int> stalled;
  for (unsigned i = 0; i < kStalled; ++i)
    stalled.push_back(stalled_client(pair().server_address().port, header));
  const Link admitted = open_link();
  expect_io(link, 100);
  expect_io(admitted, 100);
  for (const int fd : stalled) {
    EXPECT_TRUE(closed_by_server(fd));
    ::close(fd);
  }
  close_link(admitted);
  close_link(link);
}

// An address that does not answer: a listening socket with a full backlog. The kernel drops further SYNs.
class SilentAddress {
 public:
  SilentAddress() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_, 0), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    waiting_ = tcp_client(port_);
  }
  ~SilentAddress() {
    ::close(waiting_);
    ::close(listener_);
  }
  SilentAddress(const SilentAddress&) = delete;
  SilentAddress& operator=(const SilentAddress&) = delete;
  PathAddress get() const { return {.source = {}, .destination = "127.0.0.1", .port = port_}; }

 private:
  int listener_ = -1;
  int waiting_ = -1;
  std::uint16_t port_ = 0;
};

TEST_P(LibfabricStalls, connect_to_a_silent_address_blocks_no_io_and_can_be_cancelled) {
  const SilentAddress silent;
  const Link link = open_link();
  const ConKey key = fresh_key();
  const Nanos start = pair().now();
  client().fabric().connect(key, silent.get(), params(), bytes_of("hello"));
  expect_io(link, 1000);
  EXPECT_EQ(client().count(SeenEvent::Kind::connect_failed, key), 0u) << "the address did answer";
  EXPECT_EQ(client().count(SeenEvent::Kind::connected, key), 0u) << "the address did answer";
  client().fabric().disconnect(key);
  expect(client(), SeenEvent::Kind::connection_closed, key);
  // TCP itself gives up after two minutes; the backend must not wait for that.
  EXPECT_LT(pair().now() - start, Nanos{60'000'000'000});
  run_until_quiet();
  EXPECT_TRUE(client().events().empty());
  close_link(link);
  close_link(open_link());
}

// TCP_USER_TIMEOUT in milliseconds of each TCP socket of this process, except listening sockets.
std::vector<unsigned> user_timeouts() {
  std::vector<unsigned> found;
  for (int fd = 0; fd < 1024; ++fd) {
    unsigned timeout = 0;
    socklen_t size = sizeof timeout;
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size) == 0 &&
        ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0)
      found.push_back(timeout);
  }
  return found;
}

TEST_P(LibfabricStalls, tcp_user_timeout_is_the_dead_peer_time) {
  const Link link = open_link();
  expect_io(link, 1000);
  EXPECT_EQ(user_timeouts(), (std::vector<unsigned>{30'000, 30'000}));
  close_link(link);
}

std::unique_ptr<FabricPair> make_strict_pair() {
  ofi::OfiOptions options;
  options.handshake_timeout_ms = 1000;
  options.handshake_stall_ms = 250;
  return LibfabricPair::open("tcp", "127.0.0.1", options);
}
std::unique_ptr<FabricPair> make_patient_pair() {
  ofi::OfiOptions options;
  options.handshake_timeout_ms = options.handshake_stall_ms = 600'000;
  return LibfabricPair::open("tcp", "127.0.0.1", options);
}
INSTANTIATE_TEST_SUITE_P(Libfabric, LibfabricStalls, ::testing::Values(FabricCase{"tcp", make_strict_pair}),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Libfabric, LibfabricLongStalls,
                         ::testing::Values(FabricCase{"tcp", make_patient_pair}), case_name);

TEST(LibfabricTraps, opening_a_fabric_removes_the_signal_handlers_of_psm) {
  ASSERT_TRUE(ofi::open_ofi_fabric({}).has_value());
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << number;
  }
}

TEST(LibfabricTraps, an_unknown_provider_is_logged_and_refused) {
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
