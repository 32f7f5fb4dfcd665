#include "tools/lib/trace/replay/abort_guard.hpp"

#include <unistd.h>

#include <csignal>
#include <cstddef>

namespace rtrs::trace {
namespace {

volatile std::uint64_t current = 0;

void on_abort(int) {
  char text[96] = "urtrs-replay: the core stopped in record ";
  std::size_t end = 41;
  char digits[20];
  std::size_t count = 0;
  std::uint64_t number = current;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count != 0) text[end++] = digits[--count];
  text[end++] = '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, end);
  ::_exit(1);
}

}  // namespace

AbortGuard::AbortGuard() {
  std::signal(SIGABRT, on_abort);
}
AbortGuard::~AbortGuard() {
  std::signal(SIGABRT, SIG_DFL);
}
volatile std::uint64_t& AbortGuard::position() noexcept {
  return current;
}

}  // namespace rtrs::trace
