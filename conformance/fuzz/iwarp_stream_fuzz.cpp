// Fuzzes the iWARP receive stream. Bytes in any pieces must give the same events and memory as in one piece;
// only memory of a valid key or a receive may be written; no event may follow a violation.
//
// Input: byte 1: flags (1: CRC, 2: SEND with immediate negotiated, 4: initiator, 8: correct the CRC of each
// FPDU first, 16: place data directly). Byte 2: size of pieces. Byte 3: room for events. Byte 4: number of
// received bytes after which the first key is invalidated. Then the wire bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "conformance/fuzz/fuzz.hpp"
#include "core/base/crc32c.hpp"
#include "core/iwarp/stream.hpp"

using namespace rtrs::iwarp;

namespace {

constexpr std::uint32_t kFirst = 0x01010101;
constexpr std::uint32_t kLast = 0x02020202;
constexpr std::size_t kWindow = 256;
constexpr std::size_t kReceive = 96;
constexpr unsigned kReceives = 8;
// Memory layout: gap, window of the first key, gap, window of the last key, gap, receives, gap. A gap is as
// large as a window.
constexpr std::size_t kReceivesAt = 5 * kWindow;
constexpr std::size_t kSize = kReceivesAt + kReceives * kReceive + kWindow;

class FuzzMemory final : public Memory {
 public:
  Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n, MutableBytes& place) noexcept override {
    RTRS_FUZZ_CHECK(n != 0 && n <= 65521 && (key != kFirst || alive || asked_dead++ == 0));
    if (key != kLast && (key != kFirst || !alive)) return Fault::unknown_key;
    const std::uint64_t base = key == kFirst ? 0 : 0 - std::uint64_t{kWindow};
    const Fault fault = judge_range(to, n, base, kWindow);
    if (fault != Fault::none) return fault;
    place = MutableBytes(bytes).subspan((key == kFirst ? 1 : 3) * kWindow + (to - base), n);
    return Fault::none;
  }
  std::optional<MutableBytes> take_receive() noexcept override {
    if (posted == 0) return std::nullopt;
    --posted;
    return MutableBytes(bytes).subspan(kReceivesAt + taken++ % kReceives * kReceive, kReceive);
  }
  Fault invalidate(std::uint32_t key) noexcept override {
    return key == 0x03030303 && !std::exchange(invalidated, true) ? Fault::none : Fault::bad_invalidation;
  }
  void check_gaps() const {
    for (const std::size_t gap : {std::size_t{0}, 2 * kWindow, 4 * kWindow, kSize - kWindow})
      for (std::size_t at = gap; at < gap + kWindow; ++at) RTRS_FUZZ_CHECK(bytes[at] == std::byte{0});
  }

  std::array<std::byte, kSize> bytes{};
  bool alive = true;
  unsigned asked_dead = 0;
  unsigned posted = 0;
  unsigned taken = 0;
  bool invalidated = false;
};

struct SeenEvents {
  std::vector<std::byte> encoded;
  void add(const void* from, std::size_t size) {
    const auto* const at = static_cast<const std::byte*>(from);
    encoded.insert(encoded.end(), at, at + size);
  }
  void add(const Event& event) {
    const auto kind = static_cast<std::uint8_t>(event.index());
    add(&kind, 1);
    std::visit(
        [this](const auto& one) {
          if constexpr (requires { one.payload; }) add(one.payload.data(), one.payload.size());
          if constexpr (requires { one.key; }) add(&one.key, sizeof one.key);
          if constexpr (requires { one.fault; }) add(&one.fault, sizeof one.fault);
          if constexpr (requires { one.code; }) add(&one.code, sizeof one.code);
          if constexpr (requires { *one.imm; }) {
            if (one.imm) add(&*one.imm, sizeof *one.imm);
          } else if constexpr (requires { one.imm; }) {
            add(&one.imm, sizeof one.imm);
          }
        },
        event);
  }
};

struct Shape {
  Stream::Options options;
  std::size_t piece = 0;
  std::size_t room = 1;
  bool place = false;
  std::size_t dies_at = 0;
};

class Run {
 public:
  Run(const Shape& shape, std::span<const std::byte> wire_bytes)
      : shape_(shape), stream_(shape.options), list_(shape.room) {
    for (std::size_t at = 0; at < wire_bytes.size();) {
      if (at == shape.dies_at) {
        memory.alive = false;
        stream_.key_died(kFirst);
      }
      std::size_t n = std::min(shape.piece, wire_bytes.size() - at);
      if (at < shape.dies_at) n = std::min(n, shape.dies_at - at);
      take(wire_bytes.subspan(at, n));
      at += n;
    }
    memory.check_gaps();
    fault = stream_.fault();
    RTRS_FUZZ_CHECK(fault == Fault::none || stream_.ended());
  }
  FuzzMemory memory;
  SeenEvents seen_events;
  Fault fault = Fault::none;

 private:
  void take(Bytes piece) {
    const MutableBytes place = shape_.place && kept_.empty() ? stream_.wants() : MutableBytes();
    Events events(list_);
    if (!place.empty()) {
      const std::size_t n = std::min(place.size(), piece.size());
      std::memcpy(place.data(), piece.data(), n);
      stream_.placed(n, memory, events);
      note(events);
      piece = piece.subspan(n);
    }
    kept_.insert(kept_.end(), piece.begin(), piece.end());
    for (bool more = true; more;) {
      events.clear();
      const std::size_t taken = stream_.feed(kept_, memory, events);
      RTRS_FUZZ_CHECK(taken <= kept_.size());
      note(events);
      more = events.full() || (taken != 0 && taken < kept_.size()) || stream_.stalled();
      if (stream_.stalled()) ++memory.posted;
      kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(taken));
      RTRS_FUZZ_CHECK(more || kept_.empty());
    }
  }
  void note(const Events& events) {
    for (const Event& event : events.all()) {
      RTRS_FUZZ_CHECK(!over_);
      over_ = std::holds_alternative<Violated>(event) || std::holds_alternative<PeerTerminated>(event);
      seen_events.add(event);
    }
  }

  Shape shape_;
  Stream stream_;
  std::vector<Event> list_;
  std::vector<std::byte> kept_;
  bool over_ = false;
};

void correct_crcs(std::vector<std::byte>& wire_bytes) {
  for (std::size_t at = 0; at + 2 <= wire_bytes.size();) {
    const std::size_t size = fpdu_bytes(load_be<std::uint16_t>(wire_bytes.data() + at));
    if (wire_bytes.size() - at < size) return;
    const std::uint32_t crc = rtrs::crc32c(wire_bytes.data() + at, size - kCrcBytes);
    at += size;
    for (unsigned i = 0; i < kCrcBytes; ++i)
      wire_bytes[at - kCrcBytes + i] = static_cast<std::byte>(crc >> (8 * i));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  static std::array<std::byte, kMaxFpduBytes> staging;
  const unsigned flags = data[0];
  const Bytes rest = std::as_bytes(std::span(data, size)).subspan(4);
  std::vector<std::byte> wire_bytes(rest.begin(), rest.end());
  if ((flags & 8U) != 0) correct_crcs(wire_bytes);
  Shape shape;
  shape.options = {.role = (flags & 4U) != 0 ? Role::initiator : Role::responder,
                   .crc = (flags & 1U) != 0,
                   .send_with_immediate = (flags & 2U) != 0,
                   .max_message = 200,
                   .staging = staging};
  shape.piece = wire_bytes.size() + 1;
  shape.room = 16;
  shape.dies_at = data[3] == 0 ? wire_bytes.size() + 1 : data[3] * std::size_t{4};
  const Run whole(shape, wire_bytes);
  shape.piece = data[1] % 64U + 1U;
  shape.room = data[2] % 4U + 1U;
  shape.place = (flags & 16U) != 0;
  const Run pieces(shape, wire_bytes);
  RTRS_FUZZ_CHECK(whole.seen_events.encoded == pieces.seen_events.encoded && whole.fault == pieces.fault);
  RTRS_FUZZ_CHECK(whole.memory.bytes == pieces.memory.bytes && whole.memory.taken == pieces.memory.taken);
  return 0;
}
