// Captures standard output.
#pragma once
#include <string>

namespace rtrs::sim_tool {

// A file in memory, shared with child processes that are forked during its lifetime.
class MemoryFile {
 public:
  MemoryFile();  // fd() returns -1 if there is no memory
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const noexcept { return fd_; }
  std::string text() const;

 private:
  int fd_;
};

// Captures text that this process and its child processes print. If there is no memory, the text is printed.
class HeldOutput {
 public:
  HeldOutput();
  // Prints the text unless take() was called.
  ~HeldOutput();
  HeldOutput(const HeldOutput&) = delete;
  HeldOutput& operator=(const HeldOutput&) = delete;
  // Returns the text and restores standard output. The text is then not printed.
  std::string take();

 private:
  MemoryFile file_;
  int stdout_ = -1;
};

}  // namespace rtrs::sim_tool
