// Standard output of a program whose answer is text: a reader, a full disk or a shell may take it away.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rtrs::tools {

// First in main(): a program that is started with a standard stream closed (`>&-`) gives its number to no
// file or socket, which would then be written to. What is written there fails with EBADF.
inline void hold_standard_streams() noexcept {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) == -1 && errno == EBADF)
      ::open("/dev/null",
             number == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest, which is this one
}

// Last in main(): `code`, or `failed` and a line on stderr where standard output did not take everything.
// That a reader went away (`| head`) is no error.
inline int written(const char* program, int code, int failed) noexcept {
  errno = 0;
  if (std::ferror(stdout) == 0 && std::fflush(stdout) == 0) return code;
  if (errno == 0 && ::write(STDOUT_FILENO, "\n", 1) == 1) errno = EIO;  // the reason of then is forgotten
  if (errno == EPIPE) return code;
  std::fprintf(stderr, "%s: cannot write to standard output: %s (errno %d)\n", program, std::strerror(errno),
               errno);
  return code != 0 ? code : failed;
}

}  // namespace rtrs::tools
