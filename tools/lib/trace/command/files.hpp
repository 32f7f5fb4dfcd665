// Files, output and progress as all subcommands need them.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

// A file to read, "-" is standard input. Says on stderr when it cannot be opened.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  std::uint64_t size() const { return size_; }  // 0: unknown

 private:
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// Whether two of them are one file, by whatever names. Says so on stderr.
bool given_twice(const std::vector<std::string>& paths);

// The first `most` bytes of a file. Where it has more, the next read fails with EFBIG.
class BoundedSource final : public trace::Source {
 public:
  BoundedSource(int fd, std::uint64_t most) : source_(fd), left_(most) {}  // borrowed
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;
  bool exceeded() const { return exceeded_; }

 private:
  trace::FdSource source_;
  std::uint64_t left_;
  bool exceeded_ = false;
};

// Lines of output with each unsafe character (see tools/lib/text/printable.hpp; tab and line feed are safe
// here) as \uNNNN, which JSON reads as that character, and with bytes that are not UTF-8 as \xNN. `colors`
// keeps sequences that only choose a colour.
std::string printable_lines(std::string_view text, bool colors = false);

// Whether a result may be written to `path`: nothing is there, or an empty file. Says on stderr why not. With
// `pipes`, "-" (standard output) and a named pipe too. Opens and changes nothing.
bool may_write(const std::string& path, bool pipes = false);
// A descriptor for writing there, or -1 and the reason on stderr: what may_write() refuses is never changed.
// 0600 is the mode of an empty file that is there as well.
int create_output(const std::string& path, unsigned mode, bool pipes = false);

// Standard output, buffered and made printable. EPIPE is no error: the reader may stop early (cat | head).
class Output {
 public:
  explicit Output(bool colors = false) : colors_(colors) {}
  // False when nothing more can be written.
  bool line(std::string_view text);
  // Exit code: `code`, or an error when the output could not be written.
  int finish(int code);

 private:
  bool colors_ = false;
  int errno_ = 0;  // of the first failure
};

// How much of a big file is read, on stderr.
class Progress {
 public:
  Progress(std::uint64_t size, bool wanted);
  void at(std::uint64_t bytes);

 private:
  std::uint64_t size_;
  bool on_;
  std::chrono::steady_clock::time_point began_;
  ProgressLine line_;
};

// Says why a trace could not be read to its end, and what that means. Answers the exit code.
int report_stop(const std::string& path, trace::Reader::Status status, const trace::Reader& reader);
void error(const std::string& text);
// What error() said first, while standard output has nothing; empty: nothing, or there is an answer.
const std::string& unanswered_error();
// Says that only the records before the damage are looked at; nothing where `damage` is empty.
void warn_of_damage(const std::string& path, const std::string& damage, std::uint64_t records);

}  // namespace rtrs::tools
