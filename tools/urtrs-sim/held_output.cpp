#include "tools/urtrs-sim/held_output.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

namespace rtrs::sim_tool {

MemoryFile::MemoryFile() : fd_(::memfd_create("urtrs-sim", MFD_CLOEXEC)) {}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string MemoryFile::text() const {
  std::string text;
  std::array<char, 65536> part{};
  for (ssize_t got = 0; fd_ >= 0; text.append(part.data(), static_cast<std::size_t>(got))) {
    got = ::pread(fd_, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (got <= 0) break;
  }
  return text;
}

HeldOutput::HeldOutput() {
  if (file_.fd() < 0) return;
  std::fflush(stdout);
  stdout_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (stdout_ >= 0) ::dup2(file_.fd(), STDOUT_FILENO);
}

HeldOutput::~HeldOutput() {
  const std::string said = take();
  std::fwrite(said.data(), 1, said.size(), stdout);
}

std::string HeldOutput::take() {
  if (stdout_ < 0) return {};
  std::fflush(stdout);
  ::dup2(stdout_, STDOUT_FILENO);
  ::close(std::exchange(stdout_, -1));
  return file_.text();
}

}  // namespace rtrs::sim_tool
