// Tests how a channel ends: after a rejected handshake, and when the peer has disconnected.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "backends/platform/tls/test_raw_peer.hpp"

namespace rtrs::tls::channel_end_test {
namespace {

TEST(TlsEnd, data_after_a_rejection_is_ignored) {
  TestCredentials files;
  Talk talk(context_of(files.issue({})), context_of(files.issue({})));
  RawPeer client(Side::client, files.issue({}));
  client.exchange_with(talk.server);
  ASSERT_TRUE(talk.server.channel->established()) << talk.server.channel->error();
  for (int i = 0; i < 2; ++i) {
    SSL_key_update(client.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(client.ssl());
  }
  ByteVector sealed = client.take();
  // An invalid record, which OpenSSL would answer with an alert if it processed the input after the
  // rejection.
  sealed.resize(sealed.size() + 37);
  const ByteVector head = {std::byte{23}, std::byte{3}, std::byte{3}, std::byte{0}, std::byte{32}};
  std::copy(head.begin(), head.end(), sealed.end() - 37);
  talk.server.feed(sealed, talk.piece);
  EXPECT_EQ(talk.server.channel->error(), "TLS: it changes its key too often");
  EXPECT_TRUE(talk.server.channel->output().empty());
}

// OpenSSL writes to the socket itself here. A library must not cause SIGPIPE, which would kill the process.
TEST(TlsEnd, DisconnectedPeerFailsTheChannelWithoutASignal) {
  std::signal(SIGPIPE, SIG_DFL);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  ::close(ends[1]);
  TestCredentials files;
  Credentials given = files.keys({"alice"});
  given.kernel = true;
  SealedBuffers buffers;
  const auto client = context_of(given)->open_channel(Side::client, "127.0.0.1", ends[0], buffers);
  std::vector<std::byte> plain(2 * kRecordBytes);
  EXPECT_EQ(client->open({}, plain).state, Channel::State::failed);
  EXPECT_FALSE(client->established());
  ::close(ends[0]);
}

}  // namespace
}  // namespace rtrs::tls::channel_end_test
