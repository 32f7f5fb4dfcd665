// How far a program is, as all programs show it.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace rtrs::tools {

// "12,345"
std::string with_commas(std::uint64_t number);

// "12 %, 1,234 of 10,000 seeds, 210/s, 42 s left"; without the rate and what is left while `seconds` is 0.
std::string how_far(std::uint64_t done, std::uint64_t all, const char* unit, double seconds);

// On a terminal one line that is written again in place, cut to its width (80 columns where it does not say).
// Elsewhere, where `log` says so, a line of its own every 10 s. Gone with the object.
class ProgressLine {
 public:
  enum class Log : std::uint8_t { silent, lines };
  using Time = std::chrono::steady_clock::time_point;
  using Clock = Time (*)();

  explicit ProgressLine(Log log = Log::lines, std::FILE* stream = stderr,
                        Clock clock = &std::chrono::steady_clock::now);
  // The same for a stream that was looked at before: `columns` of a terminal, 0 elsewhere.
  ProgressLine(Log log, std::FILE* stream, Clock clock, std::size_t columns);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether it is time for another text, on a terminal ten times a second: who shows more asks before.
  bool is_due() const;
  // On a terminal at once, elsewhere when is_due().
  void show(std::string_view text);
  // Before something else is written.
  void clear();

 private:
  Log log_;
  std::FILE* stream_;
  Clock clock_;
  std::size_t columns_;
  Time last_;
  bool shown_ = false;
};

}  // namespace rtrs::tools
