// Reads capture files: pcap in both byte orders, with microseconds or nanoseconds, and pcapng. Memory use is
// bounded by the largest frame.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

// Source of bytes. read() fills `to` and returns the number of bytes, which is smaller only at the end.
// Throws if the source fails.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::size_t read(MutableBytes to) = 0;
};

struct CapturedFrame {
  std::uint64_t time = 0;        // ns since 1970, on the clock of the capturing host
  std::uint16_t link = 0;        // link type, a value of LinkType
  std::uint32_t original = 0;    // length on the wire, in bytes
  std::vector<std::byte> bytes;  // captured bytes, possibly fewer than `original`
};

class CaptureReader {
 public:
  enum class Status : std::uint8_t {
    ok,
    end,
    not_a_capture,
    damaged,  // see reason(); earlier frames are valid
  };

  explicit CaptureReader(ByteSource& source) : source_(source) {}
  // Reads the file header. Call first.
  Status open();
  // Reads the next frame. Call after open().
  Status next(CapturedFrame& frame);
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  // Number of bytes read so far.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

 private:
  struct Interface {
    std::uint16_t link = 0;
    // Unit of time stamps: `numerator` / `denominator` ns, counted from 1970 + `offset_seconds`.
    std::uint64_t numerator = 1000;
    std::uint64_t denominator = 1;
    std::int64_t offset_seconds = 0;
  };

  Status damaged(std::string reason);
  // Returns the number of bytes read, which is smaller than `to` only at the end.
  std::size_t fill(MutableBytes to);
  [[nodiscard]] std::uint32_t number(Bytes from, std::size_t at, std::size_t width) const noexcept;
  Status open_section(std::uint32_t block_length);
  Status next_pcap(CapturedFrame& frame);
  Status next_pcapng(CapturedFrame& frame);
  // Reads the body of the block whose type and length were just read.
  Status read_body(std::uint32_t type, std::uint32_t length);
  bool add_interface();
  Status take_packet(std::uint32_t type, CapturedFrame& frame);

  ByteSource& source_;
  std::string reason_;
  std::uint64_t offset_ = 0;
  bool pcapng_ = false;
  bool big_endian_ = false;
  Interface classic_;  // interface of a pcap file, which has only one
  std::vector<Interface> interfaces_;
  std::vector<std::byte> body_;
};

}  // namespace rtrs::roce
