// Reuse of keys, windows, devices and message buffers, including cases in which two of them are in use at the
// same time.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::reuse_test {
namespace {

using Kind = SeenEvent::Kind;

class Again : public TwoEnds {
 protected:
  void connected(const mock_hca::Profile& adapter, const ConnectionParams& wanted = params(),
                 const verbs::VerbsOptions& options = {}) {
    open({adapter}, options);
    listen(kAddress);
    ASSERT_NO_FATAL_FAILURE(connect_both_ends(kAddress, kNear, kFar, wanted));
    poll_both();
  }
  static WorkRequest immediate(ConKey key) {
    WorkRequest work;
    work.key = key;
    work.op = WorkRequest::Op::write_imm;
    return work;
  }
  // Sends up to `most` messages from the client without polling; returns how many the send queue accepted.
  std::size_t send_messages(std::size_t most, std::size_t bytes) {
    const std::vector<std::byte> text(bytes, std::byte{1});
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::send;
    work.inline_bytes = text;
    std::size_t sent = 0;
    while (sent < most && client.fabric->post(std::span(&work, 1)) == 1) ++sent;
    client.fabric->try_wait();
    return sent;
  }
  // Takes `count` events of this kind from the server and posts the receives that they need.
  void take_events(Kind kind, std::size_t count, std::uint32_t bytes_each) {
    for (std::size_t i = 0; i < count; ++i) {
      if (server.count(kind, kFar) == 0) server.fabric->post_receive(kFar, 1, bytes_each);
      take(server, kind, kFar);
    }
    poll_both();
  }
  // The server invalidates a request key of the client remotely (send with invalidate); the client gets the
  // event.
  void invalidate(std::uint32_t rkey) {
    WorkRequest work;
    work.key = kFar;
    work.op = WorkRequest::Op::send_inv;
    work.rkey = rkey;
    client.fabric->post_receive(kNear, 1, 0);
    ASSERT_EQ(server.fabric->post(std::span(&work, 1)), 1U);
    EXPECT_EQ(take(client, Kind::key_invalidated, kNear).rkey, rkey);
  }
};

// A new key reuses the slot of a key that the peer invalidated. The old "invalidated" flag must not apply to
// the new key.
TEST_F(Again, KeyInTheSlotOfAnInvalidatedKeyIsValid) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto first = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(first && carries());
  ASSERT_NO_FATAL_FAILURE(invalidate(first->rkey));
  client.fabric->release_key(first->id);
  const auto second = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(second && carries());
  ASSERT_EQ(second->id, first->id);
  client.fabric->release_key(second->id);  // released without having been invalidated
  const auto third = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(third);
  EXPECT_NE(third->rkey >> 8, second->rkey >> 8);
  EXPECT_TRUE(carries());
  EXPECT_EQ(client.count(Kind::connection_lost, kNear), 0U);
}

TEST_F(Again, TwoWindowsAreReused) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  for (unsigned round = 0; round < 4; ++round) {
    const auto one = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
    const auto other = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
    ASSERT_TRUE(one && other && carries());
    server.fabric->post_receive(kFar, 1, 64);
    ASSERT_NO_FATAL_FAILURE(invalidate(one->rkey));
    ASSERT_NO_FATAL_FAILURE(invalidate(other->rkey));
    client.fabric->release_key(one->id);
    client.fabric->release_key(other->id);
    EXPECT_EQ(mock_hca::held(0).windows, 2U);
  }
}

TEST_F(Again, KeptWindowsAreFreedWithTheirDevice) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_TRUE(key && carries());
  ASSERT_NO_FATAL_FAILURE(invalidate(key->rkey));
  client.fabric->release_key(key->id);
  ASSERT_EQ(mock_hca::held(0).windows, 1U) << "kept";
  mock_hca::take_out(0);
  poll_both();
  leave();
  expect_nothing_of_devices(0);
  mock_hca::put_back(0);
  now += seconds(1);
  poll_both();
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_TRUE(client.fabric->make_request_key(kNearAgain, memory->id, 0, 4096));
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
}

// When one of two devices is removed, new memory is registered with the remaining device only.
TEST_F(Again, RemovedDeviceGetsNoRegistrations) {
  mock_hca::Profile second = mock_hca::mlx5();
  second.name = "mlx5_1";
  open({mock_hca::mlx5(), second});
  ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
  connect_both_ends("192.0.2.1");
  connect_both_ends("192.0.2.2", kNearAgain, kFarAgain);
  mock_hca::take_out(0);
  take(client, Kind::connection_lost, kNear);
  take(server, Kind::connection_lost, kFar);
  leave();
  const std::size_t before = mock_hca::held(1).regions;
  ASSERT_TRUE(server.fabric->allocate(4096));
  EXPECT_EQ(mock_hca::held(1).regions, before + 1);
  mock_hca::take_out(1);
  take(client, Kind::connection_lost, kNearAgain);
  take(server, Kind::connection_lost, kFarAgain);
  leave(kNearAgain, kFarAgain);
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(server.fabric->make_key(memory->id, 0, 4096)) << "for later connections";
}

// The first connection is not disconnected, so it still refers to the context that was open before the
// removal.
TEST_F(Again, ReturnedDeviceIsOpenedOnce) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  mock_hca::take_out(0);
  poll_both();
  mock_hca::put_back(0);
  now += seconds(1);
  poll_both();
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  const std::size_t with = mock_hca::held(0).contexts;
  connect_both_ends(kAddress, {0, 0, 5}, {0, 0, 6});
  EXPECT_EQ(mock_hca::held(0).contexts, with);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain) && carries({0, 0, 5}, {0, 0, 6}));
}

// Windows are released before their binds complete. Each must be freed once its bind has completed.
TEST_F(Again, KeptWindowsAreFreedWhileTheConnectionIsUp) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  for (unsigned i = 0; i < 60; ++i) {
    const auto key = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
    ASSERT_TRUE(key);
    client.fabric->release_key(key->id);
    server.fabric->post_receive(kFar, 1, 64);
    ASSERT_TRUE(carries());
  }
  EXPECT_LE(mock_hca::held(0).windows, 20U);
}

// The bind waits in the send queue behind work for which the peer has no receives. A message from the peer
// must not be taken as proof that the bind completed.
TEST_F(Again, WindowOfAChunkIsKeptUntilItsBindCompletes) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const std::vector<WorkRequest> work(9, immediate(kFar));  // the client has eight receives
  ASSERT_EQ(server.fabric->post(work), work.size());
  const auto key = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
  ASSERT_TRUE(key && carries());
  server.fabric->release_key(key->id);
  client.fabric->post_receive(kNear, 1, 0);
  EXPECT_TRUE(until([&] { return client.count(Kind::imm_received, kNear) == work.size(); }));
  EXPECT_TRUE(carries());
}

TEST_F(Again, FailedRegistrationTakesNoId) {
  verbs::VerbsOptions options;
  options.invalidation = verbs::Invalidation::registration;
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5(), params(), options));
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
  ASSERT_TRUE(key);
  server.fabric->release_key(key->id);
  mock_hca::fail_creations(0, 1);
  EXPECT_FALSE(server.fabric->make_revocable_key(kFar, memory->id, 0, 4096));
  const auto next = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->id, key->id);
}

TEST_F(Again, KeyOnALostConnectionTakesNoIdAndNoWindow) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5()));
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(key);
  server.fabric->release_key(key->id);
  client.fabric->disconnect(kNear);
  take(server, Kind::connection_lost, kFar);
  EXPECT_FALSE(server.fabric->make_revocable_key(kFar, memory->id, 0, 4096));
  EXPECT_FALSE(server.fabric->make_request_key(kFar, memory->id, 0, 4096));
  EXPECT_EQ(mock_hca::held(0).windows, 0U);
  const auto next = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->id, key->id);
}

TEST_F(Again, RequestKeysNeedType2Windows) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::irdma()));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error(), Errc::not_supported);
}

// Two connections. The keys of each one outnumber the work requests that its queue holds.
class QueuedKeysTest : public Again {
 protected:
  static constexpr std::size_t kKeys = 300;
  struct Far {
    ConKey con;
    std::vector<RemoteKey> keys;
  };

  void open_two_connections(mock_hca::Profile::Type1Chain chain = mock_hca::Profile::Type1Chain::takes) {
    mock_hca::Profile adapter = mock_hca::mlx5();
    adapter.send_queue_bytes = 0;
    adapter.max_qp_wr = 100;
    adapter.type_1_in_chain = chain;
    ASSERT_NO_FATAL_FAILURE(connected(adapter, depths(64, 60, kKeys)));
    ASSERT_NO_FATAL_FAILURE(connect_both_ends(kAddress, kNearAgain, kFarAgain, depths(64, 60, kKeys)));
    const auto memory = server.fabric->allocate(kKeys * 64);
    ASSERT_TRUE(memory);
    for (Far& one : far_ends) {
      for (std::size_t i = 0; i < kKeys; ++i) {
        const auto key = server.fabric->make_revocable_key(one.con, memory->id, i * 64, 64);
        ASSERT_TRUE(key);
        one.keys.push_back(*key);
      }
    }
    for (unsigned i = 0; i < 400; ++i) poll(server);
  }
  void invalidate_all_keys() {
    for (const Far& one : far_ends)
      for (const RemoteKey& key : one.keys) server.fabric->invalidate(one.con, key.id, 0);
  }
  bool all_invalidated() const {
    return std::all_of(far_ends.begin(), far_ends.end(), [&](const Far& one) {
      return server.count(Kind::chunk_invalidated, one.con) == kKeys;
    });
  }
  std::array<Far, 2> far_ends{Far{kFar, {}}, Far{kFarAgain, {}}};
};

// Invalidations that found the send queue full are posted by the first poll that frees queue entries, not
// only by the next full scan.
TEST_F(QueuedKeysTest, QueuedInvalidationsArePostedWhenThereIsRoom) {
  ASSERT_NO_FATAL_FAILURE(open_two_connections());
  invalidate_all_keys();
  for (unsigned i = 0; i < 40 && !all_invalidated(); ++i) poll(server);
  EXPECT_TRUE(all_invalidated());
}

TEST_F(QueuedKeysTest, DisconnectedConnectionGetsNoInvalidations) {
  ASSERT_NO_FATAL_FAILURE(open_two_connections());
  invalidate_all_keys();
  poll(server);
  ASSERT_FALSE(all_invalidated());
  server.fabric->disconnect(kFar);
  poll_both();
  EXPECT_EQ(server.count(Kind::chunk_invalidated, kFarAgain), kKeys);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
}

// With one of the two profiles the adapter chooses the rkey itself, in a separate bind call.
TEST_F(QueuedKeysTest, RkeyIsThatOfTheLastRenewal) {
  for (const auto chain : {mock_hca::Profile::Type1Chain::takes, mock_hca::Profile::Type1Chain::refuses}) {
    ASSERT_NO_FATAL_FAILURE(open_two_connections(chain));
    Far& far = far_ends[0];
    const RemoteKey& first = far.keys[0];
    server.fabric->invalidate(kFar, first.id, 0);
    for (std::size_t i = 1; i < kKeys; ++i) {
      server.fabric->invalidate(kFar, far.keys[i].id, 0);
      const auto renewed = server.fabric->rebind(kFar, far.keys[i].id);
      ASSERT_TRUE(renewed);
      far.keys[i].rkey = *renewed;
    }
    for (unsigned polls = 0; polls < 60; ++polls) {
      poll(server);
      for (std::size_t i = 1; i < kKeys; ++i)
        ASSERT_EQ(server.fabric->rkey_of(kFar, far.keys[i]), far.keys[i].rkey) << i << " after " << polls;
    }
    EXPECT_EQ(server.count(Kind::chunk_invalidated, kFar), kKeys);
    for (Far& one : far_ends) one.keys.clear();
    close();
  }
}

// Every eighth message is signalled regardless of earlier work, so that at most seven buffers are free
// without the fabric knowing it.
TEST_F(Again, SendBuffersAreFreedSoonAfterOtherWork) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::hfi1(), depths(1024, 1024, 0)));
  const std::vector<WorkRequest> work(40, immediate(kNear));
  ASSERT_EQ(client.fabric->post(work), work.size());
  ASSERT_NO_FATAL_FAILURE(take_events(Kind::imm_received, work.size(), 0));
  for (unsigned round = 0; round < 3; ++round) {
    const std::size_t sent = send_messages(1000, 64);
    EXPECT_GE(sent, 249U);
    ASSERT_NO_FATAL_FAILURE(take_events(Kind::message_received, sent, 64));
  }
}

TEST_F(Again, WritesFreeNoSendBuffersOfMessages) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::hfi1(), depths(1000, 1024, 0)));
  ASSERT_NO_FATAL_FAILURE(take_events(Kind::message_received, send_messages(1000, 64), 64));
  for (unsigned round = 0; round < 11; ++round) {
    const std::vector<WorkRequest> work(100, immediate(kNear));
    ASSERT_EQ(client.fabric->post(work), work.size());
    ASSERT_NO_FATAL_FAILURE(take_events(Kind::imm_received, work.size(), 0));
  }
  EXPECT_LE(send_messages(1000, 64), 256U);
}

TEST_F(Again, OnlyReceivesWithoutAFreeBufferTakeMemory) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::mlx5(), depths(16, 64, 0)));
  for (unsigned i = 0; i < 8; ++i)
    ASSERT_TRUE(carries());  // eight receive buffers of 64 bytes are free again
  const std::uint64_t before = mock_hca::held(0).bytes;
  server.fabric->post_receive(kFar, 8, 64);
  EXPECT_EQ(mock_hca::held(0).bytes, before);
  for (unsigned i = 0; i < 8; ++i) ASSERT_TRUE(carries());
  server.fabric->post_receive(kFar, 10, 64);
  EXPECT_EQ(mock_hca::held(0).bytes, before + 2 * 64);
}

TEST_F(Again, LongMessageReusesTheBufferOfAnEarlierOne) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::hfi1(), depths(2, 64, 0)));
  server.fabric->post_receive(kFar, 12, 256);
  for (unsigned i = 0; i < 8; ++i)
    ASSERT_TRUE(carries());  // consumes the first eight receives, which are shorter
  for (unsigned i = 0; i < 12; ++i) {
    if (i == 4) mock_hca::fail_creations(0, 1);
    ASSERT_EQ(send_messages(1, i < 4 ? 200 : 200 - i), 1U);
    poll_both();
  }
  EXPECT_FALSE(mock_hca::creation_failed());
  EXPECT_EQ(server.count(Kind::message_received, kFar), 12U);
  mock_hca::fail_creations(0, 0);
}

// The adapter grants more inline data than was requested.
TEST_F(Again, LongInlineMessagesKeepTheirOwnBytes) {
  mock_hca::Profile wide = mock_hca::mlx5();
  wide.work_unit = 512;
  ASSERT_NO_FATAL_FAILURE(connected(wide));
  ASSERT_GE(mock_hca::last_granted().max_inline_data, 300U);
  server.fabric->post_receive(kFar, 8, 512);
  poll_both();
  std::vector<std::vector<std::byte>> texts;
  for (unsigned i = 0; i < 3; ++i) texts.emplace_back(300, static_cast<std::byte>('a' + i));
  // Consumes the first eight receives, which are shorter.
  const std::vector<WorkRequest> before(8, immediate(kNear));
  ASSERT_EQ(client.fabric->post(before), before.size());
  for (const auto& text : texts) {
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::send;
    work.inline_bytes = text;
    ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  }
  for (unsigned i = 0; i < texts.size(); ++i)
    EXPECT_EQ(take(server, Kind::message_received, kFar).text, std::string(300, static_cast<char>('a' + i)));
}

}  // namespace
}  // namespace rtrs::conformance::reuse_test
