// Tests a fresh key for every request (always_invalidate).
#include <array>

#include "core/proto/test_server_session.hpp"

namespace rtrs::server_keys_test {
namespace {

class FreshKeyTest : public ServerSessionTest {
 protected:
  FreshKeyTest() {
    config.always_invalidate = true;
    remake();
  }
  Deliver invalidated(ConKey key, std::uint16_t chunk) {
    feed(ChunkInvalidated{0, key, chunk, true});
    return only<Deliver>();
  }
};

TEST_F(FreshKeyTest, R49RequestIsServedOnlyAfterItsKeyIsInvalid) {
  const Keys keys = bring_up(1);
  feed(write(keys.io, 2));
  EXPECT_TRUE(none<Deliver>());
  EXPECT_EQ(only<InvalidateChunk>().chunk, 2);
  const Deliver deliver = invalidated(keys.io, 2);
  EXPECT_EQ(deliver.key, keys.io);
  feed(ChunkInvalidated{0, keys.io, 2, true});
  EXPECT_TRUE(actions.empty()) << "reported once";
}

TEST_F(FreshKeyTest, L05EveryAnswerRenewsTheKey) {
  const Keys keys = bring_up(1);
  for (const std::uint16_t error : std::array<std::uint16_t, 2>{0, 5}) {
    feed(write(keys.io, 2));
    respond(invalidated(keys.io, 2), error);
    EXPECT_TRUE(only<PostResponse>().fresh_key);
    if (const auto cookie = only<PostResponse>().cookie) feed(SendDone{0, keys.io, cookie});
  }
}

TEST_F(FreshKeyTest, KeyStaysIfTheDataIsTheResponse) {
  extensions |= wire::Extensions::data_with_answer;
  const Keys keys = bring_up(1);
  extensions = wire::Extensions::none;
  const Keys kernel = bring_up(2);
  for (const std::uint16_t error : std::array<std::uint16_t, 2>{0, 5}) {
    RequestArrived in = read(keys.io, 2);
    in.need_invalidate = false;
    feed(in);
    EXPECT_TRUE(none<InvalidateChunk>());
    respond(only<Deliver>(), error);
    const auto response = only<PostResponse>();
    EXPECT_FALSE(response.fresh_key);
    EXPECT_EQ(response.data_with_answer, error == 0);
    if (response.cookie != 0) feed(SendDone{0, keys.io, response.cookie});
  }
  // Cases that need a fresh key: a SEND_WITH_INV between data and response, a WRITE, and a kernel client.
  const RequestArrived asks_back = read(keys.io, 2);
  ASSERT_TRUE(asks_back.need_invalidate);
  for (const RequestArrived& in : {asks_back, write(keys.io, 2), read(kernel.io, 2)}) {
    feed(in);
    EXPECT_EQ(only<InvalidateChunk>().chunk, 2);
    respond(invalidated(in.key, 2));
    const auto response = only<PostResponse>();
    EXPECT_TRUE(response.fresh_key);
    EXPECT_FALSE(response.data_with_answer);
    if (response.cookie != 0) feed(SendDone{0, in.key, response.cookie});
  }
}

TEST_F(FreshKeyTest, FailedInvalidationStopsTheRequest) {
  const Keys keys = bring_up(1);
  feed(write(keys.io, 2));
  feed(ChunkInvalidated{0, keys.io, 2, false});
  expect_closing(keys.io, Reason::transport_error);
  EXPECT_TRUE(none<Deliver>());
  close_connections(keys);
  EXPECT_EQ(all<EndSession>().size(), 1U);
}

TEST_F(FreshKeyTest, InvalidationOnALostPathDeliversNoRequest) {
  const Keys keys = bring_up(1);
  feed(write(keys.io, 2));
  feed(ConnectionLost{0, keys.service, Reason::peer_closed});
  feed(ChunkInvalidated{0, keys.io, 2, true});
  EXPECT_TRUE(none<Deliver>());
  EXPECT_TRUE(session->chunk_idle(2));
}

TEST_F(FreshKeyTest, UnreportedInvalidationDoesNotDelayTheRelease) {
  const Keys keys = bring_up(1);
  const Keys other = bring_up(2);
  feed(write(keys.io, 2));
  feed(write(other.io, 2));
  EXPECT_TRUE(none<InvalidateChunk>());
  feed(ConnectionLost{0, keys.io, Reason::peer_closed});
  feed(ConnectionClosed{0, keys.service});
  feed(ConnectionClosed{0, keys.io});
  settle();
  EXPECT_EQ(all<ReleasePath>().size(), 1U);
  EXPECT_EQ(only<InvalidateChunk>().key, other.io) << "the replay starts with invalidating its own key";
  EXPECT_TRUE(invalidated(other.io, 2).parked);
}

}  // namespace
}  // namespace rtrs::server_keys_test
