#include "tools/urtrsd/storage/memory_progress.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace rtrs::daemon::memory_progress_test {
namespace {

struct Slice {
  MemoryStep step;
  std::uint64_t offset;
  std::uint32_t length;
  bool operator==(const Slice&) const = default;
};

std::vector<Slice> slices(MemoryProgress progress) {
  std::vector<Slice> all;
  for (; progress.step() != MemoryStep::done; progress.on_done())
    all.push_back({progress.step(), progress.offset(), progress.length()});
  return all;
}

constexpr std::uint32_t kPage = 4096;

TEST(MemoryProgress, FlushIsDoneAtOnce) {
  EXPECT_TRUE(slices({Opcode::flush, 0, 0, kPage, false}).empty());
}

TEST(MemoryProgress, OnlyWholePagesAreReleased) {
  EXPECT_EQ(slices({Opcode::discard, 512, 3 * kPage, kPage, false}),
            (std::vector<Slice>{{MemoryStep::zero, 512, kPage - 512},
                                {MemoryStep::release, kPage, 2 * kPage},
                                {MemoryStep::zero, 3 * kPage, 512}}));
  EXPECT_EQ(slices({Opcode::write_zeroes, kPage + 512, 1024, kPage, false}),
            (std::vector<Slice>{{MemoryStep::zero, kPage + 512, 1024}}));
}

TEST(MemoryProgress, PagesAreKeptOnRequest) {
  EXPECT_EQ(slices({Opcode::write_zeroes, 0, 2 * kPage, kPage, true}),
            (std::vector<Slice>{{MemoryStep::zero, 0, 2 * kPage}}));
}

TEST(MemoryProgress, UnreleasablePagesAreZeroed) {
  MemoryProgress progress(Opcode::discard, 0, 8 * kPage, kPage, false);
  ASSERT_EQ(progress.step(), MemoryStep::release);
  progress.on_not_released();
  EXPECT_EQ(slices(progress), (std::vector<Slice>{{MemoryStep::zero, 0, 8 * kPage}}));
}

RC_GTEST_PROP(MemoryProgress, SlicesAreShortAndCoverTheRangeOnce, ()) {
  const auto opcode = *rc::gen::element(Opcode::read, Opcode::write, Opcode::discard, Opcode::write_zeroes);
  const auto page = *rc::gen::element<std::uint32_t>(4096, 65536);
  const std::uint64_t offset = 512 * *rc::gen::inRange<std::uint64_t>(0, 1ULL << 32);
  const std::uint32_t bytes = 512 * *rc::gen::inRange<std::uint32_t>(1, 1 << 16);
  MemoryProgress progress(opcode, offset, bytes, page, *rc::gen::arbitrary<bool>());
  std::uint64_t at = offset;
  while (progress.step() != MemoryStep::done) {
    const bool released = progress.step() == MemoryStep::release;
    RC_ASSERT(progress.offset() == at);
    RC_ASSERT(progress.buffer_offset() == at - offset);
    RC_ASSERT(progress.length() > 0U);
    RC_ASSERT(progress.length() <= (released ? MemoryProgress::kReleaseSlice : MemoryProgress::kCopySlice));
    RC_ASSERT(!released || (at % page == 0 && progress.length() % page == 0));
    RC_ASSERT(!released || opcode == Opcode::discard || opcode == Opcode::write_zeroes);
    at += progress.length();
    progress.on_done();
  }
  RC_ASSERT(at == offset + bytes);
}

}  // namespace
}  // namespace rtrs::daemon::memory_progress_test
