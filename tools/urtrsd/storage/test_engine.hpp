// Helpers for tests: storage engines, operations, and a fixture that runs each test with both step runners.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/urtrsd/storage/storage_engine.hpp"

namespace rtrs::daemon {

using Buffer = std::vector<std::byte>;

enum class Runs : std::uint8_t { io_uring, threads };

inline std::string runner_name(const ::testing::TestParamInfo<Runs>& tested) {
  return tested.param == Runs::threads ? "threads" : "io_uring";
}

// True if the test must be skipped because io_uring is not available.
inline bool lacks_runner(Runs how) {
  if (how == Runs::threads) return false;
  const auto engine = StorageEngine::create({1, false});
  return !engine || !(*engine)->warning().empty();
}

inline std::unique_ptr<StorageEngine> make_engine(Runs how, std::uint32_t depth = 64, bool pollable = true) {
  auto engine = StorageEngine::create({depth, pollable, how == Runs::threads});
  EXPECT_TRUE(engine) << engine.error().sentence;
  EXPECT_STREQ((*engine)->runner(), how == Runs::threads ? "threads" : "io_uring");
  return std::move(*engine);
}

struct StorageOp : block::StartStorage {
  Export* target = nullptr;
};

inline StorageOp range(Export& target, Opcode opcode, std::uint64_t sector, std::uint32_t bytes,
                       bool fua = false) {
  StorageOp op;
  op.id = block::OpId{sector + 1};
  op.opcode = opcode;
  op.sector = sector;
  op.bytes = bytes;
  op.fua = fua;
  op.target = &target;
  return op;
}

inline StorageOp io(Export& target, Opcode opcode, std::uint64_t sector, std::span<std::byte> data,
                    bool fua = false) {
  StorageOp op = range(target, opcode, sector, static_cast<std::uint32_t>(data.size()), fua);
  op.data = data;
  return op;
}

inline bool submit(StorageEngine& engine, const StorageOp& op) {
  return engine.submit(op, *op.target);
}

inline std::int32_t run(StorageEngine& engine, const StorageOp& op) {
  EXPECT_TRUE(submit(engine, op));
  std::array<StorageResult, 1> done;
  EXPECT_EQ(engine.wait(done), 1U);
  EXPECT_EQ(done[0].id, op.id);
  return done[0].error;
}

inline Buffer filled(std::size_t size, std::uint8_t seed) {
  Buffer buffer(size);
  for (std::size_t i = 0; i < size; ++i) buffer[i] = static_cast<std::byte>(seed + i * 7 + (i >> 9));
  return buffer;
}

// Runs a test with each of the two runners.
class WithRunner : public ::testing::TestWithParam<Runs> {
 protected:
  void SetUp() override {
    if (lacks_runner(GetParam())) GTEST_SKIP() << "io_uring is not available";
  }
  static std::unique_ptr<StorageEngine> engine_of(std::uint32_t depth = 64) {
    return make_engine(GetParam(), depth);
  }
};

}  // namespace rtrs::daemon
