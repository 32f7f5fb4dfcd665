// Tests the storage engine with scripted results of system calls: which steps are durable, and which errors
// count as failed syncs.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/test_engine.hpp"
#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::storage_steps_test {
namespace {

constexpr std::uint64_t kSize = 1 << 20;

// Completes the steps in order. The function `outcome` returns the result of a step.
class ScriptedRunner final : public StepRunner {
 public:
  using Outcome = std::function<std::int32_t(const FileStep&)>;
  explicit ScriptedRunner(Outcome outcome) : outcome_(std::move(outcome)) {}
  void start(std::uint32_t index, const FileStep& step) noexcept override {
    done_.push_back({index, outcome_(step)});
  }
  void start_delay(std::uint32_t index, const __kernel_timespec&) noexcept override {
    done_.push_back({index, -ETIME});
  }
  void watch(int) noexcept override {}
  void hand_over() noexcept override {}
  bool has_news() const noexcept override { return !done_.empty(); }
  std::size_t take(std::span<StepDone> done) noexcept override {
    if (done_.empty()) return 0;
    done[0] = done_.front();
    done_.erase(done_.begin());
    return 1;
  }
  void wait() noexcept override {}
  int fd() const noexcept override { return -1; }
  const char* name() const noexcept override { return "scripted"; }

 private:
  Outcome outcome_;
  std::vector<StepDone> done_;
};

class EngineSteps : public ::testing::Test {
 protected:
  EngineSteps() {
    catalog_ = std::move(*Catalog::create({{"disk", directory_.make_file("disk.img", kSize)}}, std::nullopt));
    opened_ = std::move(*catalog_->open("s", "disk", AccessMode::read_write));
  }
  Export& device() { return *opened_.device; }
  StorageResult result_of(StorageEngine& engine, const StorageOp& op) {
    EXPECT_TRUE(submit(engine, op));
    std::array<StorageResult, 1> done;
    EXPECT_EQ(engine.wait(done), 1U);
    return done[0];
  }
  // Depth 1, so that each operation reuses the slot of the previous one.
  static std::unique_ptr<StorageEngine> engine_of(ScriptedRunner::Outcome outcome) {
    return std::make_unique<StorageEngine>(StorageEngine::Options{1, false},
                                           std::make_unique<ScriptedRunner>(std::move(outcome)), "");
  }

  TestDirectory directory_;
  std::unique_ptr<Catalog> catalog_;
  OpenedDevice opened_;
};

// Optional system calls that the simulated file system supports.
struct Abilities {
  bool punches;
  bool zeroes;
};

TEST_F(EngineSteps, DurableOperationsSyncOnEveryFileSystem) {
  bool volatile_data = false;
  Abilities can{};
  const auto engine = engine_of([&](const FileStep& step) -> std::int32_t {
    const bool fails =
        (step.kind == OpStep::punch_hole && !can.punches) || (step.kind == OpStep::zero_range && !can.zeroes);
    if (fails) return -EOPNOTSUPP;
    if (step.kind == OpStep::sync_data) return volatile_data = false;
    const bool writes = step.kind == OpStep::write || step.kind == OpStep::write_zero_bytes;
    volatile_data = volatile_data || !writes || !step.data_sync;
    return writes ? static_cast<std::int32_t>(step.length) : 0;
  });
  Buffer data = filled(64 * 1024, 1);
  for (const Abilities abilities : {Abilities{true, true}, {false, true}, {true, false}, {false, false}}) {
    can = abilities;
    for (const Opcode opcode : {Opcode::write, Opcode::write_zeroes, Opcode::discard}) {
      for (const bool nounmap : {false, true}) {
        StorageOp op = io(device(), opcode, 0, data, true);
        op.nounmap = nounmap;
        const bool can_do = opcode != Opcode::discard || can.punches;
        ASSERT_EQ(result_of(*engine, op).error, can_do ? 0 : EOPNOTSUPP);
        EXPECT_FALSE(volatile_data) << static_cast<int>(opcode) << " nounmap " << nounmap << " punches "
                                    << can.punches << " zeroes " << can.zeroes;
        op.fua = false;
        ASSERT_EQ(result_of(*engine, op).error, can_do ? 0 : EOPNOTSUPP);
        EXPECT_EQ(volatile_data, can_do) << "durability was not requested";
        volatile_data = false;
      }
    }
  }
}

TEST_F(EngineSteps, FailedSyncIsReportedOnlyForItsOperation) {
  bool fails = true;
  const auto engine = engine_of([&](const FileStep& step) {
    return fails ? -EIO : step.kind == OpStep::sync_data ? 0 : static_cast<std::int32_t>(step.length);
  });
  const StorageOp flush = range(device(), Opcode::flush, 0, 0);
  StorageResult done = result_of(*engine, flush);
  EXPECT_EQ(done.error, EIO);
  EXPECT_TRUE(done.sync_failed);
  // Invalid operations are rejected before any system call, also in the slot whose last flush failed.
  for (const std::uint64_t sector : {std::uint64_t{0}, kSize / 512}) {
    done = result_of(*engine, range(device(), Opcode::write_zeroes, sector, sector == 0 ? 100 : 512));
    EXPECT_EQ(done.error, sector == 0 ? EINVAL : EIO);
    EXPECT_FALSE(done.sync_failed) << "a rejected request must not count as a failed sync";
  }
  fails = false;
  done = result_of(*engine, flush);
  EXPECT_EQ(done.error, 0);
  EXPECT_FALSE(done.sync_failed);
}

}  // namespace
}  // namespace rtrs::daemon::storage_steps_test
