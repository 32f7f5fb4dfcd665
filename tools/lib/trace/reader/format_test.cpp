#include "core/record/format.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/base/crc32c.hpp"
#include "core/record/varint.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/reader/wire_reader.hpp"

namespace rtrs::trace::test::format_test {
namespace {

TEST(Crc32c, KnownValue) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283U);
  EXPECT_EQ(crc32c("6789", 4, crc32c("12345", 5)), 0xe3069283U);
}

RC_GTEST_PROP(Varint, RoundTrip, ()) {
  const auto value = random_number<std::uint64_t>();
  std::uint8_t bytes[kMaxVarint];
  const std::uint8_t* end = put_varint(bytes, value);
  std::uint64_t back = 0;
  RC_ASSERT(get_varint(bytes, end, back) == end);
  RC_ASSERT(back == value);
  RC_ASSERT(get_varint(bytes, end - 1, back) == nullptr);
  const auto number = static_cast<std::int64_t>(value);
  RC_ASSERT(unzigzag(zigzag(number)) == number);
}

TEST(Varint, RefusesOverlongAndOversizedEncodings) {
  std::uint64_t value = 0;
  const std::uint8_t overlong[] = {0x80, 0x00};
  EXPECT_EQ(get_varint(overlong, overlong + 2, value), nullptr);
  const std::uint8_t above[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
  EXPECT_EQ(get_varint(above, above + 10, value), nullptr);
  const std::uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  EXPECT_EQ(get_varint(endless, endless + 11, value), nullptr);
}

// Kind numbers and field order must not change, because existing traces depend on them.
TEST(Format, GoldenRecord) {
  std::uint8_t bytes[kMaxBuiltinRecord];
  Nanos last = 1000;
  const Submitted submitted{1200, 300, Direction::write, false, true, 9, 4096, 48};
  const std::uint8_t* end = put_record(bytes, 2, submitted, last);
  const std::uint8_t expected[] = {33, 2, 0x90, 0x03, 0xac, 0x02, 1, 0, 1, 9, 0x80, 0x20, 48};
  ASSERT_EQ(end - bytes, static_cast<std::ptrdiff_t>(sizeof expected));
  EXPECT_EQ(std::memcmp(bytes, expected, sizeof expected), 0);
  EXPECT_EQ(last, 1200U);
}

TEST(Format, GoldenNote) {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  ASSERT_EQ(writer.start(plain_header()), 0);
  WireSent note;
  note.now = 1000;
  note.key = {1, 2, 3};
  note.op = WireOp::write_imm;
  note.has_imm = true;
  note.imm = 0x123;
  note.rkey = 7;
  note.remote_addr = 0x1000;
  note.length = 300;
  note.digest = content_digest("data", 4);
  const std::string head = "head";
  note.head = std::as_bytes(std::span(head));
  ASSERT_EQ(writer.append_note(2, note), 0);
  const std::string too_long(kMaxHead + 1, 'x');
  note.head = std::as_bytes(std::span(too_long));
  EXPECT_EQ(writer.append_note(2, note), EOVERFLOW);
  ASSERT_EQ(writer.finish(), 0);
  MemorySource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Reader::Status::ok);
  Record record;
  ASSERT_EQ(reader.next(record), Reader::Status::ok);
  EXPECT_EQ(fields_text(*record.event, record.values, reader.header().schema),
            "key.path=1 key.con=2 key.epoch=3 op=write_imm has_imm=true imm=291 rkey=7 remote_addr=4096 "
            "length=300 digest=" +
                std::to_string(content_digest("data", 4)) + " head=68656164");
  const auto back = WireNotes(reader.header().schema).note(record);
  ASSERT_TRUE(std::holds_alternative<WireSent>(back));
  EXPECT_EQ(std::get<WireSent>(back).key, note.key);
  EXPECT_EQ(std::get<WireSent>(back).head.size(), 4U);
  EXPECT_EQ(reader.next(record), Reader::Status::end);
}

template <class... Alternatives>
void add_kinds(std::type_identity<std::variant<Alternatives...>>, std::set<KindId>& kinds) {
  const auto add = [&kinds]<class T>(std::type_identity<T> type) {
    if constexpr (kIsVariant<T>) {
      add_kinds(type, kinds);
    } else {
      static_assert(KindOf<T>::category == EventClass::action);
      kinds.insert(kKindOf<T>);
    }
  };
  (add(std::type_identity<Alternatives>{}), ...);
}

TEST(Format, EveryActionKindHasANumber) {
  std::set<KindId> actions;
  add_kinds(std::type_identity<ClientAction>{}, actions);
  add_kinds(std::type_identity<ServerAction>{}, actions);
  EXPECT_EQ(actions.size(), 22U);  // 8 kinds are actions of both client and server
  add_kinds(std::type_identity<RegistryAction>{}, actions);
  EXPECT_EQ(actions.size(), 25U);
}

// The list of words ends at the first value without a word, so a missing word would shorten the list.
TEST(Format, EveryErrorHasAWord) {
  const auto found = std::find_if(builtin_schema().enums.begin(), builtin_schema().enums.end(),
                                  [](const EnumInfo& one) { return one.name == "Errc"; });
  ASSERT_NE(found, builtin_schema().enums.end());
  std::set<std::string> words;
  unsigned value = 0;
  for (; to_string(static_cast<Errc>(value)) != std::string("unknown error"); ++value)
    words.emplace(found->word_of(value));
  EXPECT_EQ(words.size(), value);
  EXPECT_EQ(found->words.size(), value);
  EXPECT_EQ(found->word_of(static_cast<std::uint64_t>(Errc::path_exists)), "path_exists");
}

RC_GTEST_PROP(Format, EveryEventRoundTrips, ()) {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  RC_ASSERT(writer.start(plain_header()) == 0);
  std::vector<Written> written;
  for (const EventInfo& event : builtin_schema().events) {
    write_random(writer, event.id, written);
    if (*rc::gen::inRange(0, 8) == 0) RC_ASSERT(writer.flush() == 0);
  }
  RC_ASSERT(writer.finish() == 0);
  const ReadBack back = read_all(bytes);
  RC_ASSERT(back.stop.reason == "");
  RC_ASSERT(back.status == Reader::Status::end);
  RC_ASSERT(back.records == written);
  RC_ASSERT(back.header == plain_header());
  RC_ASSERT(back.chain_hash == writer.chain_hash());
}

RC_GTEST_PROP(Format, StructsRoundTrip, ()) {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  RC_ASSERT(writer.start(plain_header()) == 0);
  const auto begin = random_event<BeginClient>();
  const auto connect = random_event<ConnectRequested>();
  RC_ASSERT(writer.append(kKindOf<BeginClient>, 1, &begin) == 0);
  RC_ASSERT(writer.append(kKindOf<ConnectRequested>, 1, &connect) == 0);
  RC_ASSERT(writer.finish() == 0);
  MemorySource source(bytes);
  Reader reader(source);
  RC_ASSERT(reader.open() == Reader::Status::ok);
  const Compatibility compatibility(reader.header().schema);
  Record record;
  RC_ASSERT(reader.next(record) == Reader::Status::ok);
  const auto begin_back = get_struct<BeginClient>(record, compatibility.map(record.event->id));
  RC_ASSERT(begin_back.config == begin.config);
  RC_ASSERT(begin_back.now == begin.now);
  RC_ASSERT(reader.next(record) == Reader::Status::ok);
  const auto connect_back = get_struct<ConnectRequested>(record, compatibility.map(record.event->id));
  RC_ASSERT(connect_back.now == connect.now);
  RC_ASSERT(encoded_fields(connect_back) == encoded_fields(connect));
}

TEST(Format, BlocksAreFilledAndBounded) {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  ASSERT_EQ(writer.start(plain_header()), 0);
  for (unsigned i = 0; i < 50'000; ++i) {
    const ImmReceived imm{i * 1000, {1, 2, 3}, i};
    ASSERT_EQ(writer.append(kKindOf<ImmReceived>, 1, &imm), 0);
  }
  const std::uint64_t before = writer.chain_hash();
  ASSERT_EQ(writer.finish(), 0);
  EXPECT_EQ(writer.chain_hash(), before);
  EXPECT_EQ(writer.bytes(), bytes.size());
  const ReadBack back = read_all(bytes);
  EXPECT_EQ(back.status, Reader::Status::end) << back.stop.reason;
  EXPECT_EQ(back.records.size(), 50'000U);
  EXPECT_GE(back.blocks, 7U);
  EXPECT_LE(back.blocks, bytes.size() / (kMaxBlock - 64) + 1);
}

// Blocks only frame the records: if the same records are in other blocks, the chain hash is equal.
TEST(Format, ChainHashIgnoresBlocks) {
  std::uint64_t hashes[2];
  for (const bool flush : {false, true}) {
    std::string bytes;
    Writer writer(std::make_unique<StringSink>(bytes));
    ASSERT_EQ(writer.start(plain_header()), 0);
    for (unsigned i = 0; i < 10; ++i) {
      const DeadlineReached event{i * 5};
      ASSERT_EQ(writer.append(kKindOf<DeadlineReached>, 1, &event), 0);
      if (flush) {
        ASSERT_EQ(writer.flush(), 0);
      }
    }
    hashes[flush ? 1 : 0] = writer.chain_hash();
    ASSERT_EQ(writer.finish(), 0);
    EXPECT_EQ(read_all(bytes).status, Reader::Status::end);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Format, HeaderTextsAreTruncatedAndSanitized) {
  Header header = plain_header();
  header.origin.tool = "a\xff" + std::string(2000, 'b');
  header.origin.role = "\xc3\xa4";
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  ASSERT_EQ(writer.start(header), 0);
  ASSERT_EQ(writer.finish(), 0);
  const ReadBack back = read_all(bytes);
  EXPECT_EQ(back.status, Reader::Status::end);
  EXPECT_EQ(back.header.origin.tool, "a?" + std::string(kMaxText - 2, 'b'));
  EXPECT_EQ(back.header.origin.role, "\xc3\xa4");
}

TEST(Text, RecordsAndTimesAsText) {
  const std::string bytes = small_trace(1);
  MemorySource source(bytes);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Reader::Status::ok);
  Record record;
  ASSERT_EQ(reader.next(record), Reader::Status::ok);
  EXPECT_EQ(record_text(record, reader.header().schema),
            "         0.000000000  #5   > ImmReceived              key.path=1 key.con=2 key.epoch=3 imm=77");
  EXPECT_EQ(time_text(1'500'000'001), "1.500000001");
  EXPECT_EQ(time_text(kNever), "never");
}

TEST(Text, EnumerationsAreShownAsWords) {
  const EventInfo& event = *builtin_schema().find(kKindOf<ConnectionLost>);
  Value values[4];
  values[3].number = static_cast<std::uint64_t>(Reason::heartbeat_lost);
  EXPECT_EQ(fields_text(event, values, builtin_schema()),
            "key.path=0 key.con=0 key.epoch=0 reason=heartbeat_lost");
  values[3].number = 250;
  EXPECT_EQ(fields_text(event, values, builtin_schema()), "key.path=0 key.con=0 key.epoch=0 reason=250");
}

}  // namespace
}  // namespace rtrs::trace::test::format_test
