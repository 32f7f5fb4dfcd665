// Tests that a server without memory for a session refuses the session, and that its state and its recording
// stay consistent.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "core/base/test_short_memory.hpp"
#include "core/driver/block_server.hpp"
#include "core/driver/test_block_client.hpp"
#include "core/fabric/forwarding_fabric.hpp"
#include "core/record/live_records.hpp"
#include "core/record/recorder.hpp"

namespace rtrs::block_server_memory_test {
namespace {

using test::allocations_left;

ServerConfig config() {
  ServerConfig config;
  config.queue_depth = test::kTestDepth;
  config.chunk_size = test::kTestChunk;
  config.max_sessions = 4;
  config.extensions = wire::Extensions::none;
  config.send_invalidate = false;
  return config;
}

// While an object of this class exists, every allocation succeeds.
class Calm {
 public:
  Calm() : left_(std::exchange(allocations_left, 0)) {}
  ~Calm() { allocations_left = left_; }
  Calm(const Calm&) = delete;
  Calm& operator=(const Calm&) = delete;

 private:
  std::size_t left_;
};

// The test's fabric never fails to allocate.
class NeverFailingFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  Result<Region> allocate(std::size_t bytes) override {
    const Calm calm;
    return ForwardingFabric::allocate(bytes);
  }
  // Too long for the small-string optimisation, so that copies allocate.
  std::string describe(ConKey) const override { return "192.0.2.17:40112 > 192.0.2.18:1234"; }
  std::string describe_request(std::uint32_t) const override { return describe({}); }
  std::string identity_of_request(std::uint32_t) const override { return "an.identity.of.some.length"; }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> private_data) override {
    const Calm calm;
    inner_.accept(request, key, params, private_data);
  }
  void reject(std::uint32_t request, std::span<const std::byte> private_data) override {
    const Calm calm;
    inner_.reject(request, private_data);
  }
  void release(RegionId id) override {
    const Calm calm;
    inner_.release(id);
  }
  void disconnect(ConKey key) override {
    const Calm calm;
    inner_.disconnect(key);
  }
  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    const Calm calm;
    return inner_.post(work);
  }
};

// Counts the device state machines that are still alive at the end of the recording.
class LiveDeviceCounter final : public trace::Listener {
 public:
  void on(const trace::Record& record) override {
    const Calm calm;
    if (record.event->name == "BeginServerDevices") ++alive[record.instance];
    if (record.event->name == "End" && is_devices_of_server(record.instance)) --alive[record.instance];
  }
  std::map<InstanceId, int> alive;
};

struct Outcome {
  bool failed = false;  // set if an allocation failed
  bool ended = false;   // set if the server closed at the end
  unsigned opened = 0, refused = 0, closed = 0;
  unsigned open = 0;  // open sessions before the client disconnected; `alive` is from the same time
  std::map<InstanceId, int> alive;
};

// Opens a session while allocation number `number` of the server fails.
Outcome open_with(std::size_t number) {
  test::ServerSideFabric inside;
  NeverFailingFabric fabric(inside);
  Recorder recorder;
  LiveDeviceCounter living;
  EXPECT_EQ(recorder.open_listener(living, trace::Detail::machines), 0);
  Outcome outcome;
  {
    BlockServer server{clamp_to(config(), fabric.capabilities()), 5, &recorder};
    Nanos now = 1;
    EXPECT_EQ(server.listen(fabric, now, {}), Errc::ok);
    const auto turn = [&] {
      std::array<block::Action, 8> out;
      do {
        const std::size_t count = server.poll(fabric, ++now, out);
        for (const block::Action& action : std::span(out).first(count)) {
          outcome.opened += std::holds_alternative<block::SessionOpened>(action) ? 1 : 0;
          outcome.closed += std::holds_alternative<block::SessionClosed>(action) ? 1 : 0;
          outcome.refused += std::holds_alternative<block::SessionRefused>(action) ? 1 : 0;
        }
      } while (server.next_deadline() <= now || !inside.events.empty());
    };
    unsigned turns = 0;
    test::RawClient client(inside, 1, [&] {
      if (++turns == 3) allocations_left = number;
      turn();
      outcome.failed = turns == 3 && number != 0 && allocations_left == 0;
      allocations_left = 0;
    });
    outcome.open = outcome.opened - outcome.closed;
    outcome.alive = living.alive;
    client.drop();
    server.close(fabric, now);
    turn();
    outcome.ended = server.closed();
  }
  return outcome;
}

TEST(BlockServerMemory, FailedAllocationRefusesTheSessionAndEndsItsRecord) {
  unsigned refused = 0;
  for (std::size_t number = 1;; ++number) {
    const Outcome outcome = open_with(number);
    if (!outcome.failed) break;
    SCOPED_TRACE(number);
    refused += outcome.refused;
    EXPECT_LE(outcome.opened + outcome.refused, 1U);
    EXPECT_TRUE(outcome.ended);
    for (const auto& [instance, alive] : outcome.alive)
      EXPECT_EQ(alive, static_cast<int>(outcome.open)) << instance;
  }
  EXPECT_GT(refused, 2U);
}

TEST(BlockServerMemory, SessionThatWasNotCreatedIsNotCounted) {
  unsigned rejected = 0;
  for (std::size_t number = 1;; ++number) {
    SCOPED_TRACE(number);
    test::ServerSideFabric inside;
    NeverFailingFabric fabric(inside);
    BlockServer server{clamp_to(config(), fabric.capabilities()), 5, nullptr};
    EXPECT_EQ(server.listen(fabric, 1, {}), Errc::ok);
    wire::ConnReq connect;
    connect.cid_num = 2;
    connect.paths_uuid.bytes[0] = connect.sess_uuid.bytes[0] = 1;
    connect.first_conn = true;
    std::array<std::byte, wire::kConnReqBytes> bytes;
    ASSERT_EQ(wire::encode(connect, bytes), bytes.size());
    event::ConnectRequested requested;
    requested.private_data = bytes;
    inside.events.emplace_back(requested);
    std::array<block::Action, 8> out;
    allocations_left = number;
    server.poll(fabric, 2, out);
    const bool failed = std::exchange(allocations_left, 0) == 0;
    if (!failed) break;
    EXPECT_EQ(server.transport().session_count(), inside.accepted.size());
    rejected += static_cast<unsigned>(inside.rejected.size());
  }
  EXPECT_GT(rejected, 2U);
}

}  // namespace
}  // namespace rtrs::block_server_memory_test
