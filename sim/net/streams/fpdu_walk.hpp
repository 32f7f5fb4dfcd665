// Finds the frame boundaries of a stream: the MPA request or reply, then FPDUs. Validates nothing.
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
  // True in the middle of a frame: some of its bytes have arrived, others have not.
  [[nodiscard]] bool is_mid_frame() const noexcept { return at_ != 0; }
  // True if the MPA request or reply has arrived completely.
  [[nodiscard]] bool has_greeted() const noexcept { return greeted_; }

 private:
  // Length in bytes of an MPA request or reply without private data. The last two bytes contain the length of
  // the private data.
  static constexpr std::size_t kGreeting = 20;

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

  std::size_t at_ = 0;  // offset in the current frame
  std::uint32_t length_ = 0;
  bool greeted_ = false;
};

}  // namespace rtrs::sim
