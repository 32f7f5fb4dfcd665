// Ends the program with a message and exit code 1 if a broken invariant of the core aborts it: an input of
// the trace breaks the contract of its machine.
#pragma once
#include <cstdint>

namespace rtrs::trace {

class AbortGuard {
 public:
  AbortGuard();
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;
  // Number of the current record, which the message names.
  static volatile std::uint64_t& position() noexcept;
};

}  // namespace rtrs::trace
