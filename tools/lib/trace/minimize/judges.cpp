#include "tools/lib/trace/minimize/judges.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tools/lib/trace/choice_log/without_numbers.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::tools {

namespace {

using Judged = tl::expected<std::optional<Fault>, std::string>;

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string first_word(const std::string& words) {
  return words.substr(0, words.find(' '));
}

// Runs the command and returns its standard output. The error says that the command cannot be run.
tl::expected<std::string, std::string> output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return tl::make_unexpected("cannot run " + command);
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) != 0;)
    text.append(buffer, got);
  pclose(pipe);
  return text;
}

using Clock = std::chrono::steady_clock;

// Replaces this process by the command, in a new process group and without input and output. The command is
// killed when this program ends.
[[noreturn]] void become(const std::string& command) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int none = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(none, fd);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

// Runs the command and returns its status from waitpid(), or -1 if it could not be started. Returns nullopt
// if it was killed at `end`.
std::optional<int> status_of(const std::string& command, Clock::time_point end) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) become(command);
  if (pid < 0) return -1;
  // The parent sets the group, too, because its kill() may run before setpgid() in the child.
  ::setpgid(pid, pid);
  int status = 0;
  auto pause = std::chrono::microseconds(100);
  for (;;) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) return -1;
    if (Clock::now() >= end) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, end - Clock::now()));
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

// A parsed mark: the name of an event, and fields.
struct Mark {
  std::string event;
  std::vector<std::string> fields;
};

bool matches(const Mark& mark, const trace::Record& record, const trace::Schema& schema) {
  if (record.event->name != mark.event) return false;
  if (mark.fields.empty()) return true;
  const std::string text = " " + trace::fields_text(*record.event, record.values, schema) + " ";
  return std::all_of(mark.fields.begin(), mark.fields.end(), [&text](const std::string& field) {
    return text.find(" " + field + " ") != std::string::npos;
  });
}

}  // namespace

std::string quoted(const std::string& path) {
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Judge judge_by_check() {
  return [](const std::string& path) -> Judged {
    const OpenFile file(path);
    trace::FdSource source(file.fd());
    const trace::TraceCheck check = trace::check_trace(source);
    if (check.findings.empty()) return std::nullopt;
    const spec::Finding& first = check.findings.front();
    const std::string id(spec::info_of(first.rule).id);
    return Fault{"breaks the rule " + id + ": " + tools::without_numbers(first.seen), first.seq,
                 id + ": " + first.seen + "; allowed: " + first.allowed, check.violations};
  };
}

Judge judge_by_reference(std::string command) {
  return [command = std::move(command)](const std::string& path) -> Judged {
    const auto text = output_of(command + " replay --json " + quoted(path) + " 2>/dev/null");
    if (!text) return tl::make_unexpected(text.error());
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    // If the reference build gives no verdict, it has crashed. It should not crash, because only possible
    // inputs are tried here.
    if (!json.is_object() || !json.contains("verdict"))
      return tl::make_unexpected(command + " does not replay");
    if (json["verdict"] != "diverged") return std::nullopt;
    const auto& at = json["divergence"];
    const std::string ours = at["recorded"], theirs = at["rerun"];
    return Fault{"this core: " + first_word(ours) + ", the reference: " + first_word(theirs),
                 at["input_record"].get<std::uint64_t>(),
                 "this core: " + ours + "; the reference: " + theirs};
  };
}

Judge judge_by_command(std::string command, double seconds) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::min(seconds, 1e9)));
  return [command = std::move(command), end](const std::string& path) -> Judged {
    std::string whole = command;
    const std::size_t place = whole.find("{}");
    if (place == std::string::npos)
      whole += " " + quoted(path);
    else
      whole.replace(place, 2, quoted(path));
    const auto status = status_of(whole, end);
    if (!status) return tl::make_unexpected("time ran out while " + command + " ran; give a longer --time");
    if (*status == -1 || !WIFEXITED(*status) || WEXITSTATUS(*status) == 127)
      return tl::make_unexpected("cannot run " + command);
    if (WEXITSTATUS(*status) != 0) return std::nullopt;
    return Fault{"the predicate holds", Fault::kLast, command};
  };
}

Judge judge_by_marks(std::vector<std::string> marks) {
  std::vector<Mark> parsed;
  for (const std::string& text : marks) {
    std::istringstream words(text);
    Mark mark;
    words >> mark.event;
    for (std::string field; words >> field;) mark.fields.push_back(field);
    parsed.push_back(mark);
  }
  return [parsed = std::move(parsed)](const std::string& path) -> Judged {
    const OpenFile file(path);
    trace::FdSource source(file.fd());
    trace::Reader reader(source);
    if (reader.open() != trace::Reader::Status::ok) return tl::make_unexpected(reader.stop().reason);
    trace::Record record;
    std::size_t next = 0;
    while (next < parsed.size() && reader.next(record) == trace::Reader::Status::ok) {
      if (!matches(parsed[next], record, reader.header().schema)) continue;
      if (++next == parsed.size()) return Fault{"contains the marks", record.seq, {}};
    }
    return std::nullopt;
  };
}

Judge judge_by_unanswered(HangWanted wanted) {
  return [wanted](const std::string& path) -> Judged {
    const OpenFile file(path);
    trace::FdSource source(file.fd());
    const auto hangs = trace::hangs_of(source);
    if (!hangs) return tl::make_unexpected(hangs.error());
    for (const trace::Unanswered& one : hangs->unanswered(wanted.hang_after)) {
      if (wanted.reads.value_or(one.request.reads) != one.request.reads ||
          wanted.bytes.value_or(one.request.bytes) != one.request.bytes)
        continue;
      return Fault{std::string("a ") + (one.request.reads ? "read" : "write") +
                       " is not answered: " + trace::words_of(one.stage),
                   Fault::kLast,
                   trace::request_words(one) + ", record " + std::to_string(one.request.begun.record)};
    }
    return std::nullopt;
  };
}

}  // namespace rtrs::tools
