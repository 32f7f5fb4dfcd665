// Where the frames of a stream end, as an observer of its octets knows it: the MPA request or reply, then
// FPDUs. It judges nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace rtrs::sim {

class FpduWalk {
 public:
  void pass(std::span<const std::byte> octets) noexcept {
    for (const std::byte one : octets) pass(static_cast<std::uint8_t>(one));
  }
  // Octets of a frame came, and others of it did not.
  [[nodiscard]] bool is_amid() const noexcept { return at_ != 0; }
  // The request or reply came whole.
  [[nodiscard]] bool has_greeted() const noexcept { return greeted_; }

 private:
  static constexpr std::size_t kGreeting = 20;  // its last two octets: how many follow

  void pass(std::uint8_t octet) noexcept {
    const std::size_t header = greeted_ ? 2 : kGreeting;
    if (at_ < header) length_ = length_ << 8U | octet;
    if (++at_ < header) return;
    const std::size_t length = length_ & 0xffffU;
    const std::size_t whole = greeted_ ? (2 + length + 3) / 4 * 4 + 4 : kGreeting + length;
    if (at_ < whole) return;
    at_ = 0;
    greeted_ = true;
  }

  std::size_t at_ = 0;  // in its frame
  std::uint32_t length_ = 0;
  bool greeted_ = false;
};

}  // namespace rtrs::sim
