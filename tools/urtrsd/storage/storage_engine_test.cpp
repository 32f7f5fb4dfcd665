#include "tools/urtrsd/storage/storage_engine.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <poll.h>
#include <rapidcheck/gtest.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <tuple>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/test_engine.hpp"
#include "tools/urtrsd/storage/test_files.hpp"

namespace {
std::size_t allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace rtrs::daemon {
namespace {

constexpr std::uint64_t kSize = 1 << 20;
enum class Kind : std::uint8_t { file, memory, delayed_memory, delayed_file };

class Engine : public ::testing::TestWithParam<std::tuple<Kind, Runs>> {
 protected:
  void SetUp() override {
    if (lacks_runner(runs())) GTEST_SKIP() << "io_uring is not available";
    engine_ = engine_of();
    open(AccessMode::read_write);
  }
  static Kind kind() { return std::get<Kind>(GetParam()); }
  static Runs runs() { return std::get<Runs>(GetParam()); }
  static std::unique_ptr<StorageEngine> engine_of(std::uint32_t depth = 64) {
    return make_engine(runs(), depth);
  }
  void open(AccessMode mode) {
    if (!catalog_) {
      const bool in_memory = kind() == Kind::memory || kind() == Kind::delayed_memory;
      const bool delayed = kind() == Kind::delayed_memory || kind() == Kind::delayed_file;
      ExportSpec spec{"disk", "", 0, false, delayed ? 1U : 0U};
      if (in_memory)
        spec.memory_bytes = kSize;
      else
        spec.path = directory_.make_file("disk.img", kSize);
      catalog_ = std::move(*Catalog::create({spec}, std::nullopt));
    }
    opened_ = OpenedDevice();
    auto opened = catalog_->open("sess", "disk", mode);
    ASSERT_TRUE(opened) << opened.error().sentence;
    opened_ = std::move(*opened);
  }
  Export& device() { return *opened_.device; }

  TestDirectory directory_;
  std::unique_ptr<Catalog> catalog_;
  OpenedDevice opened_;
  std::unique_ptr<StorageEngine> engine_;
};

std::string kind_name(const ::testing::TestParamInfo<std::tuple<Kind, Runs>>& tested) {
  constexpr std::array kNames{"file", "memory", "delayed_memory", "delayed_file"};
  const std::string name = kNames[static_cast<std::size_t>(std::get<Kind>(tested.param))];
  return std::get<Runs>(tested.param) == Runs::threads ? name + "_threads" : name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Engine,
                         ::testing::Combine(::testing::Values(Kind::file, Kind::memory, Kind::delayed_memory,
                                                              Kind::delayed_file),
                                            ::testing::Values(Runs::io_uring, Runs::threads)),
                         kind_name);

TEST_P(Engine, ReadsWhatWasWritten) {
  Buffer written = filled(128 * 1024, 3);
  EXPECT_EQ(run(*engine_, io(device(), Opcode::write, 8, written)), 0);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::flush, 0, 0)), 0);
  Buffer read(written.size());
  EXPECT_EQ(run(*engine_, io(device(), Opcode::read, 8, read)), 0);
  EXPECT_EQ(read, written);
}

TEST_P(Engine, FuaIsAcceptedForEveryChange) {
  Buffer written = filled(4096, 5);
  EXPECT_EQ(run(*engine_, io(device(), Opcode::write, 0, written, true)), 0);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::write_zeroes, 0, 512, true)), 0);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::discard, 1, 512, true)), 0);
}

TEST_P(Engine, ZeroedAndDiscardedRangesReadAsZero) {
  for (const Opcode opcode : {Opcode::write_zeroes, Opcode::discard}) {
    Buffer expected = filled(64 * 1024, 9);
    ASSERT_EQ(run(*engine_, io(device(), Opcode::write, 0, expected)), 0);
    ASSERT_EQ(run(*engine_, range(device(), opcode, 3, 20 * 512)), 0);
    std::fill_n(expected.begin() + 3 * 512, 20 * 512, std::byte{0});
    Buffer read(expected.size());
    ASSERT_EQ(run(*engine_, io(device(), Opcode::read, 0, read)), 0);
    EXPECT_EQ(read, expected);
  }
  EXPECT_EQ(device().size_bytes(), kSize);
}

TEST_P(Engine, RangesBeyondTheEndAreRejected) {
  Buffer buffer(1024);
  const std::uint64_t last = device().sectors() - 1;
  for (const Opcode opcode : {Opcode::read, Opcode::write}) {
    EXPECT_EQ(run(*engine_, io(device(), opcode, last, buffer)), EIO);
    EXPECT_EQ(run(*engine_, io(device(), opcode, last + 2, buffer)), EIO);
    EXPECT_EQ(run(*engine_, io(device(), opcode, ~0ULL, buffer)), EIO);
    EXPECT_EQ(run(*engine_, io(device(), opcode, 1ULL << 55, buffer)), EIO);
  }
  EXPECT_EQ(run(*engine_, range(device(), Opcode::discard, 1, 0xfffffe00U)), EIO);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::write_zeroes, last, 1024)), EIO);
}

TEST_P(Engine, OnlyWholeBlocksAreAccepted) {
  Buffer buffer(513);
  EXPECT_EQ(run(*engine_, io(device(), Opcode::read, 0, buffer)), EINVAL);
  Buffer nothing;
  EXPECT_EQ(run(*engine_, io(device(), Opcode::write, 0, nothing)), EINVAL);
}

TEST_P(Engine, ReadOnlyExportIsNotChanged) {
  open(AccessMode::read_only);
  Buffer buffer = filled(512, 1);
  EXPECT_EQ(run(*engine_, io(device(), Opcode::write, 0, buffer)), EPERM);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::discard, 0, 512)), EPERM);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::write_zeroes, 0, 512)), EPERM);
  EXPECT_EQ(run(*engine_, range(device(), Opcode::flush, 0, 0)), 0);
  EXPECT_EQ(run(*engine_, io(device(), Opcode::read, 0, buffer)), 0);
  EXPECT_EQ(buffer, Buffer(512));
}

TEST_P(Engine, SubmitReturnsFalseWhenFull) {
  engine_ = engine_of(4);
  Buffer buffer(512);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(submit(*engine_, io(device(), Opcode::read, 0, buffer)));
  EXPECT_FALSE(submit(*engine_, io(device(), Opcode::read, 0, buffer)));
  EXPECT_EQ(engine_->in_flight(), 4U);
  EXPECT_EQ(device().in_flight(), 4U);
  std::array<StorageResult, 3> done;
  std::size_t reported = 0;
  while (reported < 4) reported += engine_->wait(done);
  EXPECT_EQ(reported, 4U);
  EXPECT_EQ(engine_->wait(done), 0U);
  EXPECT_EQ(device().in_flight(), 0U);
  EXPECT_EQ(run(*engine_, io(device(), Opcode::read, 0, buffer)), 0);
}

TEST_P(Engine, DestructionWaitsForTheKernel) {
  Buffer written = filled(256 * 1024, 11);
  ASSERT_TRUE(submit(*engine_, io(device(), Opcode::write, 0, written)));
  engine_.reset();
  EXPECT_EQ(device().in_flight(), 0U);
  engine_ = engine_of();
  Buffer read(written.size());
  EXPECT_EQ(run(*engine_, io(device(), Opcode::read, 0, read)), 0);
  EXPECT_EQ(read, written);
}

TEST_P(Engine, DescriptorWakesAnEventLoop) {
  Buffer buffer(4096);
  ASSERT_TRUE(submit(*engine_, io(device(), Opcode::read, 0, buffer)));
  std::array<StorageResult, 4> done;
  std::size_t reported = 0;
  while (reported == 0) {
    if (!engine_->start_submitted()) {
      pollfd waited{engine_->fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&waited, 1, 60000), 1);
    }
    reported = engine_->poll(done);
  }
  EXPECT_EQ(reported, 1U);
  pollfd quiet{engine_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&quiet, 1, 0), 0);
}

TEST_P(Engine, DoesNotAllocateAfterOpen) {
  Buffer buffer = filled(4096, 1);
  std::array<StorageResult, 16> done;
  const int rounds = kind() == Kind::file || kind() == Kind::memory ? 200 : 10;
  const std::size_t before = allocations;
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t i = 0; i < 16; ++i)
      (void)submit(*engine_, io(device(), i % 2 ? Opcode::read : Opcode::write, i * 8, buffer));
    while (engine_->wait(done) != 0) {
    }
  }
  EXPECT_EQ(allocations, before);
}

// Executes random operations, which never overlap while in flight, and compares the device with a plain
// array.
RC_GTEST_PROP(EngineModel, BehavesLikeAnArray, ()) {
  constexpr std::size_t kSectors = 64;
  TestDirectory directory;
  const bool in_memory = *rc::gen::arbitrary<bool>();
  ExportSpec spec{"disk", in_memory ? "" : directory.make_file("disk.img", kSectors * 512),
                  in_memory ? kSectors * 512 : 0};
  auto catalog = std::move(*Catalog::create({spec}, std::nullopt));
  auto opened = std::move(*catalog->open("s", "disk", AccessMode::read_write));
  const Runs how = *rc::gen::element(Runs::io_uring, Runs::threads);
  if (lacks_runner(how)) return;
  auto engine = make_engine(how, 8, false);
  Buffer model(kSectors * 512);
  for (std::uint8_t step = 0; step < 30; ++step) {
    const auto opcode = static_cast<Opcode>(*rc::gen::inRange(0, 5));
    const auto sector = *rc::gen::inRange<std::uint64_t>(0, kSectors + 2);
    const auto count = *rc::gen::inRange<std::uint64_t>(1, 20);
    Buffer buffer = filled(count * 512, step);
    const bool inside = opcode == Opcode::flush || sector + count <= kSectors;
    RC_ASSERT(run(*engine, io(*opened.device, opcode, sector, buffer, step % 3 == 0)) == (inside ? 0 : EIO));
    if (!inside || opcode == Opcode::flush) continue;
    const auto place = model.begin() + static_cast<std::ptrdiff_t>(sector * 512);
    if (opcode == Opcode::read)
      RC_ASSERT(std::equal(buffer.begin(), buffer.end(), place));
    else if (opcode == Opcode::write)
      std::copy(buffer.begin(), buffer.end(), place);
    else
      std::fill_n(place, buffer.size(), std::byte{0});
  }
}

class EngineTrouble : public WithRunner {};
INSTANTIATE_TEST_SUITE_P(Runners, EngineTrouble, ::testing::Values(Runs::io_uring, Runs::threads),
                         runner_name);

TEST_P(EngineTrouble, ShrunkFileIsAnErrorNotAHang) {
  TestDirectory directory;
  const std::string path = directory.make_file("disk.img", kSize);
  auto catalog = std::move(*Catalog::create({{"disk", path}}, std::nullopt));
  auto opened = std::move(*catalog->open("s", "disk", AccessMode::read_write));
  auto engine = engine_of();
  ASSERT_EQ(::truncate(path.c_str(), 4096 + 100), 0);
  Buffer buffer(8192);
  EXPECT_EQ(run(*engine, io(*opened.device, Opcode::read, 0, buffer)), EIO);
}

TEST(EngineOptions, InvalidDepthIsRejected) {
  EXPECT_EQ(StorageEngine::create({0, true}).error().error, EINVAL);
  EXPECT_EQ(StorageEngine::create({32769, true}).error().error, EINVAL);
}

class SmallTmpfs {
 public:
  SmallTmpfs() { mounted_ = ::mount("urtrs-test", directory_.path().c_str(), "tmpfs", 0, "size=1m") == 0; }
  ~SmallTmpfs() {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  SmallTmpfs(const SmallTmpfs&) = delete;
  SmallTmpfs& operator=(const SmallTmpfs&) = delete;
  bool mounted() const { return mounted_; }
  const TestDirectory& directory() const { return directory_; }

 private:
  TestDirectory directory_;
  bool mounted_ = false;
};

TEST_P(EngineTrouble, FullDiskIsReported) {
  const SmallTmpfs tmpfs;
  if (!tmpfs.mounted()) GTEST_SKIP() << "needs the right to mount a tmpfs of 1 MiB (run as root)";
  const std::string path = tmpfs.directory().make_file("disk.img", 4 * kSize);
  auto catalog = std::move(*Catalog::create({{"disk", path}}, std::nullopt));
  auto opened = std::move(*catalog->open("s", "disk", AccessMode::read_write));
  auto engine = engine_of();
  Buffer buffer = filled(64 * 1024, 1);
  std::map<std::int32_t, int> outcomes;
  for (std::uint64_t i = 0; i < 32; ++i)
    ++outcomes[run(*engine, io(*opened.device, Opcode::write, i * 128, buffer))];
  EXPECT_GT(outcomes[0], 0);
  EXPECT_GT(outcomes[28], 0);
  EXPECT_EQ(outcomes[0] + outcomes[28], 32);
  // The full tmpfs supports punch_hole but not zero_range. write_zeroes must punch a hole, which frees space,
  // so that the next write succeeds.
  EXPECT_EQ(run(*engine, range(*opened.device, Opcode::write_zeroes, 0, kSize)), 0);
  EXPECT_EQ(run(*engine, io(*opened.device, Opcode::write, 128 * 30, buffer)), 0);
  Buffer read(buffer.size(), std::byte{1});
  EXPECT_EQ(run(*engine, io(*opened.device, Opcode::read, 0, read)), 0);
  EXPECT_EQ(read, Buffer(buffer.size()));
}

// A loop device on a file. path() is empty if no loop device is available.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const int number = control ? ::ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
    if (number < 0) return;
    const std::string device = "/dev/loop" + std::to_string(number);
    fd_.reset(::open(device.c_str(), O_RDWR | O_CLOEXEC));
    if (fd_ && ::ioctl(fd_.get(), LOOP_SET_FD, file_.get()) == 0) path_ = device;
  }
  ~LoopDevice() {
    if (!path_.empty()) ::ioctl(fd_.get(), LOOP_CLR_FD, 0);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  const std::string& path() const { return path_; }

 private:
  UniqueFd file_;
  UniqueFd fd_;
  std::string path_;
};

// A buffer aligned to 4096 bytes, as direct IO requires.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(const Buffer& content) : memory_(content.size() + 4096), size_(content.size()) {
    std::copy(content.begin(), content.end(), data());
  }
  std::byte* data() {
    void* at = memory_.data();
    std::size_t room = memory_.size();
    return static_cast<std::byte*>(std::align(4096, size_, at, room));
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(size_); }

 private:
  Buffer memory_;
  std::size_t size_;
};

StorageOp direct_io(Export& target, Opcode opcode, std::uint64_t sector, AlignedBuffer& buffer,
                    bool fua = false) {
  return io(target, opcode, sector, {buffer.data(), buffer.size()}, fua);
}

class EngineBlockDevice : public WithRunner {};
INSTANTIATE_TEST_SUITE_P(Runners, EngineBlockDevice, ::testing::Values(Runs::io_uring, Runs::threads),
                         runner_name);

TEST_P(EngineBlockDevice, ServesALoopDevice) {
  TestDirectory directory;
  const LoopDevice loop(directory.make_file("disk.img", kSize));
  if (loop.path().empty()) GTEST_SKIP() << "no free loop device (needs root and /dev/loop-control)";
  const std::string name = loop.path().substr(5);
  auto catalog = std::move(*Catalog::create({}, "/dev"));
  auto opened = catalog->open("s", name, AccessMode::read_write);
  ASSERT_TRUE(opened) << opened.error().sentence;
  Export& device = *opened->device;
  EXPECT_EQ(device.kind(), ExportKind::block_device);
  EXPECT_EQ(device.size_bytes(), kSize);
  EXPECT_GE(device.geometry().physical_block_size, device.geometry().logical_block_size);
  EXPECT_EQ(catalog->open("t", "./" + name, AccessMode::read_write).error().error, EPERM);
  auto engine = engine_of();
  AlignedBuffer written(filled(64 * 1024, 77));
  EXPECT_EQ(run(*engine, direct_io(device, Opcode::write, 64, written, true)), 0);
  EXPECT_EQ(run(*engine, range(device, Opcode::write_zeroes, 64, 8192)), 0);
  EXPECT_EQ(run(*engine, range(device, Opcode::discard, 96, 8192)),
            device.geometry().max_discard_sectors == 0 ? EOPNOTSUPP : 0);
  EXPECT_EQ(run(*engine, range(device, Opcode::flush, 0, 0)), 0);
  AlignedBuffer read(Buffer(64 * 1024));
  EXPECT_EQ(run(*engine, direct_io(device, Opcode::read, 64, read)), 0);
  std::fill_n(written.data(), 8192, std::byte{0});
  if (device.geometry().max_discard_sectors != 0) std::fill_n(written.data() + 32 * 512, 8192, std::byte{0});
  EXPECT_EQ(std::memcmp(read.data(), written.data(), 64 * 1024), 0);
  EXPECT_EQ(run(*engine, direct_io(device, Opcode::read, device.sectors(), read)), EIO);
}

}  // namespace
}  // namespace rtrs::daemon
