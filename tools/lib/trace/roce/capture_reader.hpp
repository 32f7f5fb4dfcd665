// Reads capture files: pcap in both byte orders with micro- or nanoseconds, and pcapng. Memory is bounded by
// the largest frame.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

// Where the bytes come from. read() fills `to` as far as there are bytes; less only at the end. Throws on
// failure of the source.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::size_t read(MutableBytes to) = 0;
};

struct CapturedFrame {
  std::uint64_t time = 0;  // nanoseconds since 1970, or what the capturing machine took for it
  std::uint16_t link = 0;
  std::uint32_t original = 0;    // bytes on the wire
  std::vector<std::byte> bytes;  // as many as were captured
};

class CaptureReader {
 public:
  enum class Status : std::uint8_t {
    ok,
    end,
    not_a_capture,
    damaged,  // reason() tells; what was read before is sound
  };

  explicit CaptureReader(ByteSource& source) : source_(source) {}
  // First of all.
  Status open();
  // The next frame.
  Status next(CapturedFrame& frame);
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  // Bytes read so far.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

 private:
  struct Interface {
    std::uint16_t link = 0;
    // A time stamp counts units of `numerator` / `denominator` ns since 1970 + offset.
    std::uint64_t numerator = 1000;
    std::uint64_t denominator = 1;
    std::int64_t offset_seconds = 0;
  };

  Status damaged(std::string reason);
  // Bytes read; fewer than asked for only at the end.
  std::size_t fill(MutableBytes to);
  [[nodiscard]] std::uint32_t number(Bytes from, std::size_t at, std::size_t width) const noexcept;
  Status open_section(std::uint32_t block_length);
  Status next_pcap(CapturedFrame& frame);
  Status next_pcapng(CapturedFrame& frame);
  // The body of the block whose type and length were just read into `head`.
  Status read_body(std::uint32_t type, std::uint32_t length);
  bool add_interface();
  Status take_packet(std::uint32_t type, CapturedFrame& frame);

  ByteSource& source_;
  std::string reason_;
  std::uint64_t offset_ = 0;
  bool pcapng_ = false;
  bool big_endian_ = false;
  Interface classic_;  // of a pcap file
  std::vector<Interface> interfaces_;
  std::vector<std::byte> body_;
};

}  // namespace rtrs::roce
