// Captures standard output.
#pragma once
#include <string>

namespace rtrs::sim_tool {

// A file in memory. Child processes that are forked during its lifetime share it.
class MemoryFile {
 public:
  MemoryFile();  // if memory is short, fd() returns -1
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const noexcept { return fd_; }
  std::string text() const;

 private:
  int fd_;
};

// Captures the text that this process and its child processes print. If memory is short, the text is printed
// instead.
class HeldOutput {
 public:
  HeldOutput();
  // Prints the text unless take() was called.
  ~HeldOutput();
  HeldOutput(const HeldOutput&) = delete;
  HeldOutput& operator=(const HeldOutput&) = delete;
  // Returns the captured text, which is then not printed, and restores standard output.
  std::string take();

 private:
  MemoryFile file_;
  int stdout_ = -1;
};

}  // namespace rtrs::sim_tool
