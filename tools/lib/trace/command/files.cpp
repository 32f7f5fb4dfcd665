#include "tools/lib/trace/command/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "core/base/utf8.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/command/rotation.hpp"

namespace rtrs::tools {

namespace {

// First error of this process, for the JSON output of a command with --json.
std::string first_error;
bool anything_printed = false;

// Returns the length of the colour escape sequence at the start of `text`; 0 if there is none.
std::size_t color_bytes(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

std::string printable_lines(std::string_view text, bool colors) {
  std::string out;
  out.reserve(text.size());
  const auto add = [&out](const char* form, unsigned code) {
    char word[12];
    std::snprintf(word, sizeof word, form, code);
    out += word;
  };
  while (!text.empty()) {
    const std::size_t color = colors ? color_bytes(text) : 0;
    const bool safe = color != 0 || text[0] == '\n' || text[0] == '\t';
    const std::size_t unsafe = safe ? 0 : unsafe_bytes(text);
    const std::size_t length = color != 0 ? color : unsafe != 0 ? unsafe : utf8_length(text);
    if (unsafe == 0) {
      out += text.substr(0, length);
    } else if (utf8_length(text) == 0) {
      add("\\x%02x", static_cast<unsigned char>(text[0]));
    } else {
      add("\\u%04x", static_cast<unsigned>(utf8_character(text)));
    }
    text.remove_prefix(length);
  }
  return out;
}

bool given_twice(const std::vector<std::string>& paths) {
  std::map<std::pair<dev_t, ino_t>, std::string> seen;
  for (const std::string& path : paths) {
    struct stat found {};
    const int failed = path == "-" ? ::fstat(STDIN_FILENO, &found) : ::stat(path.c_str(), &found);
    if (failed != 0) continue;  // the error is reported when the file is opened
    const auto [at, first] = seen.try_emplace({found.st_dev, found.st_ino}, path);
    if (first) continue;
    error(path + (path == at->second ? " is given twice" : " is the same file as " + at->second) +
          "; give each trace once");
    return true;
  }
  return false;
}

std::ptrdiff_t BoundedSource::read(void* to, std::size_t size) noexcept {
  if (left_ == 0) {
    char next = 0;
    const std::ptrdiff_t got = exceeded_ ? 1 : source_.read(&next, 1);
    exceeded_ = got > 0;
    return exceeded_ ? -EFBIG : got;
  }
  const std::ptrdiff_t got = source_.read(to, static_cast<std::size_t>(std::min<std::uint64_t>(size, left_)));
  if (got > 0) left_ -= static_cast<std::uint64_t>(got);
  return got;
}

const std::string& unanswered_error() {
  static const std::string none;
  return anything_printed ? none : first_error;
}

void error(const std::string& text) {
  if (first_error.empty()) first_error = text;
  std::fprintf(stderr, "urtrs-replay: %s\n", printable_lines(text).c_str());
}

void warn_of_damage(const std::string& path, const std::string& damage, std::uint64_t records) {
  if (damage.empty()) return;
  error(path + ", " + damage + "; the trace is damaged: only the " + std::to_string(records) +
        " records before it are used");
}

InputFile::InputFile(const std::string& path, Patience patience) {
  if (is_rotation(path)) {
    std::vector<std::string> files = rotation_files(path);
    struct stat status {};
    for (const std::string& file : files)
      if (::stat(file.c_str(), &status) == 0) size_ += static_cast<std::uint64_t>(status.st_size);
    if (!files.empty()) source_ = std::make_unique<RotationSource>(std::move(files), patience);
    return;
  }
  if (path == "-") {
    fd_ = ::dup(STDIN_FILENO);
  } else {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (fd_ < 0) {
    error("cannot open " + path + ": " + std::strerror(errno) +
          "; give the path of a trace file, or - for stdin");
    return;
  }
  if (patience.count() != 0 && path != "-") {
    source_ = std::make_unique<RotationSource>(std::vector{path}, patience);
    return;
  }
  source_ = std::make_unique<trace::FdSource>(fd_);
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode))
    size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

bool is_writable(const std::string& path, const struct stat& status, bool pipes) {
  if (S_ISREG(status.st_mode) && status.st_size == 0) return true;
  if (pipes && S_ISFIFO(status.st_mode)) return true;
  error("cannot write " + path + ": the file exists and is not empty; use another file name");
  return false;
}

struct CreatedOutput {
  std::string path;
  bool existed = false;  // as an empty file
};
std::vector<CreatedOutput> outputs;

// A link may name a file that did not exist, so its target counts.
void remember_output(const std::string& path, bool existed) {
  std::error_code none;
  const std::filesystem::path whole = std::filesystem::canonical(path, none);
  if (!none) outputs.push_back({whole.string(), existed});
}

}  // namespace

void remove_outputs() {
  for (const CreatedOutput& one : outputs)
    (void)!(one.existed ? ::truncate(one.path.c_str(), 0) : ::unlink(one.path.c_str()));
  outputs.clear();
}

bool may_write(const std::string& path, bool pipes) {
  if (path == "-" && pipes) return true;
  if (path == "-") return error("cannot write to standard output here; name a file"), false;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return is_writable(path, status, pipes);
  if (errno == ENOENT) return true;
  error("cannot write " + path + ": " + std::strerror(errno));
  return false;
}

int create_output(const std::string& path, unsigned mode, bool pipes) {
  if (!may_write(path, pipes)) return -1;
  struct stat before {};
  const bool existed = ::stat(path.c_str(), &before) == 0;
  // O_EXCL is not used, because the name may be a link to a file that does not exist yet. Opening a pipe
  // blocks until the pipe has a reader.
  const int fd =
      path == "-"
          ? ::dup(STDOUT_FILENO)
          : ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | (pipes ? 0 : O_NONBLOCK), mode);
  if (fd < 0) {
    error("cannot write " + path + ": " + std::strerror(errno));
    return -1;
  }
  struct stat status {};
  if (path == "-" || (::fstat(fd, &status) == 0 && is_writable(path, status, pipes))) {
    // Failure is ignored: a process without permission to change the mode does not own the file, and its
    // owner chose the mode.
    if (mode == 0600 && S_ISREG(status.st_mode)) (void)!::fchmod(fd, 0600);
    if (path != "-" && S_ISREG(status.st_mode)) remember_output(path, existed);
    return fd;
  }
  ::close(fd);
  return -1;
}

bool Output::line(std::string_view text) {
  if (errno_ != 0) return false;
  anything_printed = true;
  std::string clean;
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    clean = printable_lines(text, colors_);
    text = clean;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fputc('\n', stdout) != EOF) {
    return true;
  }
  errno_ = errno;
  return false;
}

int Output::finish(int code) {
  if (errno_ == 0 && std::fflush(stdout) != 0) errno_ = errno;
  if (errno_ == 0 || errno_ == EPIPE) return code;
  error(std::string("cannot write to standard output: ") + std::strerror(errno_));
  return exit_usage;
}

namespace {
constexpr std::uint64_t kBigFile = std::uint64_t{16} << 20;
}

Progress::Progress(std::uint64_t size, bool wanted)
    : size_(size), on_(wanted && size >= kBigFile), began_(std::chrono::steady_clock::now()) {}

void Progress::at(std::uint64_t bytes) {
  if (!on_ || !line_.is_due()) return;
  const std::chrono::duration<double> past = std::chrono::steady_clock::now() - began_;
  line_.show(progress_text(bytes >> 20, size_ >> 20, "MiB", past.count()));
}

int report_stop(const std::string& path, trace::Reader::Status status, const trace::Reader& reader) {
  using Status = trace::Reader::Status;
  const std::string where =
      path + ", byte " + std::to_string(reader.stop().offset) + ": " + reader.stop().reason;
  switch (status) {
    case Status::ok:
    case Status::end:
      return exit_ok;
    case Status::damaged:
      error(where + "; the " + std::to_string(reader.records()) + " records before it are valid");
      return exit_damaged;
    case Status::io_error:
      error(where);
      return exit_usage;
    case Status::not_a_trace:
      error(path + ": " + reader.stop().reason + "; traces are written by urtrsd, urtrs-sim and urtrs-perf");
      return exit_cannot_read;
    case Status::unknown_version:
      error(path + ": " + reader.stop().reason + "; use the urtrs-replay of the version that recorded it");
      return exit_cannot_read;
  }
  return exit_cannot_read;
}

}  // namespace rtrs::tools
