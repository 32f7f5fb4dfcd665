// Writes a pcapng file: one section, one Ethernet interface, time stamps in nanoseconds.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

class CaptureWriter {
 public:
  // Writes all bytes, or throws.
  using Out = std::function<void(Bytes)>;

  // Writes the file header. `application`: name of the program in UTF-8.
  CaptureWriter(Out out, std::string_view application);
  // Writes a frame. `time`: ns since 1970. `comment`: UTF-8, may be empty.
  void frame(std::uint64_t time, Bytes bytes, std::string_view comment = {});
  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }

 private:
  Out out_;
  std::uint64_t frames_ = 0;
};

}  // namespace rtrs::roce
