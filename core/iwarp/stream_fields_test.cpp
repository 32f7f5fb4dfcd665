// Tests every opcode in every state with every field at its bounds. The expected result comes from a second,
// independent implementation of the checks in docs/iwarp.md.
#include <gtest/gtest.h>

#include "core/iwarp/stream.hpp"
#include "core/iwarp/test_receiver.hpp"

namespace rtrs::iwarp::test::stream_fields_test {
namespace {

constexpr std::uint32_t kKey = 0x01020304;
constexpr std::uint32_t kOther = 0x05060708;
constexpr std::uint64_t kBase = 0x10000;
constexpr std::size_t kWindow = 64;
constexpr std::size_t kReceive = 48;

// An open message of which two bytes have arrived; opcode 16 means that no message is open.
struct State {
  const char* name;
  unsigned opcode = 16;
};
constexpr State kStates[] = {{"between messages"},
                             {"in a write", 0},
                             {"in a SEND", 3},
                             {"in a SEND with invalidate", 4},
                             {"in a SEND with immediate", 5},
                             {"in opcode 6", 6}};

struct Header {
  bool tagged = false;
  bool last = true;
  unsigned opcode = 0;
  std::size_t payload = 0;
  std::uint32_t key = kKey;  // key of a write; in other messages, the value of the same four bytes
  std::uint64_t to = 0;
  std::uint32_t queue = 0;
  std::uint32_t number = 5;
  std::uint32_t offset = 0;
};

Fault expected_write_fault(const State& state, const Header& one) {
  if (state.opcode != 16 && state.opcode != 0) return Fault::broken_message;
  if (state.opcode == 0 && (one.key != kKey || one.to != kBase + 2)) return Fault::broken_message;
  if (one.payload == 0) return one.last ? Fault::none : Fault::bad_length;
  if (one.key != kKey) return Fault::unknown_key;
  // 128 bits hold every sum of the fields.
  __extension__ using Wide = unsigned __int128;
  const Wide end = Wide{one.to} + one.payload;
  if (end > (Wide{1} << 64U)) return Fault::offset_wraps;
  return one.to >= kBase && end <= kBase + kWindow ? Fault::none : Fault::out_of_bounds;
}

Fault wanted(const State& state, const Header& one) {
  const bool write = one.opcode == 0;
  const bool served = write || (one.opcode >= 3 && one.opcode <= 8);
  if (!served || one.tagged != write) return Fault::bad_opcode;
  if (write) return expected_write_fault(state, one);
  const bool ends = one.opcode == 7;
  if (!ends && state.opcode == 0) return Fault::broken_message;
  if (one.queue != (ends ? 2U : 0U)) return Fault::bad_queue;
  if (one.number != (ends ? 1U : 5U)) return Fault::bad_number;
  const std::size_t before = ends || state.opcode == 16 ? 0 : 2;
  if (one.offset != before) return Fault::bad_offset;
  if (ends) return one.last && one.payload >= 4 && one.payload <= 64 ? Fault::none : Fault::bad_terminate;
  if (before != 0) {
    if (one.opcode != state.opcode) return Fault::broken_message;
    if (one.opcode != 3 && one.key != kKey) return Fault::broken_message;
  }
  if (one.opcode == 8) return one.last && one.payload == 8 ? Fault::none : Fault::bad_immediate;
  if (one.payload == 0 && !one.last) return Fault::bad_length;
  if (before + one.payload > kReceive) return Fault::message_too_long;
  const bool invalidates = one.opcode == 4 || one.opcode == 6;
  return invalidates && one.last && one.key != kKey ? Fault::bad_invalidation : Fault::none;
}

// Returns the expected events of a valid segment.
Lines lines(const State& state, const Header& one) {
  if (one.opcode == 7) return {"terminated 0/0/31"};
  if (one.opcode == 0 || !one.last) return {};
  if (one.opcode == 8) return {"imm 2047581"};
  ByteVector all = state.opcode == 16 ? ByteVector() : text("ab");
  all += filled(one.payload, 0);
  if (one.opcode == 4 || one.opcode == 6) return {words(Event(Invalidated{one.key, all}))};
  return {words(Event(Message{one.opcode == 5 ? std::optional(one.key) : std::nullopt, all}))};
}

ByteVector encode_fpdu(const Header& one) {
  const unsigned ddp = 0x01U | (one.tagged ? 0x80U : 0U) | (one.last ? 0x40U : 0U);
  const unsigned rdmap = 0x40U | one.opcode;
  if (one.tagged)
    return make(
        Tagged{.ddp = ddp, .rdmap = rdmap, .key = one.key, .to = one.to, .payload = filled(one.payload, 0)});
  return make(Untagged{.ddp = ddp,
                       .rdmap = rdmap,
                       .field = one.key,
                       .queue = one.queue,
                       .number = one.number,
                       .offset = one.offset,
                       .payload = filled(one.payload, 0)});
}

class Table {
 public:
  void check(const State& state, const Header& one) {
    TestMemory memory(512);
    memory.windows[kKey] = {.base = kBase, .at = 128, .length = kWindow};
    memory.post(0, kReceive);
    memory.offered = {kKey};
    Receiver end(memory, {.role = Role::initiator, .send_with_immediate = true, .first_number = 5}, 1);
    if (state.opcode == 0)
      end.feed(make(Tagged{.ddp = 0x81, .key = kKey, .to = kBase, .payload = text("ab")}));
    if (state.opcode != 0 && state.opcode != 16)
      end.feed(make(Untagged{
          .ddp = 0x01, .rdmap = 0x40U | state.opcode, .field = kKey, .number = 5, .payload = text("ab")}));
    ASSERT_TRUE(end.seen.empty() && end.left_over() == 0);
    const ByteVector octets = encode_fpdu(one);
    // Alternates between one piece and two pieces.
    const std::size_t cut = ++count_ % 2 == 0 ? 0 : count_ % octets.size();
    end.feed(Bytes(octets).first(cut));
    end.feed(Bytes(octets).subspan(cut));
    const Fault fault = wanted(state, one);
    ++faults_[static_cast<unsigned>(fault)];
    ASSERT_EQ(end.seen, fault == Fault::none ? lines(state, one) : Lines{violated(fault)})
        << state.name << ": opcode " << one.opcode << " tagged " << one.tagged << " last " << one.last
        << " payload " << one.payload << " key " << one.key << " to " << one.to << " queue " << one.queue
        << " number " << one.number << " offset " << one.offset;
    ASSERT_EQ(end.left_over(), 0U);
    // Memory outside of the receive and of the key's range is unchanged.
    ASSERT_TRUE(memory.at(kReceive, 128 - kReceive) == before_ &&
                memory.at(128 + kWindow, behind_.size()) == behind_);
  }
  [[nodiscard]] unsigned times(Fault fault) const { return faults_[static_cast<unsigned>(fault)]; }

 private:
  const ByteVector before_ = ByteVector(128 - kReceive, kUntouched);
  const ByteVector behind_ = ByteVector(128, kUntouched);
  std::size_t count_ = 0;
  std::array<unsigned, kFaultCount> faults_{};
};

TEST(StreamFields, Tagged) {
  Table table;
  for (const State& state : kStates)
    for (unsigned opcode = 0; opcode < 16; ++opcode)
      for (const bool last : {true, false})
        for (const std::size_t payload : {0U, 1U, 62U, 63U, 64U, 65U})
          for (const std::uint32_t key : {kKey, kOther, 0U})
            for (const std::uint64_t to :
                 {kBase, kBase + 1, kBase + 2, kBase + 3, kBase - 1, kBase + 63, kBase + 64, kBase + 65,
                  std::uint64_t{0}, 0 - std::uint64_t{1}, 0 - std::uint64_t{64}, std::uint64_t{1} << 63U}) {
              table.check(
                  state,
                  {.tagged = true, .last = last, .opcode = opcode, .payload = payload, .key = key, .to = to});
              if (HasFatalFailure()) return;
            }
  for (const Fault fault : {Fault::none, Fault::bad_opcode, Fault::broken_message, Fault::bad_length,
                            Fault::unknown_key, Fault::out_of_bounds, Fault::offset_wraps})
    EXPECT_GT(table.times(fault), 5U) << to_string(fault);
}

TEST(StreamFields, Untagged) {
  Table table;
  for (const State& state : kStates)
    for (unsigned opcode = 0; opcode < 16; ++opcode)
      for (const bool last : {true, false})
        for (const std::size_t payload : {0U, 3U, 4U, 7U, 8U, 9U, 46U, 47U, 48U, 49U, 64U, 65U})
          for (const std::uint32_t queue : {0U, 1U, 2U})
            for (const std::uint32_t number : {1U, 4U, 5U})
              for (const std::uint32_t offset : {0U, 2U, 3U, 0x01000000U}) {
                const bool other = (payload + number + offset) % 3 == 0;
                table.check(state, {.last = last,
                                    .opcode = opcode,
                                    .payload = payload,
                                    .key = other ? kOther : kKey,
                                    .queue = queue,
                                    .number = number,
                                    .offset = offset});
                if (HasFatalFailure()) return;
              }
  for (const Fault fault : {Fault::none, Fault::bad_opcode, Fault::broken_message, Fault::bad_length,
                            Fault::bad_queue, Fault::bad_number, Fault::bad_offset, Fault::message_too_long,
                            Fault::bad_immediate, Fault::bad_terminate, Fault::bad_invalidation})
    EXPECT_GT(table.times(fault), 1U) << to_string(fault);
}

}  // namespace
}  // namespace rtrs::iwarp::test::stream_fields_test
