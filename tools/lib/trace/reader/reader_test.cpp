#include "tools/lib/trace/reader/reader.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "core/base/crc32c.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::trace::test::reader_test {
namespace {

using Status = Reader::Status;

TEST(Reader, TruncationAnywhereKeepsWholeBlocks) {
  std::vector<std::size_t> ends;
  const std::string whole = small_trace(4, &ends);
  const std::vector<Written> all = read_all(whole).records;
  ASSERT_EQ(all.size(), 12U);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const ReadBack back = read_all(std::string_view(whole).substr(0, size));
    ASSERT_NE(back.status, Status::end) << size;
    ASSERT_NE(back.status, Status::ok) << size;
    ASSERT_FALSE(back.stop.reason.empty()) << size;
    ASSERT_LE(back.stop.offset, size);
    const auto blocks =
        std::count_if(ends.begin() + 1, ends.end(), [size](std::size_t end) { return end <= size; });
    ASSERT_EQ(back.records.size(), static_cast<std::size_t>(blocks) * 4) << size;
    ASSERT_TRUE(std::equal(back.records.begin(), back.records.end(), all.begin())) << size;
    if (size >= ends[0]) {
      ASSERT_EQ(back.status, Status::damaged) << size;
      // Reading stops at the start of the first incomplete block, or in the trailer.
      ASSERT_EQ(back.stop.offset, ends[static_cast<std::size_t>(blocks)]) << size;
    }
  }
}

TEST(Reader, EveryWrongByteIsFound) {
  std::vector<std::size_t> ends;
  const std::string whole = small_trace(4, &ends);
  const std::vector<Written> all = read_all(whole).records;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ change);
      const ReadBack back = read_all(broken);
      ASSERT_NE(back.status, Status::end) << at;
      const auto blocks =
          std::count_if(ends.begin() + 1, ends.end(), [at](std::size_t end) { return end <= at; });
      ASSERT_EQ(back.records.size(), static_cast<std::size_t>(blocks) * 4) << at;
      ASSERT_TRUE(std::equal(back.records.begin(), back.records.end(), all.begin())) << at;
    }
  }
}

TEST(Reader, BytesAfterTheTrailerAreDamage) {
  const std::string bytes = small_trace(1) + "x";
  const ReadBack back = read_all(bytes);
  EXPECT_EQ(back.status, Status::damaged);
  EXPECT_EQ(back.stop.offset, bytes.size() - 1);
  EXPECT_EQ(back.records.size(), 3U);
}

TEST(Reader, ReportsForeignFilesAndUnknownVersions) {
  EXPECT_EQ(read_all("").status, Status::not_a_trace);
  EXPECT_EQ(read_all("#!/bin/sh and so on").status, Status::not_a_trace);
  std::string later = small_trace(1);
  later[8] = 2;
  const ReadBack back = read_all(later);
  EXPECT_EQ(back.status, Status::unknown_version);
  EXPECT_EQ(back.stop.reason,
            "the format is version 2." + std::to_string(kMinor) + ", this program reads version 1");
}

// Bytes with valid checksums can still be invalid. Reading such bytes must be safe.
RC_GTEST_PROP(Reader, InvalidBytesWithValidChecksumsAreSafe, ()) {
  std::vector<std::size_t> ends;
  std::string bytes = small_trace(4, &ends);
  const auto damage = [&bytes](std::size_t from, std::size_t to) {
    const int changes = *rc::gen::inRange(1, 6);
    for (int i = 0; i < changes; ++i) {
      const auto at = *rc::gen::inRange(from, to);
      bytes[at] = static_cast<char>(*rc::gen::arbitrary<std::uint8_t>());
    }
  };
  const auto seal = [&bytes](std::size_t from, std::size_t crc_at) {
    put_u32(reinterpret_cast<std::uint8_t*>(bytes.data()) + crc_at,
            crc32c(bytes.data() + from, crc_at - from));
  };
  if (*rc::gen::arbitrary<bool>()) {
    damage(kPreambleSize, ends[0] - kCrcSize);
    seal(0, ends[0] - kCrcSize);
  }
  const auto block = *rc::gen::inRange<std::size_t>(0, 3);
  damage(ends[block], ends[block + 1] - kCrcSize);
  seal(ends[block], ends[block + 1] - kCrcSize);

  MemorySource source(bytes);
  Reader reader(source);
  Status status = reader.open();
  Record record;
  std::size_t records = 0;
  while (status == Status::ok && (status = reader.next(record)) == Status::ok) {
    ++records;
    RC_ASSERT(!record_text(record, reader.header().schema).empty());
    RC_ASSERT(!record_json(record, reader.header().schema).empty());
  }
  RC_ASSERT(records <= bytes.size());
  RC_ASSERT(reader.stop().offset <= bytes.size());
}

RC_GTEST_PROP(Reader, RandomBytesAreSafe, ()) {
  const auto tail = *rc::gen::arbitrary<std::string>();
  const ReadBack back = read_all(std::string(kMagic) + std::string("\1\0\0\0", 4) + tail);
  RC_ASSERT(back.status != Status::end);
}

// A later version added an event, a frame and a header field. The trace can still be read and printed.
TEST(Reader, ReadsAdditionsOfALaterVersion) {
  Header header = plain_header();
  header.minor = 7;
  EventInfo added;
  added.id = 300;
  added.category = EventClass::control;
  added.name = "PayloadSeen";
  added.fields = {{"digest", FieldType::bytes, 0, 0},
                  {"note", FieldType::text, 0, 0},
                  {"offset", FieldType::signed_number, 4, 0},
                  {"why", FieldType::enumeration, 1, 1}};
  header.schema.events.push_back(added);
  header.schema.enums[1].words.push_back({200, "brand_new"});

  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  ASSERT_EQ(writer.start(header), 0);
  const Value values[] = {
      {0, {"\x01\x02", 2}}, {0, "say \"hi\"\n"}, {static_cast<std::uint64_t>(-5), {}}, {200, {}}};
  ASSERT_EQ(writer.append_values(added, 3, 9, values), 0);
  const Value too_big[] = {{0, {}}, {0, {}}, {std::uint64_t{1} << 31, {}}, {0, {}}};
  EXPECT_EQ(writer.append_values(added, 3, 9, too_big), EINVAL);
  const Value not_utf8[] = {{0, {}}, {0, "\xff"}, {0, {}}, {0, {}}};
  EXPECT_EQ(writer.append_values(added, 3, 9, not_utf8), EINVAL);
  const std::string huge(kMaxBlock, 'x');
  const Value too_long[] = {{0, huge}, {0, {}}, {0, {}}, {0, {}}};
  EXPECT_EQ(writer.append_values(added, 3, 9, too_long), EOVERFLOW);
  ASSERT_EQ(writer.finish(), 0);

  MemorySource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Status::ok) << reader.stop().reason;
  EXPECT_EQ(reader.header(), header);
  Record record;
  ASSERT_EQ(reader.next(record), Status::ok);
  EXPECT_EQ(fields_text(*record.event, record.values, reader.header().schema),
            "digest=0102 note=\"say \\\"hi\\\"\\x0a\" offset=-5 why=brand_new");
  EXPECT_EQ(reader.next(record), Status::end);
  EXPECT_STREQ(Compatibility(header.schema).problem(300), "this version does not know the event");
}

TEST(Reader, SkipsFramesOfALaterVersion) {
  std::vector<std::size_t> ends;
  const std::string whole = small_trace(2, &ends);
  // The frame is inserted before the first block. This makes the index in the trailer wrong, so only the
  // blocks are checked.
  std::uint8_t frame[kFrameHeadSize + 5 + kCrcSize] = {};
  encode_frame_head({0x314d4d4d, 5, 0, 0, 0}, frame);
  put_u32(frame + kFrameHeadSize + 5, crc32c(frame, kFrameHeadSize + 5));
  const std::string bytes = whole.substr(0, ends[0]) +
                            std::string(reinterpret_cast<const char*>(frame), sizeof frame) +
                            whole.substr(ends[0], ends[3] - ends[0]);
  const ReadBack back = read_all(bytes);
  EXPECT_EQ(back.records.size(), 6U);
  EXPECT_EQ(back.stop.offset, bytes.size());
}

TEST(Compatibility, OlderTracesLackFields) {
  Schema older = builtin_schema();
  auto& fields = older.events[0].fields;  // fields of BeginClient
  ASSERT_EQ(fields.back().name, "config.probe_deliveries");
  fields.pop_back();
  Compatibility compatibility(older);
  EXPECT_EQ(compatibility.problem(kKindOf<BeginClient>), nullptr);
  EXPECT_FALSE(compatibility.same(kKindOf<BeginClient>));
  EXPECT_EQ(compatibility.map(kKindOf<BeginClient>).back(), -1);
  EXPECT_TRUE(compatibility.same(kKindOf<ImmReceived>));

  older.events[0].fields.push_back({"config.unheard_of", FieldType::boolean, 1, 0});
  EXPECT_STREQ(Compatibility(older).problem(kKindOf<BeginClient>),
               "this version does not know all fields of the event");
  older.events[0].fields.pop_back();
  EXPECT_EQ(Compatibility(older).problem(kKindOf<BeginClient>), nullptr);
  // In an older version a number may have been narrower, but not wider.
  older.events[0].fields[0].width = 4;
  EXPECT_EQ(Compatibility(older).problem(kKindOf<BeginClient>), nullptr);
  older.events[0].fields[0].width = 16;
  EXPECT_STREQ(Compatibility(older).problem(kKindOf<BeginClient>),
               "this version has another type for field config.seed");
}

}  // namespace
}  // namespace rtrs::trace::test::reader_test
