// A stream with test memory; reported events are stored as lines of text.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/overloaded.hpp"
#include "core/iwarp/stream.hpp"
#include "core/iwarp/test_frames.hpp"

namespace rtrs::iwarp::test {

inline constexpr std::byte kUntouched{0xee};

// Keys cover parts of one block of memory; the rest of the block must never change.
class TestMemory final : public Memory {
 public:
  explicit TestMemory(std::size_t size = 1U << 20) : bytes(size, kUntouched) {}

  struct Window {
    std::uint64_t base = 0;  // tagged offset of the window's first byte
    std::size_t at = 0;      // offset in `bytes`
    std::size_t length = 0;
    bool foreign = false;
  };

  Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n, MutableBytes& place) noexcept override {
    ++resolved;
    const auto found = windows.find(key);
    if (found == windows.end()) return Fault::unknown_key;
    const Window& window = found->second;
    if (window.foreign) return Fault::foreign_key;
    const Fault fault = judge_range(to, n, window.base, window.length);
    if (fault != Fault::none) return fault;
    place = MutableBytes(bytes).subspan(window.at + (to - window.base), n);
    return Fault::none;
  }
  std::optional<MutableBytes> take_receive() noexcept override {
    if (receives.empty()) return std::nullopt;
    const MutableBytes next = receives.front();
    receives.pop_front();
    ++taken;
    return next;
  }
  Fault invalidate(std::uint32_t key) noexcept override {
    return offered.erase(key) == 1 ? Fault::none : Fault::bad_invalidation;
  }

  void post(std::size_t at, std::size_t size) { receives.push_back(MutableBytes(bytes).subspan(at, size)); }
  // Posts `count` receives of 0 bytes for immediates.
  void post_empty(unsigned count) {
    for (unsigned i = 0; i < count; ++i) receives.emplace_back();
  }
  [[nodiscard]] ByteVector at(std::size_t from, std::size_t size) const {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(from),
            bytes.begin() + static_cast<std::ptrdiff_t>(from + size)};
  }

  std::vector<std::byte> bytes;
  std::map<std::uint32_t, Window> windows;
  std::deque<MutableBytes> receives;
  std::set<std::uint32_t> offered;
  unsigned resolved = 0;
  unsigned taken = 0;
};

inline std::string words(Bytes payload) {
  std::string line;
  for (const std::byte octet : payload) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    line += kDigits[std::to_integer<unsigned>(octet) >> 4U];
    line += kDigits[std::to_integer<unsigned>(octet) & 15U];
  }
  return line;
}

inline std::string words(const Event& event) {
  return std::visit(
      Overloaded{
          [](const Greeted&) -> std::string { return "greeted"; },
          [](const Immediate& one) { return "imm " + std::to_string(one.imm); },
          [](const Message& one) {
            return "message " + (one.imm ? "imm " + std::to_string(*one.imm) + " " : "") + words(one.payload);
          },
          [](const Invalidated& one) {
            return "invalidated " + std::to_string(one.key) + " " + words(one.payload);
          },
          [](const Violated& one) -> std::string { return std::string("violated: ") + to_string(one.fault); },
          [](const PeerTerminated& one) {
            return "terminated " + std::to_string(one.code.layer) + "/" + std::to_string(one.code.type) +
                   "/" + std::to_string(one.code.code);
          }},
      event);
}

inline std::string violated(Fault fault) {
  return words(Event(Violated{fault}));
}

class Receiver {
 public:
  explicit Receiver(TestMemory& memory, Stream::Options options = {}, std::size_t capacity = 8)
      : memory_(memory),
        staging_(options.crc ? kMaxFpduBytes : 0),
        stream(with(options, staging_)),
        list_(capacity) {}

  // Feeds all bytes that the stream consumes. The other bytes are kept and offered again before the next
  // bytes.
  void feed(Bytes octets) {
    kept_.insert(kept_.end(), octets.begin(), octets.end());
    for (bool more = true; more;) {
      Events events(list_);
      const std::size_t taken = stream.feed(kept_, memory_, events);
      kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(taken));
      note(events);
      more = events.full() || (taken != 0 && !kept_.empty());
    }
  }
  // Like feed(), but writes payload to wants() where possible, at most `most` bytes at a time.
  void feed_or_place(Bytes octets, std::size_t most) {
    while (!octets.empty()) {
      const MutableBytes place = kept_.empty() ? stream.wants() : MutableBytes();
      const std::size_t n = std::min({octets.size(), most, place.empty() ? most : place.size()});
      if (place.empty()) {
        feed(octets.first(n));
      } else {
        std::copy_n(octets.begin(), n, place.begin());
        Events events(list_);
        stream.placed(n, memory_, events);
        note(events);
        feed({});
      }
      octets = octets.subspan(n);
    }
  }
  [[nodiscard]] std::size_t left_over() const { return kept_.size(); }

 private:
  static Stream::Options with(Stream::Options options, ByteVector& staging) {
    options.staging = staging;
    return options;
  }
  void note(const Events& events) {
    for (const Event& event : events.all()) seen.push_back(words(event));
  }

  TestMemory& memory_;
  ByteVector staging_;
  ByteVector kept_;

 public:
  Stream stream;
  std::vector<std::string> seen;

 private:
  std::vector<Event> list_;
};

using Lines = std::vector<std::string>;

}  // namespace rtrs::iwarp::test
