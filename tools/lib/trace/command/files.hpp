// Input files, output and progress display of all subcommands of urtrs-replay.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/command/follow.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

// A trace or another file to read. "-" is standard input, and "FILE.*" all files of a rotation. Prints an
// error on stderr if it cannot be opened.
class InputFile {
 public:
  // `patience`: if not 0, follows the file while another process writes it (follow.hpp); not standard input.
  explicit InputFile(const std::string& path, Patience patience = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  bool is_open() const { return source_ != nullptr; }
  int fd() const { return fd_; }  // -1 for a rotation
  trace::Source& source() { return *source_; }
  std::uint64_t size() const { return size_; }  // in bytes; 0: unknown

 private:
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::unique_ptr<trace::Source> source_;
};

// Returns true, and prints an error, if two of the paths are the same file, even under different names.
bool given_twice(const std::vector<std::string>& paths);

// Reads at most `most` bytes of `source` (borrowed). If it has more, the next read fails with EFBIG.
class BoundedSource final : public trace::Source {
 public:
  BoundedSource(trace::Source& source, std::uint64_t most) : source_(source), left_(most) {}
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;
  bool exceeded() const { return exceeded_; }

 private:
  trace::Source& source_;
  std::uint64_t left_;
  bool exceeded_ = false;
};

// Makes output lines safe to print (tools/lib/text/printable.hpp; tab and newline are safe here). Each unsafe
// character becomes \uNNNN, which is valid in JSON, and each byte that is not UTF-8 becomes \xNN. `colors`:
// keeps colour sequences.
std::string printable_lines(std::string_view text, bool colors = false);

// Returns true if it is safe to write a result to `path`: the file does not exist or is empty. If `pipes`,
// also accepts "-" (standard output) and a named pipe. Otherwise prints the reason on stderr. Does not open
// or change the file.
bool may_write(const std::string& path, bool pipes = false);
// Opens `path` for writing. Returns a descriptor that the caller owns, or -1 after printing the reason on
// stderr. Never changes a file that may_write() refuses. If `mode` is 0600, an existing empty file gets this
// mode too.
int create_output(const std::string& path, unsigned mode, bool pipes = false);
// Removes the files that create_output() has created, and empties those that existed. Call when the command
// fails, so that no half result remains.
void remove_outputs();

// Buffered standard output, made safe to print. EPIPE is no error, because the reader may stop early (cat |
// head).
class Output {
 public:
  explicit Output(bool colors = false) : colors_(colors) {}
  // Writes a line. Returns false if no more output can be written.
  bool line(std::string_view text);
  // Flushes. Returns the exit code: `code`, or an error if the output could not be written.
  int finish(int code);

 private:
  bool colors_ = false;
  int errno_ = 0;  // errno of the first failure; 0: none
};

// Shows on stderr how much of a large file has been read.
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

// Prints why a trace could not be read to its end and what that means. Returns the exit code.
int report_stop(const std::string& path, trace::Reader::Status status, const trace::Reader& reader);
void error(const std::string& text);
// Returns the first message that was passed to error(). Empty if there was none, or if a result was written
// to standard output.
const std::string& unanswered_error();
// Prints a warning that only the records before the damage were used. Does nothing if `damage` is empty.
void warn_of_damage(const std::string& path, const std::string& damage, std::uint64_t records);

}  // namespace rtrs::tools
