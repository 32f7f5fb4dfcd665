// Tests each way in which a peer can violate the stream protocol: the fault, its Terminate message, and that
// the stream ignores all later input.
#include <gtest/gtest.h>

#include "core/iwarp/stream.hpp"
#include "core/iwarp/test_receiver.hpp"

namespace rtrs::iwarp::test::stream_fault_test {
namespace {

constexpr std::uint32_t kKey = 0x11223344;
constexpr std::uint32_t kForeign = 0x55667788;
constexpr std::uint32_t kHigh = 0x99aabbcc;  // key of a window that ends at the last address
constexpr std::uint64_t kBase = 0x7f0000001000;
constexpr std::uint64_t kHighBase = 0 - std::uint64_t{4096};
constexpr std::size_t kWindow = 4096;
constexpr std::size_t kReceive = 64;
constexpr std::uint32_t kMaxMessage = 65'600;

struct Row {
  const char* name;
  Fault fault;
  TerminateCode code;
  ByteVector before{};  // valid bytes before the fault
  ByteVector wrong{};
};

ByteVector ulpdu_of_length(std::size_t size, bool tagged) {
  ByteVector ulpdu(size, std::byte{0});
  const ByteVector control = tagged ? hex("C140") : hex("4143");
  for (std::size_t i = 0; i < std::min<std::size_t>(size, 2); ++i) ulpdu[i] = control[i];
  return fpdu(ulpdu);
}
ByteVector write(std::uint32_t key, std::uint64_t to, std::size_t size, unsigned ddp = 0xc1) {
  return make(Tagged{.ddp = ddp, .key = key, .to = to, .payload = filled(size, 1)});
}
ByteVector terminate_with(std::size_t size) {
  return make(Untagged{.rdmap = 0x47, .queue = 2, .payload = filled(size, 0)});
}

std::vector<Row> rows_of_lengths_and_versions() {
  return {
      {"length 0", Fault::bad_length, {2, 0, 3}, {}, hex("0000 C140 00000000")},
      {"tagged 13", Fault::bad_length, {2, 0, 3}, {}, ulpdu_of_length(13, true)},
      {"untagged 14", Fault::bad_length, {2, 0, 3}, {}, ulpdu_of_length(14, false)},
      {"untagged 17", Fault::bad_length, {2, 0, 3}, {}, ulpdu_of_length(17, false)},
      {"empty segment", Fault::bad_length, {2, 0, 3}, {}, write(kKey, kBase, 0, 0x81)},
      {"empty SEND segment", Fault::bad_length, {2, 0, 3}, {}, make(Untagged{.ddp = 0x01})},
      {"tagged DDP 0", Fault::bad_tagged_version, {1, 1, 4}, {}, write(kKey, kBase, 1, 0xc0)},
      {"tagged DDP 2", Fault::bad_tagged_version, {1, 1, 4}, {}, write(kKey, kBase, 1, 0xc2)},
      {"tagged DDP 3", Fault::bad_tagged_version, {1, 1, 4}, {}, write(kKey, kBase, 1, 0xc3)},
      {"untagged DDP 0", Fault::bad_untagged_version, {1, 2, 6}, {}, make(Untagged{.ddp = 0x40})},
      {"untagged DDP 2", Fault::bad_untagged_version, {1, 2, 6}, {}, make(Untagged{.ddp = 0x42})},
      {"RDMAP 0", Fault::bad_rdmap_version, {0, 2, 5}, {}, make(Untagged{.rdmap = 0x03})},
      {"RDMAP 2", Fault::bad_rdmap_version, {0, 2, 5}, {}, make(Untagged{.rdmap = 0x83})},
      {"RDMAP 3", Fault::bad_rdmap_version, {0, 2, 5}, {}, make(Tagged{.rdmap = 0xc0})},
  };
}

std::vector<Row> rows_of_opcodes() {
  std::vector<Row> rows;
  for (unsigned opcode = 0; opcode < 16; ++opcode) {
    const bool served = opcode == 0 || (opcode >= 3 && opcode <= 8);
    if (opcode != 0 || !served)
      rows.push_back(
          {"tagged opcode", Fault::bad_opcode, {0, 2, 6}, {}, make(Tagged{.rdmap = 0x40 + opcode})});
    if (opcode == 0 || !served)
      rows.push_back(
          {"untagged opcode", Fault::bad_opcode, {0, 2, 6}, {}, make(Untagged{.rdmap = 0x40 + opcode})});
  }
  return rows;
}

std::vector<Row> rows_of_writes() {
  const ByteVector open = write(kKey, kBase, 100, 0x81);
  const ByteVector open_send = make(Untagged{.ddp = 0x01, .payload = text("ab")});
  return {
      {"key", Fault::unknown_key, {1, 1, 0}, {}, write(kKey + 1, kBase, 1)},
      {"key of a segment", Fault::unknown_key, {1, 1, 0}, {}, write(1, kBase, 1, 0x81)},
      {"other session", Fault::foreign_key, {1, 1, 2}, {}, write(kForeign, kBase, 1)},
      {"before", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, kBase - 1, 1)},
      {"into", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, kBase - 1, 2)},
      {"behind", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, kBase + kWindow, 1)},
      {"across the end", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, kBase + kWindow - 1, 2)},
      {"longer", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, kBase, kWindow + 1)},
      {"offset 0", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, 0, 1)},
      {"last octet", Fault::out_of_bounds, {1, 1, 1}, {}, write(kKey, 0 - std::uint64_t{1}, 1)},
      {"wraps", Fault::offset_wraps, {1, 1, 3}, {}, write(kKey, 0 - std::uint64_t{1}, 2)},
      {"wraps to the key", Fault::offset_wraps, {1, 1, 3}, {}, write(kHigh, kHighBase, kWindow + 1)},
      {"wraps by much", Fault::offset_wraps, {1, 1, 3}, {}, write(kKey, 0 - std::uint64_t{60}, 65521)},
      {"other key", Fault::broken_message, {1, 1, 1}, open, write(kHigh, kBase + 100, 1)},
      {"gap", Fault::broken_message, {1, 1, 1}, open, write(kKey, kBase + 101, 1)},
      {"overlap", Fault::broken_message, {1, 1, 1}, open, write(kKey, kBase + 99, 1)},
      {"again", Fault::broken_message, {1, 1, 1}, open, open},
      {"empty write inside", Fault::broken_message, {1, 1, 1}, open, make(Tagged{})},
      {"SEND inside", Fault::broken_message, {1, 1, 1}, open, make(Untagged{})},
      {"immediate inside", Fault::broken_message, {1, 1, 1}, open, immediate(1, 1)},
      {"write inside a SEND", Fault::broken_message, {1, 1, 1}, open_send, write(kKey, kBase, 1)},
      {"too long", Fault::write_too_long, {1, 1, 1}, open, write(kKey, kBase + 100, kMaxMessage - 100 + 1)},
  };
}

std::vector<Row> rows_of_messages() {
  const ByteVector open = make(Untagged{.ddp = 0x01, .payload = text("ab")});
  const ByteVector open_imm = make(Untagged{.ddp = 0x01, .rdmap = 0x45, .field = 7, .payload = text("ab")});
  const ByteVector open_inv = make(Untagged{.ddp = 0x01, .rdmap = 0x44, .field = 7, .payload = text("ab")});
  const ByteVector rest = text("c");
  ByteVector done = immediate(1, 1);
  return {
      {"queue 1", Fault::bad_queue, {1, 2, 1}, {}, make(Untagged{.queue = 1})},
      {"queue 2", Fault::bad_queue, {1, 2, 1}, {}, make(Untagged{.queue = 2})},
      {"high queue", Fault::bad_queue, {1, 2, 1}, {}, make(Untagged{.queue = 0x01000000})},
      {"number 0", Fault::bad_number, {1, 2, 3}, {}, make(Untagged{.number = 0})},
      {"number 2", Fault::bad_number, {1, 2, 3}, {}, immediate(2, 1)},
      {"number again", Fault::bad_number, {1, 2, 3}, done, immediate(1, 1)},
      {"next message inside", Fault::bad_number, {1, 2, 3}, open, make(Untagged{.number = 2, .offset = 2})},
      {"offset", Fault::bad_offset, {1, 2, 4}, {}, make(Untagged{.offset = 1})},
      {"offset of an immediate",
       Fault::bad_offset,
       {1, 2, 4},
       {},
       make(Untagged{.rdmap = 0x48, .offset = 8, .payload = filled(8, 0)})},
      {"offset again", Fault::bad_offset, {1, 2, 4}, open, make(Untagged{.offset = 0, .payload = rest})},
      {"offset gap", Fault::bad_offset, {1, 2, 4}, open, make(Untagged{.offset = 3, .payload = rest})},
      {"other opcode",
       Fault::broken_message,
       {1, 1, 1},
       open,
       make(Untagged{.rdmap = 0x45, .offset = 2, .payload = rest})},
      {"other immediate",
       Fault::broken_message,
       {1, 1, 1},
       open_imm,
       make(Untagged{.rdmap = 0x45, .field = 8, .offset = 2, .payload = rest})},
      {"other key",
       Fault::broken_message,
       {1, 1, 1},
       open_inv,
       make(Untagged{.rdmap = 0x44, .field = 8, .offset = 2, .payload = rest})},
      {"receive", Fault::message_too_long, {1, 2, 5}, {}, make(Untagged{.payload = filled(kReceive + 1, 0)})},
      {"receive by segments",
       Fault::message_too_long,
       {1, 2, 5},
       open,
       make(Untagged{.offset = 2, .payload = filled(kReceive - 1, 0)})},
      {"message", Fault::message_too_long, {1, 2, 5}, {}, make(Untagged{.payload = filled(65'517, 0)})},
  };
}

std::vector<Row> rows_of_other_messages() {
  return {
      {"immediate of 7",
       Fault::bad_immediate,
       {1, 2, 5},
       {},
       make(Untagged{.rdmap = 0x48, .payload = filled(7, 0)})},
      {"immediate of 9",
       Fault::bad_immediate,
       {1, 2, 5},
       {},
       make(Untagged{.rdmap = 0x48, .payload = filled(9, 0)})},
      {"immediate of 0", Fault::bad_immediate, {1, 2, 5}, {}, make(Untagged{.rdmap = 0x48})},
      {"immediate that goes on",
       Fault::bad_immediate,
       {1, 2, 5},
       {},
       make(Untagged{.ddp = 0x01, .rdmap = 0x48, .payload = filled(8, 0)})},
      {"invalidation", Fault::bad_invalidation, {0, 1, 9}, {}, make(Untagged{.rdmap = 0x44, .field = 8})},
      {"invalidation again",
       Fault::bad_invalidation,
       {0, 1, 9},
       make(Untagged{.rdmap = 0x46, .field = 7}),
       make(Untagged{.rdmap = 0x44, .field = 7, .number = 2})},
      {"Terminate queue",
       Fault::bad_queue,
       {1, 2, 1},
       {},
       make(Untagged{.rdmap = 0x47, .payload = filled(4, 0)})},
      {"Terminate number",
       Fault::bad_number,
       {1, 2, 3},
       {},
       make(Untagged{.rdmap = 0x47, .queue = 2, .number = 2, .payload = filled(4, 0)})},
      {"Terminate offset",
       Fault::bad_offset,
       {1, 2, 4},
       {},
       make(Untagged{.rdmap = 0x47, .queue = 2, .offset = 4, .payload = filled(4, 0)})},
      {"Terminate of 3", Fault::bad_terminate, {2, 0, 3}, {}, terminate_with(3)},
      {"Terminate of 65", Fault::bad_terminate, {2, 0, 3}, {}, terminate_with(65)},
      {"Terminate goes on",
       Fault::bad_terminate,
       {2, 0, 3},
       {},
       make(Untagged{.ddp = 0x01, .rdmap = 0x47, .queue = 2, .payload = filled(4, 0)})},
  };
}

// Returns a copy of the FPDUs with a CRC added to each.
ByteVector with_crc(ByteVector octets) {
  for (std::size_t at = 0; at + 2 < octets.size();) {
    const std::size_t length =
        std::to_integer<std::size_t>(octets[at]) << 8 | std::to_integer<std::size_t>(octets[at + 1]);
    const std::size_t covered = (2 + length + 3) / 4 * 4;
    if (at + covered + 4 > octets.size()) break;
    const std::uint32_t crc = crc32c_portable(octets.data() + at, covered);
    for (unsigned i = 0; i < 4; ++i) octets[at + covered + i] = static_cast<std::byte>(crc >> (8 * i));
    at += covered + 4;
  }
  return octets;
}

TestMemory memory_of_rows() {
  TestMemory memory(32768);
  memory.windows[kKey] = {.base = kBase, .at = 8192, .length = kWindow};
  memory.windows[kForeign] = {.base = kBase, .at = 16384, .length = kWindow, .foreign = true};
  memory.windows[kHigh] = {.base = kHighBase, .at = 24576, .length = kWindow};
  for (std::size_t i = 0; i < 3; ++i) memory.post(i * kReceive, kReceive);
  memory.offered = {7};
  return memory;
}

void check(const Row& row, bool crc, std::size_t step) {
  SCOPED_TRACE(std::string(row.name) + (crc ? ", CRC" : "") + ", in steps of " + std::to_string(step));
  EXPECT_EQ(terminate_code(row.fault), row.code);
  EXPECT_EQ(answer_to(row.fault), Answer::terminate);
  TestMemory memory = memory_of_rows();
  Receiver end(
      memory, {.role = Role::initiator, .crc = crc, .send_with_immediate = true, .max_message = kMaxMessage});
  end.feed(crc ? with_crc(row.before) : row.before);
  ASSERT_EQ(end.stream.fault(), Fault::none);
  const Lines before = end.seen;
  const std::vector<std::byte> bytes = memory.bytes;
  const ByteVector wrong = crc ? with_crc(row.wrong) : row.wrong;
  for (std::size_t at = 0; at < wrong.size(); at += step)
    end.feed(Bytes(wrong).subspan(at, std::min(step, wrong.size() - at)));
  Lines wanted = before;
  wanted.push_back(violated(row.fault));
  EXPECT_EQ(end.seen, wanted);
  EXPECT_EQ(end.stream.fault(), row.fault);
  EXPECT_TRUE(end.stream.ended());
  // No memory was written, and later input has no effect.
  const unsigned asked = memory.resolved + memory.taken;
  end.feed(write(kKey, kBase, 10));
  end.feed(immediate(1, 1));
  end.feed(immediate(2, 1));
  EXPECT_EQ(end.seen, wanted);
  EXPECT_EQ(end.left_over(), 0U);
  EXPECT_EQ(memory.resolved + memory.taken, asked);
  EXPECT_EQ(memory.bytes, bytes);
}

TEST(StreamFault, EachFaultInOnePieceAndInSeveral) {
  for (const auto& rows : {rows_of_lengths_and_versions(), rows_of_opcodes(), rows_of_writes(),
                           rows_of_messages(), rows_of_other_messages()})
    for (const Row& row : rows)
      for (const bool crc : {false, true})
        for (const std::size_t step : {std::size_t{1} << 20U, std::size_t{1}, std::size_t{5}})
          check(row, crc, step);
}

// Corrupts each byte of an FPDU except the length, which would produce a different FPDU.
TEST(StreamFault, CrcOfEachByte) {
  const ByteVector good = make(Tagged{.key = kKey, .to = kBase, .payload = filled(21, 1), .crc = true});
  for (std::size_t at = 2; at < good.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit)
      for (const std::size_t step : {good.size(), std::size_t{1}}) {
        TestMemory memory = memory_of_rows();
        Receiver end(memory, {.role = Role::initiator, .crc = true});
        ByteVector wrong = good;
        wrong[at] ^= static_cast<std::byte>(1U << bit);
        for (std::size_t from = 0; from < wrong.size(); from += step)
          end.feed(Bytes(wrong).subspan(from, step));
        ASSERT_EQ(end.seen, Lines{violated(Fault::bad_crc)}) << at;
        ASSERT_EQ(memory.resolved, 0U);
      }
  EXPECT_EQ(terminate_code(Fault::bad_crc), (TerminateCode{2, 0, 2}));
}

TEST(StreamFault, CrcIsIgnoredWhenOff) {
  TestMemory memory = memory_of_rows();
  Receiver end(memory, {.role = Role::initiator});
  ByteVector odd = immediate(1, 1);
  odd.back() = std::byte{0x77};
  end.feed(odd);
  EXPECT_EQ(end.seen, Lines{"imm 1"});
}

TEST(StreamFault, JudgeRange) {
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  EXPECT_EQ(judge_range(100, 0, 100, 0), Fault::none);
  EXPECT_EQ(judge_range(100, 1, 100, 0), Fault::out_of_bounds);
  EXPECT_EQ(judge_range(100, 10, 100, 10), Fault::none);
  EXPECT_EQ(judge_range(109, 1, 100, 10), Fault::none);
  EXPECT_EQ(judge_range(110, 0, 100, 10), Fault::none);
  EXPECT_EQ(judge_range(110, 1, 100, 10), Fault::out_of_bounds);
  EXPECT_EQ(judge_range(111, 0, 100, 10), Fault::out_of_bounds);
  EXPECT_EQ(judge_range(99, 1, 100, 10), Fault::out_of_bounds);
  EXPECT_EQ(judge_range(kEnd, 1, kEnd, 1), Fault::none);
  EXPECT_EQ(judge_range(kEnd, 2, kEnd, 1), Fault::offset_wraps);
  EXPECT_EQ(judge_range(kEnd - 9, 10, kEnd - 9, 10), Fault::none);
  EXPECT_EQ(judge_range(kEnd - 9, 11, kEnd - 9, 10), Fault::offset_wraps);
  EXPECT_EQ(judge_range(kEnd, kEnd, 0, kEnd), Fault::offset_wraps);
  EXPECT_EQ(judge_range(0, kEnd, 0, kEnd), Fault::none);
}

}  // namespace
}  // namespace rtrs::iwarp::test::stream_fault_test
