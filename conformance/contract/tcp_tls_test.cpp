// What is counted of TLS, and what it costs.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <vector>

#include "backends/address/socket_address.hpp"
#include "backends/address/unique_fd.hpp"
#include "backends/tls/channel.hpp"
#include "backends/tls/test_credentials.hpp"
#include "conformance/contract/contract.hpp"
#include "conformance/contract/tcp_pair.hpp"
#include "core/tcp/tcp_connection.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

tls::TestCredentials& credentials() {
  static tls::TestCredentials made;
  return made;
}

// Sealed here and not by the kernel, so that it does not matter what it can.
tcp::TlsOptions with(tls::Credentials given) {
  given.kernel = false;
  const auto context = tls::open_context(given);
  EXPECT_TRUE(context) << context.error();
  return {.context = context ? *context : nullptr, .plain_too = false};
}

std::unique_ptr<FabricPair> make_certificate() {
  return TcpPair::open("127.0.0.1", {}, with(credentials().issue({})));
}

class TcpTls : public FabricContract {
 protected:
  tcp::TcpStats stats(Side& side) { return dynamic_cast<tcp::TcpFabric&>(side.fabric()).stats(); }
  void use(Side& side, const tcp::TlsOptions& tls) {
    tcp::set_tls(dynamic_cast<tcp::TcpFabric&>(side.fabric()), tls);
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

TEST_P(TcpTls, connections_are_counted_and_those_by_a_ticket_too) {
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

TEST_P(TcpTls, who_is_refused_is_counted) {
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
  // Neither of the two has finished one.
  EXPECT_EQ(stats(server()).tls_connections, 0U);
  use(client(), {});
  close_link(open_link());
  EXPECT_EQ(stats(server()).tls_refused, 4U);
}

// A fabric that began without, as urtrsd whose configuration is read again.
TEST_P(TcpTls, it_is_switched_on_and_off_while_connections_stay) {
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
  // The numbers of sockets come again, with TLS where there was none and the other way round.
  for (const Link& link : links) close_link(link);
  links = {open_link(), open_link(), open_link()};
  all_work();
  for (const Link& link : links) close_link(link);
}

// The arithmetic for strangers would hold up those who are in.
TEST_P(TcpTls, of_many_handshakes_a_few_are_worked_on_in_a_round) {
  tls::SealedBuffers buffers;
  const auto channel =
      with(credentials().issue({})).context->open_channel(tls::Side::client, "127.0.0.1", -1, buffers);
  std::array<std::byte, tls::kRecordBytes> nothing;
  channel->open({}, nothing);
  const std::span<const std::byte> hello = channel->output();
  const auto to = net::resolve("127.0.0.1", pair().server_address().port);
  ASSERT_TRUE(to);
  std::vector<net::UniqueFd> crowd(12);
  for (net::UniqueFd& one : crowd) {
    one.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(one.get(), to->get(), to->length), 0);
    ASSERT_EQ(::send(one.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  }
  const auto answered = [&crowd] {
    return std::count_if(crowd.begin(), crowd.end(), [](const net::UniqueFd& one) {
      char octet = 0;
      return ::recv(one.get(), &octet, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
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

INSTANTIATE_TEST_SUITE_P(Tcp, TcpTls, ::testing::Values(FabricCase{"certificate", make_certificate}),
                         case_name);

// Enough for a connection that is plain.
class TcpTlsMemory : public FabricContract {
 public:
  static std::unique_ptr<FabricPair> make() {
    tcp::TcpOptions options;
    // Of one address all but an eighth of it.
    options.max_memory = (tcp::Connection::cost(params(), true, {}) + (std::uint64_t{16} << 10)) * 8 / 7;
    return TcpPair::open("127.0.0.1", options);
  }
};

TEST_P(TcpTlsMemory, what_it_takes_counts) {
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
