// The stream invariant: the same bytes give the same events and memory contents, regardless of the sizes of
// the pieces, of direct placement, and of the room for events. Also tests that no input has forbidden
// effects.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/iwarp/stream.hpp"
#include "core/iwarp/test_receiver.hpp"

namespace rtrs::iwarp::test::stream_property_test {
namespace {

constexpr std::uint32_t kKey = 0x01020304;
constexpr std::uint32_t kSecond = 0x05060708;
constexpr std::uint64_t kBase = 0x7000;
constexpr std::size_t kWindow = 3000;
constexpr std::size_t kReceives = 65536;  // offset of the receives
constexpr std::size_t kReceive = 700;
constexpr std::size_t kMemory = kReceives + 64 * kReceive;

TestMemory make_memory() {
  TestMemory memory(kMemory);
  memory.windows[kKey] = {.base = kBase, .at = 1000, .length = kWindow};
  memory.windows[kSecond] = {.base = 0 - kWindow, .at = 9000, .length = kWindow};
  for (std::uint32_t key = 100; key < 110; ++key) memory.offered.insert(key);
  return memory;
}

bool is_ours(std::size_t at) {
  return (at >= 1000 && at < 1000 + kWindow) || (at >= 9000 && at < 9000 + kWindow) || at >= kReceives;
}

// Returns a valid message of any kind. Updates `number`, the next message number.
ByteVector draw_message(bool crc, std::uint32_t& number) {
  const auto size =
      *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 20), rc::gen::inRange<std::size_t>(0, kReceive + 1));
  const auto cut = *rc::gen::inRange<std::size_t>(0, size + 1);
  const bool split = cut != 0 && cut != size;
  const ByteVector all = filled(size, number);
  const ByteVector front(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(split ? cut : 0));
  const ByteVector back(all.begin() + static_cast<std::ptrdiff_t>(front.size()), all.end());
  ByteVector octets;
  switch (*rc::gen::inRange(0, 4)) {
    case 0: {
      const bool second = *rc::gen::arbitrary<bool>();
      const auto at = *rc::gen::inRange<std::uint64_t>(0, kWindow - size + 1);
      const std::uint64_t to = (second ? 0 - kWindow : kBase) + at;
      const std::uint32_t key = second ? kSecond : kKey;
      if (split) octets += make(Tagged{.ddp = 0x81, .key = key, .to = to, .payload = front, .crc = crc});
      octets += make(Tagged{.key = key, .to = to + front.size(), .payload = back, .crc = crc});
      return octets;
    }
    case 1:
      return immediate(number++, *rc::gen::arbitrary<std::uint32_t>(), crc);
    case 2:
      return make(Untagged{.rdmap = 0x44, .field = 99 + number, .number = number++, .crc = crc});
    default: {
      const unsigned rdmap = *rc::gen::element(0x43U, 0x45U);
      const auto field = *rc::gen::arbitrary<std::uint32_t>();
      if (split)
        octets += make(Untagged{
            .ddp = 0x01, .rdmap = rdmap, .field = field, .number = number, .payload = front, .crc = crc});
      octets += make(Untagged{.rdmap = rdmap,
                              .field = field,
                              .number = number,
                              .offset = static_cast<std::uint32_t>(front.size()),
                              .payload = back,
                              .crc = crc});
      ++number;
      return octets;
    }
  }
}

ByteVector draw_conversation(bool crc) {
  ByteVector octets;
  std::uint32_t number = 1;
  for (int left = *rc::gen::inRange(1, 12); left != 0; --left) octets += draw_message(crc, number);
  return octets;
}

struct Ended {
  Lines seen;
  std::vector<std::byte> bytes;
  std::set<std::uint32_t> offered;
  Fault fault = Fault::none;
  bool may_send = false;
  bool operator==(const Ended&) const = default;
};

// A receiver with a stream; posts a receive each time the stream stalls.
struct Run {
  bool crc = false;
  std::size_t capacity = 64;
  bool place = false;
  std::vector<std::size_t> steps{~std::size_t{0}};  // sizes of the pieces, used in turn
  std::size_t dies_at = ~std::size_t{0};  // number of bytes after which the first key is invalidated

  [[nodiscard]] Ended over(const ByteVector& octets) const {
    TestMemory memory = make_memory();
    Receiver end(memory, {.crc = crc, .send_with_immediate = true}, capacity);
    std::size_t posted = 0;
    std::size_t turn = 0;
    for (std::size_t at = 0; at < octets.size();) {
      std::size_t n = std::min(steps[turn++ % steps.size()], octets.size() - at);
      if (at < dies_at) n = std::min(n, dies_at - at);
      const Bytes piece = Bytes(octets).subspan(at, n);
      if (place)
        end.feed_or_place(piece, n);
      else
        end.feed(piece);
      while (end.stream.stalled()) {
        memory.post(kReceives + posted++ % 64 * kReceive, kReceive);
        end.feed({});
      }
      at += n;
      if (at == dies_at) {
        memory.windows.erase(kKey);
        end.stream.key_died(kKey);
      }
    }
    return {end.seen, memory.bytes, memory.offered, end.stream.fault(), end.stream.may_send()};
  }
};

Run draw_run(const Run& like) {
  Run run = like;
  run.capacity = *rc::gen::inRange<std::size_t>(1, 5);
  run.place = *rc::gen::arbitrary<bool>();
  run.steps = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::size_t>>(
      rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 10), rc::gen::inRange<std::size_t>(1, 2000))));
  return run;
}

RC_GTEST_PROP(StreamLaw, PiecesMakeNoDifference, ()) {
  Run whole;
  whole.crc = *rc::gen::arbitrary<bool>();
  const ByteVector octets = draw_conversation(whole.crc);
  const Ended wanted = whole.over(octets);
  RC_ASSERT(wanted.fault == Fault::none);
  for (int i = 0; i < 4; ++i) RC_ASSERT(draw_run(whole).over(octets) == wanted);
  Run single = whole;
  single.steps = {1};
  single.capacity = 1;
  RC_ASSERT(single.over(octets) == wanted);
}

RC_GTEST_PROP(StreamLaw, PiecesMakeNoDifferenceIfAKeyIsInvalidated, ()) {
  Run whole;
  whole.crc = *rc::gen::arbitrary<bool>();
  const ByteVector octets = draw_conversation(whole.crc);
  whole.dies_at = *rc::gen::inRange<std::size_t>(0, octets.size() + 1);
  const Ended wanted = whole.over(octets);
  for (int i = 0; i < 4; ++i) RC_ASSERT(draw_run(whole).over(octets) == wanted);
}

// Bytes are changed, removed or duplicated. The invariant must hold, and only memory of a key or a receive
// may be written.
RC_GTEST_PROP(StreamLaw, HoldsForCorruptedBytes, ()) {
  const Run whole;
  ByteVector octets = draw_conversation(false);
  for (int left = *rc::gen::inRange(1, 4); left != 0 && !octets.empty(); --left) {
    const auto at = static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, octets.size()));
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        octets[static_cast<std::size_t>(at)] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
        break;
      case 1:
        octets.erase(octets.begin() + at);
        break;
      default:
        octets.insert(octets.begin() + at, *rc::gen::element(std::byte{0}, std::byte{0xff}, std::byte{0x41}));
        break;
    }
  }
  const Ended wanted = whole.over(octets);
  for (std::size_t at = 0; at < wanted.bytes.size(); ++at)
    RC_ASSERT(is_ours(at) || wanted.bytes[at] == kUntouched);
  for (int i = 0; i < 3; ++i) RC_ASSERT(draw_run(whole).over(octets) == wanted);
}

// With CRC, a changed byte is detected and its FPDU has no effect: events and memory must be those of the
// valid bytes before the FPDU.
RC_GTEST_PROP(StreamLaw, CrcDetectsAChangedByte, ()) {
  Run whole;
  whole.crc = true;
  const ByteVector good = draw_conversation(true);
  const auto at = *rc::gen::inRange<std::size_t>(0, good.size());
  ByteVector bad = good;
  bad[at] ^= static_cast<std::byte>(*rc::gen::inRange(1, 256));
  // A length that was increased covers bytes after the FPDU too.
  bad.resize(bad.size() + kMaxFpduBytes);
  // Finds the FPDUs that end before the changed byte.
  std::size_t from = 0;
  for (std::size_t next = 0; next <= at;) {
    from = next;
    next += fpdu_bytes(load_be<std::uint16_t>(good.data() + from));
  }
  Ended wanted = whole.over(ByteVector(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(from)));
  const Ended got = draw_run(whole).over(bad);
  RC_ASSERT(got.fault == Fault::bad_crc || (got.fault == Fault::bad_length && at < from + 2));
  wanted.seen.push_back(violated(got.fault));
  wanted.fault = got.fault;
  RC_ASSERT(got == wanted);
}

}  // namespace
}  // namespace rtrs::iwarp::test::stream_property_test
