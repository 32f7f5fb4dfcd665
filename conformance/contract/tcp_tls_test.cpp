// Statistics and limits of TLS.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/platform/address/socket_address.hpp"
#include "backends/platform/address/unique_fd.hpp"
#include "backends/platform/tls/channel.hpp"
#include "backends/platform/tls/test_credentials.hpp"
#include "conformance/contract/contract.hpp"
#include "conformance/contract/tcp_pair.hpp"
#include "core/iwarp/greeting.hpp"
#include "core/tcp/tcp_connection.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

tls::TestCredentials& credentials() {
  static tls::TestCredentials made;
  return made;
}

// Encrypts with OpenSSL, so that the result does not depend on the kernel's features.
tcp::TlsOptions with(tls::Credentials given) {
  given.kernel = false;
  const auto context = tls::open_context(given);
  EXPECT_TRUE(context) << context.error();
  return {.context = context ? *context : nullptr, .allow_plain = false};
}

std::unique_ptr<FabricPair> make_certificate() {
  return TcpPair::open("127.0.0.1", {}, with(credentials().issue({})));
}

// A client that sends arbitrary bytes over TLS.
class Stranger {
 public:
  Stranger(const tcp::TlsOptions& tls, const net::SocketAddress& to)
      : channel_(tls.context->open_channel(tls::Side::client, "127.0.0.1", -1, buffers_)),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    EXPECT_EQ(::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    EXPECT_EQ(::connect(socket_.get(), to.get(), to.length), 0);
    continue_handshake();
  }
  int socket() const { return socket_.get(); }
  bool established() const { return channel_->established(); }
  void continue_handshake() {
    const ssize_t got = ::recv(socket_.get(), sealed_.data(), sealed_.size(), MSG_DONTWAIT);
    channel_->open(std::span(sealed_).first(static_cast<std::size_t>(std::max<ssize_t>(got, 0))), plain_);
    flush();
  }
  void send(std::span<const std::byte> bytes) {
    seal(bytes);
    flush();
  }
  // Sends `first` and `second` in one piece and corrupts the last encrypted byte of `second`.
  void send_and_corrupt(std::span<const std::byte> first, std::span<const std::byte> second) {
    seal(first);
    seal(second);
    std::vector<std::byte> sealed(channel_->output().begin(), channel_->output().end());
    sealed.back() ^= std::byte{1};
    EXPECT_EQ(::send(socket_.get(), sealed.data(), sealed.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(sealed.size()));
    channel_->sent(sealed.size());
  }

 private:
  void seal(std::span<const std::byte> bytes) { EXPECT_EQ(channel_->seal({&bytes, 1}, 0), bytes.size()); }
  void flush() {
    const std::span<const std::byte> output = channel_->output();
    EXPECT_EQ(::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(output.size()));
    channel_->sent(output.size());
  }
  tls::SealedBuffers buffers_;
  std::unique_ptr<tls::Channel> channel_;
  net::UniqueFd socket_;
  std::array<std::byte, 4096> sealed_{};
  std::array<std::byte, 4096 + tls::kRecordBytes> plain_{};
};

class TcpTls : public FabricContract {
 protected:
  tcp::TcpStats stats(Side& side) { return dynamic_cast<tcp::TcpFabric&>(side.fabric()).stats(); }
  void use(Side& side, const tcp::TlsOptions& tls) {
    tcp::set_tls(dynamic_cast<tcp::TcpFabric&>(side.fabric()), tls);
  }
  // Accepts the client after it has sent `too_early` directly behind its connect request; returns the
  // server's key.
  ConKey accept_client(Stranger& stranger, std::string_view too_early) {
    EXPECT_TRUE(run_until([&] {
      stranger.continue_handshake();
      return stranger.established();
    }));
    std::array<std::byte, iwarp::kMaxGreetingBytes> frame;
    stranger.send(std::span(frame).first(iwarp::write_request({}, bytes_of("hello"), frame)));
    const SeenEvent request = expect(server(), Kind::connect_requested);
    if (!too_early.empty()) stranger.send(bytes_of(too_early));
    const ConKey key = fresh_key();
    server().fabric().accept(request.request, key, params(), bytes_of("welcome"));
    return key;
  }
  SeenEvent attempt() {
    const ConKey key = fresh_key();
    client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
    SeenEvent failed = expect(client(), Kind::connect_failed, key);
    client().fabric().disconnect(key);
    expect(client(), Kind::connection_closed, key);
    run_until_quiet();
    return failed;
  }
};

TEST_P(TcpTls, connections_and_resumed_sessions_are_counted) {
  for (const std::uint64_t before : {0U, 1U, 2U}) {
    close_link(open_link());
    for (Side* const side : {&client(), &server()}) {
      EXPECT_EQ(stats(*side).tls_connections, before + 1);
      EXPECT_EQ(stats(*side).tls_resumed, before);
      EXPECT_EQ(stats(*side).tls_in_kernel, 0U);
      EXPECT_EQ(stats(*side).tls_refused, 0U);
    }
  }
}

TEST_P(TcpTls, refused_peers_are_counted) {
  tls::TestCredentials other;
  tls::Credentials stranger = other.issue({});
  stranger.ca = credentials().issue({}).ca;
  use(client(), with(stranger));
  EXPECT_EQ(attempt().reason, Reason::tls_failed);
  EXPECT_EQ(stats(server()).tls_refused, 1U);
  EXPECT_EQ(stats(client()).tls_refused, 1U);
  use(client(), with(other.issue({})));
  EXPECT_EQ(attempt().reason, Reason::tls_failed);
  EXPECT_EQ(stats(server()).tls_refused, 2U);
  EXPECT_EQ(stats(client()).tls_refused, 2U);
  use(client(), {});
  attempt();
  EXPECT_EQ(stats(server()).tls_refused, 3U);
  EXPECT_EQ(stats(client()).tls_refused, 2U);
  use(server(), {});
  use(client(), with(credentials().issue({})));
  EXPECT_EQ(attempt().reason, Reason::tls_failed);
  EXPECT_EQ(stats(server()).tls_refused, 4U);
  // Neither client has finished a handshake.
  EXPECT_EQ(stats(server()).tls_connections, 0U);
  use(client(), {});
  close_link(open_link());
  EXPECT_EQ(stats(server()).tls_refused, 4U);
}

// The client's certificate files are replaced while it runs.
TEST_P(TcpTls, a_client_uses_renewed_files_from_the_next_attempt_on) {
  tls::TestCredentials own;
  tls::TestCredentials others;
  const tls::Credentials files = own.issue({});
  use(client(), with(files));
  use(server(), with(own.issue({})));
  close_link(open_link());
  // Both ends switch to another CA.
  const tls::Credentials next = others.issue({});
  use(server(), with(next));
  EXPECT_EQ(attempt().reason, Reason::tls_failed);
  std::filesystem::rename(next.cert, files.cert);
  // Certificate and key do not match yet, so the client keeps using the old files.
  EXPECT_EQ(attempt().reason, Reason::tls_failed);
  std::filesystem::rename(next.key, files.key);
  std::filesystem::copy_file(next.ca, files.ca, std::filesystem::copy_options::overwrite_existing);
  close_link(open_link());
  use(client(), {});
  EXPECT_EQ(tcp::tls_context(dynamic_cast<tcp::TcpFabric&>(client().fabric())), nullptr);
}

// TLS is switched on for a fabric that started without TLS, as when urtrsd reloads its configuration.
TEST_P(TcpTls, switching_tls_on_and_off_keeps_connections) {
  const tcp::TlsOptions sealed = with(credentials().issue({}));
  for (Side* const side : {&client(), &server()}) use(*side, {});
  std::vector<Link> links{open_link()};
  const auto all_work = [&] {
    for (const Link& link : links) {
      post_one(client(), empty_imm(link.client, 5));
      EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, 5U);
    }
  };
  for (Side* const side : {&client(), &server()}) use(*side, sealed);
  links.push_back(open_link());
  EXPECT_EQ(stats(server()).tls_connections, 1U);
  all_work();
  for (Side* const side : {&client(), &server()}) use(*side, {});
  links.push_back(open_link());
  EXPECT_EQ(stats(server()).tls_connections, 1U);
  all_work();
  // Socket numbers are reused, so that a number that was used without TLS is used with TLS, and vice versa.
  for (const Link& link : links) close_link(link);
  links = {open_link(), open_link(), open_link()};
  all_work();
  for (const Link& link : links) close_link(link);
}

// Handshake computations for new clients must not delay established connections.
TEST_P(TcpTls, each_poll_processes_only_a_few_handshakes) {
  const auto to = net::parse_address("127.0.0.1", pair().server_address().port);
  ASSERT_TRUE(to);
  const tcp::TlsOptions tls = with(credentials().issue({}));
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (unsigned i = 0; i < 12; ++i) crowd.push_back(std::make_unique<Stranger>(tls, *to));
  const auto answered = [&crowd] {
    return std::count_if(crowd.begin(), crowd.end(), [](const auto& one) {
      char octet = 0;
      return ::recv(one->socket(), &octet, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    });
  };
  std::ptrdiff_t before = 0;
  for (unsigned fruitless = 0; before != 12 && fruitless < 2 * pair().patience(); ++fruitless) {
    server().poll(pair().now());
    const std::ptrdiff_t after = answered();
    EXPECT_LE(after - before, 4);
    if (after == before) {
      pair().idle();
    } else {
      fruitless = 0;
    }
    before = after;
  }
  EXPECT_EQ(before, 12);
}

TEST_P(TcpTls, a_corrupted_record_ends_the_connection) {
  const auto to = net::parse_address("127.0.0.1", pair().server_address().port);
  ASSERT_TRUE(to);
  Stranger stranger(with(credentials().issue({})), *to);
  const ConKey key = accept_client(stranger, {});
  // The empty write that every client sends first.
  std::array<std::byte, 20> begin{std::byte{0}, std::byte{14}, std::byte{0xc1}, std::byte{0x40}};
  stranger.send_and_corrupt(begin, begin);
  const SeenEvent lost = expect(server(), Kind::connection_lost, key);
  EXPECT_EQ(lost.reason, Reason::tls_failed);
  server().fabric().disconnect(key);
  expect(server(), Kind::connection_closed, key);
}

TEST_P(TcpTls, bytes_after_an_unanswered_connect_request_are_refused) {
  const auto to = net::parse_address("127.0.0.1", pair().server_address().port);
  ASSERT_TRUE(to);
  for (const bool too_early : {false, true}) {
    Stranger stranger(with(credentials().issue({})), *to);
    const ConKey key = accept_client(stranger, too_early ? "x" : "");
    run_until_quiet();
    EXPECT_EQ(server().count(Kind::connection_lost, key), too_early ? 1U : 0U);
    if (too_early) {
      EXPECT_EQ(expect(server(), Kind::connection_lost, key).reason, Reason::protocol_violation);
    }
    const auto fault = static_cast<std::size_t>(iwarp::Fault::bytes_behind_greeting);
    EXPECT_EQ(stats(server()).faults[fault], too_early ? 1U : 0U);
    server().fabric().disconnect(key);
    expect(server(), Kind::connection_closed, key);
  }
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpTls, ::testing::Values(FabricCase{"certificate", make_certificate}),
                         case_name);

class TcpTlsSilence : public FabricContract {
 public:
  static std::unique_ptr<FabricPair> make() {
    tcp::TcpOptions options;
    options.undelivered_timeout_ms = 1000;
    return TcpPair::open("127.0.0.1", options, with(credentials().issue({})));
  }
};

// The kernel completes the TCP handshake, but no program answers.
TEST_P(TcpTlsSilence, an_unanswered_handshake_fails) {
  const net::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), any, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), any, &size), 0);
  const ConKey key = fresh_key();
  client().fabric().connect(key, {"", "127.0.0.1", ntohs(address.sin_port)}, params(), bytes_of("hello"));
  EXPECT_EQ(expect(client(), Kind::connect_failed, key).reason, Reason::connect_timeout);
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpTlsSilence, ::testing::Values(FabricCase{"impatient", TcpTlsSilence::make}),
                         case_name);

// Memory suffices for one connection without TLS, but not for one with TLS.
class TcpTlsMemory : public FabricContract {
 public:
  static std::unique_ptr<FabricPair> make() {
    tcp::TcpOptions options;
    // One address may use seven eighths of `max_memory`.
    options.max_memory = (tcp::Connection::cost(params(), true, {}) + (std::uint64_t{16} << 10)) * 8 / 7;
    return TcpPair::open("127.0.0.1", options);
  }
};

TEST_P(TcpTlsMemory, memory_of_tls_counts_towards_the_limit) {
  close_link(open_link());
  for (Side* const side : {&client(), &server()})
    tcp::set_tls(dynamic_cast<tcp::TcpFabric&>(side->fabric()), with(credentials().issue({})));
  const Link link{.client = fresh_key(), .server = fresh_key()};
  client().fabric().connect(link.client, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  server().fabric().accept(request.request, link.server, params(), {});
  EXPECT_EQ(expect(server(), Kind::connection_lost, link.server).reason, Reason::no_resources);
  expect(client(), Kind::connect_failed, link.client);
  close_link(link);
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpTlsMemory, ::testing::Values(FabricCase{"tight", TcpTlsMemory::make}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
