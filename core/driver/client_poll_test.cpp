// What a client does with events and deadlines that are there at the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "core/driver/client.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {
namespace {

// Holds events until they are asked for, a few at a time; nothing else works.
class HeldFabric final : public Fabric {
 public:
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<Region> allocate(std::size_t) override { return tl::make_unexpected(Errc::no_memory); }
  Result<Region> register_memory(std::span<std::byte>) override {
    return tl::make_unexpected(Errc::no_memory);
  }
  void release(RegionId) override {}
  Result<Exposure> expose(RegionId, std::size_t, std::size_t) override {
    return tl::make_unexpected(Errc::no_memory);
  }
  void unexpose(ExposureId) override {}
  void invalidate(ConKey, ExposureId, std::uint64_t) override {}
  Result<std::uint32_t> renew(ConKey, ExposureId) override {
    return tl::make_unexpected(Errc::not_supported);
  }
  Errc listen(const PathAddress&) override { return Errc::not_supported; }
  void connect(ConKey key, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {
    connects.push_back(key);
  }
  void accept(std::uint32_t, ConKey, const ConnectionParams&, std::span<const std::byte>) override {}
  void reject(std::uint32_t, std::span<const std::byte>) override {}
  void disconnect(ConKey) override {}
  std::string describe(ConKey) const override { return "held"; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override { return work.size(); }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    // As a fabric that reads its quiet connections only now and then.
    if (blind_polls != 0) {
      --blind_polls;
      return 0;
    }
    const std::size_t count = std::min({out.size(), at_a_time, events.size()});
    std::copy_n(events.begin(), count, out.begin());
    events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  bool try_wait() noexcept override {
    blind_polls = 0;
    return events.empty();
  }

  std::vector<ConKey> connects;
  std::deque<FabricEvent> events;
  std::size_t at_a_time = 64;
  unsigned blind_polls = 0;

 private:
  Capabilities capabilities_;
};

class ClientPollTest : public testing::Test {
 protected:
  ClientPollTest() {
    options.session_name = "poll";
    options.paths = {PathAddress{"", "held", 1}};
    options.session_uuid.bytes[0] = 1;
    for (std::uint8_t path = 0; path < kMaxPaths; ++path) {
      options.path_uuids.emplace_back();
      options.path_uuids.back().bytes[0] = static_cast<std::uint8_t>(path + 2);
    }
    wire::ConnRsp accept;
    accept.queue_depth = 8;
    accept.max_io_size = 61440;
    accept.max_hdr_size = 4096;
    accepted.resize(wire::encode(accept, accepted));
  }
  // `others` events that nobody waits for, then the answer to the first connect request.
  void answer_behind(std::size_t others) {
    FabricEvent event;
    event.kind = FabricEvent::Kind::send_done;
    event.key = ConKey{0, 0, 77};
    fabric.events.assign(others, event);
    event.kind = FabricEvent::Kind::connected;
    event.key = fabric.connects.front();
    event.bytes = accepted;
    fabric.events.push_back(event);
  }
  // The clock jumps over the deadline of the connect request: the process was stopped.
  void poll_late(Client& client) {
    std::array<IoCompletion, 8> done;
    client.poll(fabric, seconds(1) + options.protocol.connect_timeout + seconds(7), done);
  }
  void expect_answer_was_seen(const Client& client) {
    EXPECT_EQ(client.paths()[0].state, PathState::connecting);
    ASSERT_EQ(fabric.connects.size(), 2U);
    EXPECT_EQ(fabric.connects[1].con, 1);
  }

  HeldFabric fabric;
  ClientOptions options;
  std::vector<std::byte> accepted = std::vector<std::byte>(wire::kConnRspBytes);
};

TEST_F(ClientPollTest, AnAnswerThatIsThereComesBeforeTheDeadlineThatMissesIt) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(200);
  poll_late(client);
  expect_answer_was_seen(client);
}

TEST_F(ClientPollTest, AConfigurationThatCannotWorkIsRefused) {
  options.protocol.send_depth = 7;
  EXPECT_EQ(Client(options, nullptr).open(fabric, seconds(1)), Errc::invalid);
  options.protocol.send_depth = 8;
  EXPECT_EQ(Client(options, nullptr).open(fabric, seconds(1)), Errc::ok);
  options.protocol.heartbeat.interval = 0;
  EXPECT_EQ(Client(options, nullptr).open(fabric, seconds(1)), Errc::invalid);
}

TEST_F(ClientPollTest, AlsoWhenTheFabricGivesItsEventsOneByOne) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(20);
  fabric.at_a_time = 1;
  poll_late(client);
  expect_answer_was_seen(client);
}

TEST_F(ClientPollTest, AlsoWhenTheFabricHasToBeAskedToLook) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(3);
  fabric.blind_polls = 30;
  poll_late(client);
  expect_answer_was_seen(client);
}

TEST_F(ClientPollTest, AFloodDoesNotPutDeadlinesOffForEver) {
  Client client(options, nullptr);
  ASSERT_EQ(client.open(fabric, seconds(1)), Errc::ok);
  answer_behind(100'000);
  poll_late(client);
  EXPECT_EQ(client.paths()[0].reason, Reason::connect_timeout);
}

TEST_F(ClientPollTest, AnIdentityOfAllZeroesIsNotOpened) {
  options.path_uuids[0] = wire::Uuid{};
  Client without_path(options, nullptr);
  EXPECT_EQ(without_path.open(fabric, seconds(1)), Errc::invalid);
  options.path_uuids[0].bytes[0] = 2;
  options.session_uuid = wire::Uuid{};
  Client without_session(options, nullptr);
  EXPECT_EQ(without_session.open(fabric, seconds(1)), Errc::invalid);
}

}  // namespace
}  // namespace rtrs
