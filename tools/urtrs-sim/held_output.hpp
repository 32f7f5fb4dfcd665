// Text that is wanted before, or in place of, what standard output gets.
#pragma once
#include <string>

namespace rtrs::tools {

// A file in memory, shared with processes that are forked while this lives.
class MemoryFile {
 public:
  MemoryFile();  // fd() is -1 where there is no memory
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const noexcept { return fd_; }
  std::string text() const;

 private:
  int fd_;
};

// What is printed meanwhile, also by processes that are forked, is kept. Without memory it is printed.
class HeldOutput {
 public:
  HeldOutput();
  // Prints what nobody has taken.
  ~HeldOutput();
  HeldOutput(const HeldOutput&) = delete;
  HeldOutput& operator=(const HeldOutput&) = delete;
  // The text, which is not printed any more. From now on standard output is what it was.
  std::string take();

 private:
  MemoryFile file_;
  int stdout_ = -1;
};

}  // namespace rtrs::tools
