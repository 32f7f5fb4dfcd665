// Tests of file exports: allocated blocks and size changes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/test_engine.hpp"
#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::storage_file_test {
namespace {

constexpr std::uint64_t kSize = 1 << 20;
// Calls fsync and returns the number of 512-byte blocks that the file system has allocated for the file.
blkcnt_t allocated(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  EXPECT_EQ(::fsync(fd.get()), 0);
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_blocks;
}

class EngineFile : public WithRunner {};
INSTANTIATE_TEST_SUITE_P(Runners, EngineFile, ::testing::Values(Runs::io_uring, Runs::threads), runner_name);

TEST_P(EngineFile, WriteZeroesFreesBlocksUnlessNounmap) {
  TestDirectory directory;
  const std::string path = directory.make_file("thin.img", kSize);
  ASSERT_EQ(::truncate(path.c_str(), 0), 0);
  ASSERT_EQ(::truncate(path.c_str(), kSize), 0);
  const auto catalog = std::move(*Catalog::create({{"disk", path, 0, false, 0}}, std::nullopt));
  auto opened = catalog->open("sess", "disk", AccessMode::read_write);
  ASSERT_TRUE(opened) << opened.error().sentence;
  Export& device = *opened->device;
  const auto engine = engine_of();
  const blkcnt_t empty = allocated(path);
  Buffer data = filled(kSize, 3);
  ASSERT_EQ(run(*engine, io(device, Opcode::write, 0, data)), 0);
  const blkcnt_t full = allocated(path);
  ASSERT_GE(full, empty + static_cast<blkcnt_t>(kSize / 512));
  StorageOp zeroes = range(device, Opcode::write_zeroes, 0, kSize);
  zeroes.nounmap = true;
  EXPECT_EQ(run(*engine, zeroes), 0);
  EXPECT_GE(allocated(path), full) << "NOUNMAP keeps blocks";
  zeroes.nounmap = false;
  EXPECT_EQ(run(*engine, zeroes), 0);
  EXPECT_LE(allocated(path), empty + 16) << "without NOUNMAP, blocks are freed";
  zeroes.nounmap = true;
  EXPECT_EQ(run(*engine, zeroes), 0);
  EXPECT_GE(allocated(path), empty + static_cast<blkcnt_t>(kSize / 512)) << "NOUNMAP fills holes";
  Buffer back = filled(kSize, 9);
  EXPECT_EQ(run(*engine, io(device, Opcode::read, 0, back)), 0);
  EXPECT_EQ(back, Buffer(kSize));
}

TEST_P(EngineFile, ServesAGrownFileAfterMeasuring) {
  TestDirectory directory;
  const std::string path = directory.make_file("grows.img", kSize);
  const auto catalog = std::move(*Catalog::create({{"disk", path, 0, false, 0}}, std::nullopt));
  auto opened = catalog->open("sess", "disk", AccessMode::read_write);
  ASSERT_TRUE(opened) << opened.error().sentence;
  Export& device = *opened->device;
  const auto engine = engine_of();
  Buffer data = filled(4096, 3);
  ASSERT_EQ(::truncate(path.c_str(), 2 * kSize + 100), 0);
  EXPECT_EQ(run(*engine, io(device, Opcode::write, kSize / 512, data)), EIO);
  device.resize(device.measure());
  EXPECT_EQ(device.sectors(), 2 * kSize / 512) << "an incomplete last block is not exported";
  EXPECT_EQ(run(*engine, io(device, Opcode::write, kSize / 512, data)), 0);
  ASSERT_EQ(::truncate(path.c_str(), kSize), 0);
  device.resize(device.measure());
  EXPECT_EQ(device.sectors(), kSize / 512);
  EXPECT_EQ(run(*engine, io(device, Opcode::write, kSize / 512, data)), EIO);
}

}  // namespace
}  // namespace rtrs::daemon::storage_file_test
