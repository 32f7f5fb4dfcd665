// Aborts the program on a programming error, in release builds too. Never used for input from a peer, a file
// or a user.
#pragma once

namespace rtrs {
[[noreturn]] void assert_failed(const char* expression, const char* file, int line) noexcept;
}

#define RTRS_ASSERT(expression)                         \
  (static_cast<bool>(expression) ? static_cast<void>(0) \
                                 : ::rtrs::assert_failed(#expression, __FILE__, __LINE__))
