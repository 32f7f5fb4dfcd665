// Progress display of all programs.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace rtrs::tools {

// Returns the number as "12,345".
std::string with_commas(std::uint64_t number);

// Returns "12 %, 1,234 of 10,000 seeds, 210/s, 42 s left". `seconds` is the time since the start. The rate
// and the remaining time are left out while `seconds` or `done` is 0.
std::string progress_text(std::uint64_t done, std::uint64_t all, const char* unit, double seconds);

// On a terminal: one line that is overwritten in place and cut to the width of the terminal (80 columns if
// unknown). On other streams: a new line every 10 s with Log::lines, nothing with Log::silent. The destructor
// clears the line on a terminal.
class ProgressLine {
 public:
  enum class Log : std::uint8_t { silent, lines };
  using Time = std::chrono::steady_clock::time_point;
  using Clock = Time (*)();

  explicit ProgressLine(Log log = Log::lines, std::FILE* stream = stderr,
                        Clock clock = &std::chrono::steady_clock::now);
  // Constructor for a stream of known width. `columns`: width of the terminal; 0 if the stream is not a
  // terminal.
  ProgressLine(Log log, std::FILE* stream, Clock clock, std::size_t columns);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Returns true if it is time to show the next text (on a terminal, ten times a second). Callers that could
  // show texts more often check this first.
  bool is_due() const;
  // Shows the text: always on a terminal, only if is_due() on other streams.
  void show(std::string_view text);
  // Clears the line. Call this before writing anything else to the stream.
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
