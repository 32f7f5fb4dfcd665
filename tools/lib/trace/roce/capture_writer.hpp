// Writes pcapng: one section, one Ethernet interface, time stamps in nanoseconds.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

class CaptureWriter {
 public:
  // Takes all bytes, or throws.
  using Out = std::function<void(Bytes)>;

  // Writes the head of the file; `application` is who made it, UTF-8.
  CaptureWriter(Out out, std::string_view application);
  // `comment` may be empty.
  void frame(std::uint64_t time, Bytes bytes, std::string_view comment = {});
  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }

 private:
  Out out_;
  std::uint64_t frames_ = 0;
};

}  // namespace rtrs::roce
