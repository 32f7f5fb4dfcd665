// Exceptions that end a case early.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace rtrs::conformance {

// The peer broke the rule; the text says what was observed.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The case cannot be run against this peer or on this fabric; the text says why.
struct NotRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Failed(fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void require(bool holds, fmt::format_string<Args...> text, Args&&... args) {
  if (!holds) throw Failed(fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void not_run(fmt::format_string<Args...> text, Args&&... args) {
  throw NotRun(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace rtrs::conformance
