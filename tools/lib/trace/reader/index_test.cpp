// Tests that the index of a file finds records, and that few bytes are read for it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"

namespace rtrs::trace::test::index_test {
namespace {

using Status = Reader::Status;

// A file in memory that counts the bytes that are read.
class CountedSource final : public Source {
 public:
  explicit CountedSource(std::string bytes, bool seekable = true)
      : bytes_(std::move(bytes)), seekable_(seekable) {}
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override {
    const std::size_t part = std::min(size, bytes_.size() - std::min(at_, bytes_.size()));
    std::copy_n(bytes_.data() + at_, part, static_cast<char*>(to));
    at_ += part;
    count += part;
    return static_cast<std::ptrdiff_t>(part);
  }
  std::int64_t seek(std::int64_t offset, int whence) noexcept override {
    if (!seekable_) return -ESPIPE;
    const std::size_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? at_ : bytes_.size();
    return static_cast<std::int64_t>(at_ = base + static_cast<std::size_t>(offset));
  }
  std::size_t count = 0;

 private:
  std::string bytes_;
  bool seekable_;
  std::size_t at_ = 0;
};

constexpr unsigned kBlocks = 200, kInBlock = 50;

// Record `n` has the time 1000 * n. `back`: the times of one block in the middle go back.
std::string long_trace(bool back = false, const char* role = "client") {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  Header header = plain_header();
  header.origin.role = role;
  EXPECT_EQ(writer.start(header), 0);
  for (unsigned i = 0; i < kBlocks * kInBlock; ++i) {
    const Nanos time = back && i / kInBlock == kBlocks / 2 ? 5 : Nanos{1000} * i;
    const ImmReceived imm{time, {1, 2, 3}, i};
    EXPECT_EQ(writer.append(kKindOf<ImmReceived>, 5, &imm), 0);
    if (i % kInBlock == kInBlock - 1) {
      EXPECT_EQ(writer.flush(), 0);
    }
  }
  EXPECT_EQ(writer.finish(), 0);
  return bytes;
}

// Number of the next record; nullopt at the end.
std::optional<std::uint64_t> next(Reader& reader) {
  Record record;
  return reader.next(record) == Status::ok ? std::optional(record.seq) : std::nullopt;
}

std::size_t header_size() {
  return encode_header(plain_header()).size();
}

TEST(Index, LastRecordsAreReadFromTheEnd) {
  const std::string bytes = long_trace();
  CountedSource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Status::ok);
  ASSERT_TRUE(reader.go_to_last(75));
  Record record;
  std::uint64_t expected = kBlocks * kInBlock - 75;
  while (reader.next(record) == Status::ok) {
    EXPECT_EQ(record.seq, expected);
    EXPECT_EQ(record.time, 1000 * expected++);
  }
  EXPECT_EQ(expected, kBlocks * kInBlock);
  EXPECT_EQ(reader.stop().reason, "") << "the trailer agrees with the blocks that were read";
  EXPECT_EQ(reader.records(), kBlocks * kInBlock);
  EXPECT_EQ(reader.blocks(), kBlocks);
  const std::size_t trailers = 2 * (kBlocks * kIndexEntrySize + 100);
  EXPECT_LT(source.count, header_size() + trailers + 3 * bytes.size() / kBlocks);
  ASSERT_TRUE(reader.go_to_last(1'000'000)) << "it also goes back, here to the first record";
  EXPECT_EQ(next(reader), 0U);
}

TEST(Index, ARangeOfTimesIsReadAlone) {
  const std::string bytes = long_trace();
  CountedSource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Status::ok);
  EXPECT_EQ(next(reader), 0U);
  reader.skip_to_time(4'990'001, 0);
  std::uint64_t first = *next(reader), last = first;
  EXPECT_GT(first, 4990U - kInBlock - 1);
  EXPECT_LE(first, 4991U);
  while (!reader.is_past(5'010'000)) last = *next(reader);
  EXPECT_GE(last, 5010U);
  EXPECT_LT(last, 5011U + kInBlock);
  EXPECT_LT(source.count, header_size() + kBlocks * kIndexEntrySize + 6 * bytes.size() / kBlocks);
}

TEST(Index, ContextBeforeTheRangeIsKept) {
  CountedSource source(long_trace());
  Reader reader(source);
  ASSERT_EQ(reader.open(), Status::ok);
  EXPECT_EQ(next(reader), 0U);
  reader.skip_to_time(5'000'000, 120);
  EXPECT_LE(*next(reader), 5000U - 120U);
  reader.skip_to_time(0, 0);
  EXPECT_GT(*next(reader), 4000U) << "it never goes back";
}

TEST(Index, TimesThatGoBackAreNotSearched) {
  for (const auto& [back, role] : {std::pair(true, "client"), {false, "both"}}) {
    CountedSource source(long_trace(back, role));
    Reader reader(source);
    ASSERT_EQ(reader.open(), Status::ok);
    reader.skip_to_time(9'000'000, 0);
    EXPECT_FALSE(reader.is_past(0));
    EXPECT_EQ(next(reader), 0U);
    EXPECT_TRUE(reader.go_to_last(3)) << "the numbers of records are in order";
  }
}

TEST(Index, WithoutItEverythingIsRead) {
  const std::string whole = long_trace();
  const std::string cut = whole.substr(0, whole.size() - 1);
  std::string wrong = whole;
  wrong[wrong.size() - kFooterSize - 10] ^= 1;
  for (auto source : {CountedSource(whole, false), CountedSource(cut), CountedSource(wrong)}) {
    Reader reader(source);
    ASSERT_EQ(reader.open(), Status::ok);
    EXPECT_FALSE(reader.go_to_last(1));
    reader.skip_to_time(9'000'000, 0);
    EXPECT_FALSE(reader.is_past(0));
    for (std::uint64_t i = 0; i < kBlocks * kInBlock; ++i) ASSERT_EQ(next(reader), i);
  }
}

TEST(Index, DamagedBlockIsFoundAfterASkip) {
  std::string bytes = long_trace();
  bytes[bytes.size() - kBlocks * kIndexEntrySize - 200] ^= 1;
  CountedSource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Status::ok);
  ASSERT_TRUE(reader.go_to_last(kInBlock));
  Record record;
  EXPECT_EQ(reader.next(record), Status::damaged);
}

}  // namespace
}  // namespace rtrs::trace::test::index_test
