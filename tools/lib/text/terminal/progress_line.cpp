#include "tools/lib/text/terminal/progress_line.hpp"

#include <algorithm>

#include "tools/lib/text/terminal/terminal.hpp"

namespace rtrs::tools {
namespace {

constexpr auto kEveryRewrite = std::chrono::milliseconds(100);
constexpr auto kEveryLine = std::chrono::seconds(10);

std::size_t width_of(std::FILE* stream) {
  constexpr std::size_t kUsual = 80;
  if (!is_terminal(stream)) return 0;
  const std::size_t columns = columns_of(stream);
  return columns == 0 ? kUsual : columns;
}

// Returns the first `columns` characters of a UTF-8 text.
std::string_view cut(std::string_view text, std::size_t columns) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins && columns-- == 0) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string with_commas(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string progress_text(std::uint64_t done, std::uint64_t all, const char* unit, double seconds) {
  std::string text;
  if (all != 0) text = std::to_string(std::min(done, all) * 100 / all) + " %, ";
  text += with_commas(done) + " of " + with_commas(all) + ' ' + unit;
  if (!(seconds > 0) || done == 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  char more[64];
  std::snprintf(more, sizeof more, ", %.0f/s, %.0f s left", rate,
                static_cast<double>(all - std::min(done, all)) / rate);
  return text + more;
}

ProgressLine::ProgressLine(Log log, std::FILE* stream, Clock clock)
    : ProgressLine(log, stream, clock, width_of(stream)) {}

ProgressLine::ProgressLine(Log log, std::FILE* stream, Clock clock, std::size_t columns)
    : log_(log), stream_(stream), clock_(clock), columns_(columns), last_(clock()) {}

bool ProgressLine::is_due() const {
  if (columns_ != 0) return clock_() - last_ >= kEveryRewrite;
  return log_ == Log::lines && clock_() - last_ >= kEveryLine;
}

void ProgressLine::show(std::string_view text) {
  if (columns_ == 0 && !is_due()) return;
  last_ = clock_();
  // Leaves the last column empty, because writing to it can move the cursor to the next line.
  const std::string_view line = columns_ == 0 ? text : cut(text, columns_ - 1);
  std::fprintf(stream_, columns_ == 0 ? "%.*s\n" : "\r\033[K%.*s", static_cast<int>(line.size()),
               line.data());
  std::fflush(stream_);
  shown_ = columns_ != 0;
}

void ProgressLine::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  shown_ = false;
}

}  // namespace rtrs::tools
