// Reads a trace that another process is still writing.
#pragma once
#include <array>
#include <chrono>
#include <string>

#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

// Time without new bytes after which a followed trace ends; 0: the trace is not followed.
using Patience = std::chrono::milliseconds;

// Returns the name of the file that a recorder began after the file `fd`, which it has renamed; empty if
// `fd` is the newest file. `base`: name of the newest file.
std::string next_of_rotation(int fd, const std::string& base);

// Bytes of a file that grows. At its end, read() waits until the file has grown, the trace has ended, a next
// file was begun, or SIGINT has arrived. A second SIGINT ends the process.
class FollowSource final : public trace::Source {
 public:
  // `fd`: borrowed. `patience`: 0 if the file does not grow.
  FollowSource(int fd, std::string base, Patience patience);
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;

 private:
  bool is_over(std::chrono::steady_clock::duration waited);

  int fd_;
  std::string base_;
  Patience patience_;
  std::array<char, 8> tail_{};  // the last bytes that were read
};

}  // namespace rtrs::tools
