// Builds a Story, the data of a sequence diagram, from trace files. Reads the files several times, so that
// only the steps that an output needs are in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/kept.hpp"
#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/sequence/survey.hpp"
#include "tools/lib/trace/summary/trace_summary.hpp"

namespace rtrs::tools::sequence {

// Most steps that a story holds at a time. Each needs about 400 bytes.
inline constexpr std::size_t kMostHeld = 4'000'000;

class StoryReader {
 public:
  // Reads the files once. Prints read errors on stderr and sets `code` to the exit code. If a trace is
  // damaged, the part before the damage is used. A mark on a record that does not exist is a usage error.
  // `summary`: receives the records; may be nullptr.
  StoryReader(const std::vector<std::string>& files, std::vector<WantedMark> marks, int& code,
              trace::RunSummary* summary = nullptr)
      : survey_(files, marks, code, summary), marks_(std::move(marks)) {}

  // The story without its steps, requests and time spans.
  const Story& story() const noexcept { return survey_.story(); }
  std::size_t steps() const noexcept { return survey_.steps(); }
  const std::string& path(std::size_t file) const noexcept { return survey_.path(file); }

  // Calls `visit` for each step in order until it returns false. The steps have no fields, path or request.
  using Visit = std::function<bool(const Step& step, std::size_t number)>;
  void order(const Visit& visit) const;
  // Calls `visit` for each step with the number of requests in flight after it.
  using VisitAll = std::function<bool(const Step& step, std::size_t number, int in_flight)>;
  void each(const VisitAll& visit) const;
  // Returns the story with the steps, requests and time spans that are needed.
  Story read(const Kept& kept) const;

 private:
  void read(const Kept& kept, Story* into, const VisitAll& visit) const;

  Survey survey_;
  std::vector<WantedMark> marks_;
};

// Returns the story with all steps. Prints an error if they are more than kMostHeld.
Story build_story(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code,
                  trace::RunSummary* summary = nullptr);

// Marks steps of a finished story. Prints an error and returns false if a record has no step.
bool set_marks(Story& story, const std::vector<WantedMark>& marks);
void report_no_step(const WantedMark& mark);

// Returns the time in ns by which a receive may appear earlier than its send. A driver stamps events with the
// time at which it began to poll; simulated clocks are exact.
std::int64_t clock_slack(const TraceFile& file) noexcept;

// Stages of the survey.
void pair_connections(const Survey& survey,
                      Story& story);  // finds the two ends of each connection, and clocks
void set_common_zero(Story& story);   // puts the origin of all files to the start of the earliest run
void lay_out(Story& story);           // places clients, paths and lanes

}  // namespace rtrs::tools::sequence
