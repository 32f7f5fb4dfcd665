// Tests tickets and their lifetime. The tests advance OpenSSL's clock and do not wait.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <ctime>

#include "backends/platform/tls/test_raw_peer.hpp"

namespace {
long ahead = 0;  // time in seconds by which the test has advanced OpenSSL's clock

std::time_t shifted_time() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec + ahead;
}
}  // namespace

// Replaces the time functions of the C library. Different versions of OpenSSL call different ones.
extern "C" __attribute__((visibility("default"))) time_t time(time_t* out) noexcept {
  const std::time_t now = shifted_time();
  if (out != nullptr) *out = now;
  return now;
}
extern "C" __attribute__((visibility("default"))) int gettimeofday(timeval* out, void* /*zone*/) noexcept {
  *out = {.tv_sec = shifted_time(), .tv_usec = 0};
  return 0;
}

namespace rtrs::tls {
namespace {

class Ticket : public ::testing::Test {
 protected:
  Ticket() { ahead = 0; }
  ~Ticket() override { ahead = 0; }
  std::shared_ptr<const Context> until(long seconds) {
    return context_of(files_.issue({.until_seconds = seconds}));
  }
  static constexpr long kLong = 1'000'000;
  TestCredentials files_{kLong};
};

TEST_F(Ticket, expires_after_an_hour) {
  const auto client = until(kLong);
  const auto server = until(kLong);
  const auto is_resumed = [&] {
    Talk talk(client, server);
    talk.run();
    EXPECT_TRUE(talk.established()) << talk.client.channel->error() << talk.server.channel->error();
    EXPECT_EQ(talk.client.channel->resumed(), talk.server.channel->resumed());
    return talk.server.channel->resumed();
  };
  EXPECT_FALSE(is_resumed());
  ahead += 3500;
  EXPECT_TRUE(is_resumed());
  ahead += 3700;
  EXPECT_FALSE(is_resumed());
}

TEST_F(Ticket, expires_with_its_certificate) {
  for (const bool of_client : {true, false}) {
    ahead = 0;
    const auto client = until(of_client ? 600 : kLong);
    const auto server = until(of_client ? kLong : 600);
    Talk first(client, server);
    first.run();
    ASSERT_TRUE(first.established());
    ahead = 500;
    Talk second(client, server);
    second.run();
    EXPECT_TRUE(second.established() && second.server.channel->resumed());
    ahead = 700;
    Talk late(client, server);
    late.run();
    const End& judge = of_client ? late.server : late.client;
    EXPECT_TRUE(judge.failed());
    EXPECT_FALSE(judge.channel->established());
    EXPECT_EQ(judge.channel->error(), "TLS: its certificate has expired; it is that of one");
  }
}

// One certificate for several servers: `server_name` is the same for all servers.
TEST_F(Ticket, is_sent_only_to_its_issuer) {
  Credentials asking = files_.issue({});
  asking.server_name = "localhost";
  const auto client = context_of(asking);
  const auto server = until(kLong);
  for (const bool again : {false, true}) {
    for (const char* address : {"10.0.0.1", "10.0.0.2"}) {
      Talk talk(client, server, address);
      talk.run();
      ASSERT_TRUE(talk.established()) << talk.client.channel->error();
      EXPECT_EQ(talk.server.channel->resumed(), again) << address;
    }
  }
}

TEST_F(Ticket, more_than_eight_end_the_connection) {
  for (const unsigned count : {8U, 9U}) {
    RawPeer server(Side::server, files_.issue({}), [](SSL_CTX* ctx) { SSL_CTX_set_num_tickets(ctx, 0); });
    SealedBuffers buffers;
    End client = end_of(until(kLong), Side::client, buffers);
    server.exchange_with(client);
    ASSERT_TRUE(client.channel->established()) << client.channel->error();
    for (unsigned i = 0; i < count; ++i) {
      ASSERT_EQ(SSL_new_session_ticket(server.ssl()), 1);
      ASSERT_EQ(SSL_do_handshake(server.ssl()), 1);
    }
    server.exchange_with(client);
    EXPECT_EQ(client.failed(), count > 8);
    EXPECT_EQ(client.channel->error(), count > 8 ? "TLS: too many session tickets" : "");
  }
}

// Early data could be replayed by anyone who recorded the hello.
TEST_F(Ticket, offers_no_early_data) {
  RawPeer client(Side::client, files_.issue({}));
  SealedBuffers buffers;
  End server = end_of(until(kLong), Side::server, buffers);
  client.exchange_with(server);
  ASSERT_TRUE(server.channel->established()) << server.channel->error();
  const Owned<SSL_SESSION> session(SSL_get1_session(client.ssl()));
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(SSL_SESSION_has_ticket(session.get()), 1);
  EXPECT_EQ(SSL_SESSION_get_max_early_data(session.get()), 0U);
}

// A ticket for a key would stay valid after the line of the key was removed from the file.
TEST_F(Ticket, is_not_issued_to_clients_with_a_key) {
  static const SSL_psk_use_session_cb_func use = [](SSL* ssl, const EVP_MD*, const unsigned char** id,
                                                    std::size_t* size, SSL_SESSION** session) {
    Key same{};
    same.fill(1);
    static const std::string name = "alice";
    *session = session_of_key(ssl, name, same).release();
    *id = reinterpret_cast<const unsigned char*>(name.data());
    *size = name.size();
    return 1;
  };
  RawPeer client(Side::client, {}, [](SSL_CTX* ctx) {
    SSL_CTX_set_psk_use_session_callback(ctx, use);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT);
    SSL_CTX_sess_set_new_cb(ctx, [](SSL*, SSL_SESSION*) {
      ADD_FAILURE() << "the client received a ticket";
      return 0;
    });
  });
  SealedBuffers buffers;
  End server = end_of(context_of(files_.keys({"alice"})), Side::server, buffers);
  client.exchange_with(server);
  ASSERT_TRUE(server.channel->established()) << server.channel->error();
  EXPECT_EQ(server.channel->identity(), "alice");
}

}  // namespace
}  // namespace rtrs::tls
