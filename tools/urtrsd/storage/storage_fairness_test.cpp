// Tests how a slow device or a long operation affects other devices.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/test_engine.hpp"

namespace rtrs::daemon::storage_fairness_test {
namespace {

constexpr std::uint64_t kSize = 1 << 20;
class Fairness : public WithRunner {};
INSTANTIATE_TEST_SUITE_P(Runners, Fairness, ::testing::Values(Runs::io_uring, Runs::threads), runner_name);

TEST_P(Fairness, OperationsBeyondTheDepthWaitTheirTurn) {
  constexpr std::uint64_t kOperations = 40;
  auto catalog = std::move(*Catalog::create({{"ram", "", kSize, false, 1}}, std::nullopt));
  auto ram = std::move(*catalog->open("s", "ram", AccessMode::read_write));
  auto engine = engine_of(2);
  engine->reserve(kOperations);
  Buffer buffer(512, std::byte{7});
  for (std::uint64_t i = 0; i < kOperations; ++i)
    ASSERT_TRUE(submit(*engine, io(*ram.device, Opcode::write, i, buffer)));
  EXPECT_FALSE(submit(*engine, io(*ram.device, Opcode::write, 0, buffer)));
  std::array<StorageResult, 7> done;
  std::size_t reported = 0;
  while (const std::size_t count = engine->wait(done)) reported += count;
  EXPECT_EQ(reported, kOperations);
  const auto written = ram.device->memory().first(kOperations * 512);
  EXPECT_TRUE(std::all_of(written.begin(), written.end(), [](std::byte one) { return one == std::byte{7}; }));
  EXPECT_EQ(ram.device->share().used, 0U);
  engine->leave(*ram.device);
}

// With 16 slots, at most two devices can have reserved slots at a time. Each device that is opened after the
// previous one was closed must get reserved slots again.
TEST_P(Fairness, SlotsOfClosedDevicesAreReused) {
  auto catalog = std::move(*Catalog::create({{"ram", "", kSize, false, 1}}, std::nullopt));
  auto engine = engine_of(16);
  Buffer buffer(512);
  for (unsigned round = 0; round < 5; ++round) {
    auto ram = std::move(*catalog->open("s", "ram", AccessMode::read_write));
    ASSERT_EQ(run(*engine, io(*ram.device, Opcode::write, 0, buffer)), 0);
    EXPECT_EQ(ram.device->share().own, FairSlots::kOwnSlots) << "device " << round;
    engine->leave(*ram.device);
  }
}

TEST_P(Fairness, ADeviceKeepsItsSlotsUntilItsLastOpenCloses) {
  auto catalog = std::move(*Catalog::create({{"ram", "", kSize, false, 1}}, std::nullopt));
  auto engine = engine_of(16);
  Buffer buffer(512);
  auto first = std::move(*catalog->open("s", "ram", AccessMode::read_write));
  auto second = std::move(*catalog->open("s", "ram", AccessMode::read_only));
  ASSERT_EQ(run(*engine, io(*first.device, Opcode::write, 0, buffer)), 0);
  engine->leave(*first.device);
  first.device->leave_share();
  EXPECT_EQ(second.device->share().own, FairSlots::kOwnSlots);
  engine->leave(*second.device);
  EXPECT_EQ(second.device->share().own, 0U);
}

// Operations of a fast device must be reported before operations of a slow device that were submitted
// earlier.
TEST_P(Fairness, SlowDeviceDoesNotDelayOthers) {
  auto catalog = std::move(
      *Catalog::create({{"slow", "", kSize, false, 2000}, {"good", "", kSize, false, 1}}, std::nullopt));
  auto slow = std::move(*catalog->open("s", "slow", AccessMode::read_write));
  auto good = std::move(*catalog->open("s", "good", AccessMode::read_write));
  auto engine = engine_of();
  engine->reserve(120);
  Buffer buffer(512);
  for (std::uint64_t i = 0; i < 100; ++i) {
    StorageOp op = io(*slow.device, Opcode::read, i, buffer);
    op.id = block::OpId{1000 + i};
    ASSERT_TRUE(submit(*engine, op));
  }
  for (std::uint64_t i = 0; i < 20; ++i)
    ASSERT_TRUE(submit(*engine, io(*good.device, Opcode::read, i, buffer)));
  std::array<StorageResult, 1> done;
  for (unsigned i = 0; i < 20; ++i) {
    ASSERT_EQ(engine->wait(done), 1U);
    EXPECT_LT(done[0].id, block::OpId{1000}) << "an operation of the slow device was reported first";
  }
  EXPECT_EQ(slow.device->in_flight(), 100U);
  while (engine->wait(done) != 0) {
  }
}

// A long memory operation takes many calls of poll(). A short operation that is submitted later must be
// reported first.
TEST_P(Fairness, LongMemoryOperationDoesNotDelayOthers) {
  constexpr std::uint32_t kLong = 1U << 30;
  auto catalog = std::move(*Catalog::create({{"ram", "", kLong}, {"good", "", kSize}}, std::nullopt));
  auto ram = std::move(*catalog->open("s", "ram", AccessMode::read_write));
  auto good = std::move(*catalog->open("s", "good", AccessMode::read_write));
  auto engine = engine_of();
  for (std::uint64_t i = 0; i < 8; ++i)
    ASSERT_TRUE(submit(*engine, range(*ram.device, Opcode::write_zeroes, 0, kLong)));
  std::array<StorageResult, 16> done;
  EXPECT_EQ(engine->poll(done), 0U);
  EXPECT_TRUE(engine->has_news());
  Buffer buffer(512);
  StorageOp op = io(*good.device, Opcode::read, 100, buffer);
  ASSERT_TRUE(submit(*engine, op));
  ASSERT_EQ(engine->poll(done), 1U);
  EXPECT_EQ(done[0].id, op.id);
  EXPECT_EQ(ram.device->in_flight(), 8U);
  std::size_t reported = 0;
  while (const std::size_t count = engine->wait(done)) reported += count;
  EXPECT_EQ(reported, 8U);
}

TEST_P(Fairness, ZeroedMemoryIsReleasedToTheSystem) {
  constexpr std::uint32_t kBytes = 16U << 20;
  auto catalog = std::move(*Catalog::create({{"ram", "", kBytes}}, std::nullopt));
  auto ram = std::move(*catalog->open("s", "ram", AccessMode::read_write));
  auto engine = engine_of();
  const auto resident = [&] {
    std::vector<unsigned char> pages(kBytes / ram.device->page_size());
    EXPECT_EQ(::mincore(ram.device->memory().data(), kBytes, pages.data()), 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  };
  for (const Opcode opcode : {Opcode::discard, Opcode::write_zeroes}) {
    std::fill(ram.device->memory().begin(), ram.device->memory().end(), std::byte{1});
    ASSERT_GT(resident(), 0);
    ASSERT_EQ(run(*engine, range(*ram.device, opcode, 1, kBytes - 1024)), 0);
    EXPECT_LE(resident(), 2);
    EXPECT_EQ(ram.device->memory()[511], std::byte{1});
    EXPECT_EQ(ram.device->memory()[512], std::byte{0});
    EXPECT_EQ(ram.device->memory()[kBytes - 513], std::byte{0});
    EXPECT_EQ(ram.device->memory()[kBytes - 512], std::byte{1});
  }
}

}  // namespace
}  // namespace rtrs::daemon::storage_fairness_test
