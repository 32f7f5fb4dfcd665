#include "tools/lib/trace/sequence/survey.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "core/record/format.hpp"
#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/command/rotation.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/file_steps.hpp"

namespace rtrs::tools::sequence {

namespace {

constexpr std::size_t kMessages = std::size_t{1} << 20;         // most messages of all connections: 16 MiB
constexpr std::size_t kFewest = 64;                             // of each connection, however many there are
constexpr std::uint64_t kMostOfAPipe = std::uint64_t{8} << 30;  // bytes

}  // namespace

Survey::Survey(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code,
               trace::RunSummary* summary)
    : most_(kMessages) {
  code = exit_ok;
  for (const WantedMark& mark : marks) marks_[{static_cast<Index>(mark.file), mark.record}] = false;
  for (const std::string& file : files) {
    const int one = read(file, summary);
    if (one == exit_usage || one == exit_cannot_read) {
      code = one;
      return;
    }
    if (one != exit_ok) code = one;
  }
  if (steps_ > static_cast<std::size_t>(std::numeric_limits<Index>::max())) {
    error("the traces have " + std::to_string(steps_) + " steps, and a diagram at most 2^31 - 1");
    code = exit_cannot_read;
    return;
  }
  messages_.resize(story_.connections.size());
  pair_connections(*this, story_);
  set_common_zero(story_);
  lay_out(story_);
  for (const WantedMark& mark : marks) {
    if (marks_[{static_cast<Index>(mark.file), mark.record}]) continue;
    report_no_step(mark);
    code = exit_usage;
    return;
  }
}

// The traces are read more than once. A file is held open, so that its name may be given to another file
// meanwhile; a pipe is copied to a file without a name.
bool Survey::keep(const std::string& name) {
  struct stat status {};
  const bool standard = name == "-";
  const int found = standard ? ::fstat(STDIN_FILENO, &status) : ::stat(name.c_str(), &status);
  if (is_rotation(name) || (!standard && (found != 0 || S_ISREG(status.st_mode)))) {
    std::FILE* const file = is_rotation(name) ? nullptr : std::fopen(name.c_str(), "re");
    paths_.push_back(file == nullptr ? name : "/proc/self/fd/" + std::to_string(::fileno(file)));
    if (file != nullptr) held_.emplace_back(file);
    return true;
  }
  InputFile input(name);
  if (!input.is_open()) return false;
  std::unique_ptr<std::FILE, Close> copy(std::tmpfile());
  std::vector<char> part(std::size_t{1} << 16);
  std::ptrdiff_t got = copy == nullptr ? -errno : 1;
  std::uint64_t size = 0;
  std::string head;  // what is not a trace is not copied to its end, which may never come
  while (got > 0 && trace::kMagic.starts_with(head)) {
    got = input.source().read(part.data(), part.size());
    size += static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(got, 0));
    if (size > kMostOfAPipe) {
      error(name + " has more than " + std::to_string(kMostOfAPipe >> 30) +
            " GiB; write it to a file first, and name that");
      return false;
    }
    if (got > 0)
      head.append(part.data(),
                  std::min<std::size_t>(static_cast<std::size_t>(got), trace::kMagic.size() - head.size()));
    if (got > 0 && std::fwrite(part.data(), 1, static_cast<std::size_t>(got), copy.get()) !=
                       static_cast<std::size_t>(got))
      got = -errno;
  }
  if (got >= 0 && std::fflush(copy.get()) != 0) got = -errno;
  if (got < 0) {
    error("cannot copy " + name + " to a temporary file: " + std::strerror(static_cast<int>(-got)));
    return false;
  }
  paths_.push_back("/proc/self/fd/" + std::to_string(::fileno(copy.get())));
  held_.push_back(std::move(copy));
  return true;
}

int Survey::read(const std::string& name, trace::RunSummary* run) {
  if (!keep(name)) return exit_usage;
  FileSteps file(story_, name, paths_.back(), true);
  if (!file.open(true)) return file.finish();
  begin_.push_back(kNever);
  end_.push_back(0);
  trace::TraceSummary* const summary = run != nullptr ? &run->begin_trace(file.header()) : nullptr;
  while (file.read()) {
    if (summary != nullptr) summary->add(file.record());
    while (file.steps().waiting() != 0) add(file.steps().take());
  }
  if (summary != nullptr) summary->finish();
  return file.finish();
}

void Survey::add(const Step& step) {
  ++steps_;
  story_.groups |= 1U << static_cast<unsigned>(step.group);
  const auto file = static_cast<std::size_t>(step.file);
  begin_[file] = std::min(begin_[file], step.time);
  end_[file] = std::max(end_[file], step.time);
  if (!marks_.empty() && step.event != kPauseEvent) {
    const auto mark = marks_.find({step.file, step.record});
    if (mark != marks_.end()) mark->second = true;
  }
  if (step.connection == kNone) return;
  messages_.resize(story_.connections.size());
  auto& [sent, received] = messages_[static_cast<std::size_t>(step.connection)];
  if (step.shape == Shape::send) add(sent, step);
  if (step.shape == Shape::receive) add(received, step);
}

void Survey::add(Messages& list, const Step& step) {
  ++list.count;
  if (list.first.size() >= most_) return;
  list.first.push_back({step.signature, step.time});
  if (++kept_ <= kMessages || most_ <= kFewest) return;
  most_ /= 2;
  kept_ = 0;
  for (auto& [sent, received] : messages_) {
    for (Messages* one : {&sent, &received}) {
      if (one->first.size() > most_) {
        one->first.resize(most_);
        one->first.shrink_to_fit();
      }
      kept_ += one->first.size();
    }
  }
}

}  // namespace rtrs::tools::sequence
