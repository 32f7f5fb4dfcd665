// The times of a trace for users: seconds since the start of the run, or wall time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/record/format.hpp"

namespace rtrs::trace {

// Returns seconds with nine decimals; "never" for kNever.
std::string time_text(Nanos time);

// Origin of the printed times of one trace. Default: the zero of the recorder's clock.
class TimeBase {
 public:
  TimeBase() = default;
  // `first`: time of the first record in the trace, which is the origin if the trace does not name the start
  // of the run.
  TimeBase(const Header& header, Nanos first);

  // Moves the origin to `zero` on the clock of this trace; used for several traces with a common origin.
  void move_to(std::int64_t zero) noexcept { zero_ = zero; }
  std::int64_t zero() const noexcept { return zero_; }
  // Prints wall time from now on. Returns false if the trace does not contain the wall time.
  bool use_wall() noexcept { return in_wall_ = has_wall_; }

  bool has_wall() const noexcept { return has_wall_; }
  bool in_wall() const noexcept { return in_wall_; }

  std::string text(Nanos time) const;
  // Returns text() with its unit: "1.250000000 s".
  std::string with_unit(Nanos time) const { return text(time) + (in_wall_ ? "" : " s"); }
  // Returns what the times mean, for the first line of an output.
  std::string words() const;
  // Converts what a user gives to the clock of the trace: seconds since the origin, or UTC as
  // 2026-11-30T12:51:09.5Z. Returns nullopt if it is neither, or a wall time that the trace cannot place.
  std::optional<std::int64_t> parse(const std::string& given) const;

 private:
  std::string wall_text(std::int64_t time) const;

  std::int64_t zero_ = 0;
  std::int64_t to_wall_ = 0;  // ns to add to recorded times for ns since 1970
  bool of_run_ = true;        // the origin is the start of the run
  bool has_wall_ = false;
  bool in_wall_ = false;
};

}  // namespace rtrs::trace
