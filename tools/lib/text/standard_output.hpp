// Helpers for a program that prints its result to standard output. Handles closed streams, a full disk and a
// reader that exits.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rtrs::tools {

// Call first in main(). If the program was started with a closed standard stream (`>&-`), opens /dev/null on
// its descriptor. Otherwise a file or socket could get this number and be written to by mistake. Using the
// stream then fails with EBADF.
inline void hold_standard_streams() noexcept {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) == -1 && errno == EBADF)
      ::open("/dev/null",
             number == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // open() returns `number`, the lowest free one
}

// Call last in main(). Returns the exit code: `code` if all output was written. Otherwise prints an error on
// stderr and returns `failed`, or `code` if `code` is not 0. A reader that exited (`| head`) is not an error.
inline int written(const char* program, int code, int failed) noexcept {
  errno = 0;
  if (std::ferror(stdout) == 0 && std::fflush(stdout) == 0) return code;
  // The errno of the earlier failure is unknown.
  if (errno == 0 && ::write(STDOUT_FILENO, "\n", 1) == 1) errno = EIO;
  if (errno == EPIPE) return code;
  std::fprintf(stderr, "%s: cannot write to standard output: %s (errno %d)\n", program, std::strerror(errno),
               errno);
  return code != 0 ? code : failed;
}

}  // namespace rtrs::tools
