#include "tools/urtrs-sim/run_page.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "sim/world/clock_rate.hpp"
#include "tools/lib/trace/choice_log/trace_judge.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/urtrs-sim/answer.hpp"

namespace rtrs::sim_tool {

namespace sequence = tools::sequence;

namespace {

// Returns the rate of the clock of the node that recorded the file (option "clock=NUM/DEN").
sim::ClockRate clock_of(const sequence::TraceFile& file) {
  constexpr std::string_view kOption = "clock=";
  for (const std::string& option : file.options) {
    sim::ClockRate rate;
    if (!option.starts_with(kOption)) continue;
    const char* const end = option.data() + option.size();
    const auto num = std::from_chars(option.data() + kOption.size(), end, rate.num);
    if (num.ec != std::errc{} || num.ptr == end) continue;
    const auto den = std::from_chars(num.ptr + 1, end, rate.den);
    if (den.ec == std::errc{} && rate.num != 0 && rate.den != 0) return rate;
  }
  return {};
}

// The clock of the first file stands for all.
sequence::Happening happening(const sequence::Story& story, const RunNote& note) {
  return {sequence::common_time(story, 0, clock_of(story.files.front()).local_time(note.time)), note.text};
}

// Marks the last recorded step before the failure that is shown: the failing event, unless that is not
// recorded.
void mark_failure(sequence::Story& story, const RunNote& failure) {
  std::vector<Nanos> times;
  for (const sequence::TraceFile& file : story.files)
    times.push_back(clock_of(file).local_time(failure.time));
  const unsigned groups = sequence::usual_groups(story);
  const sequence::Step* last = &story.steps.front();
  for (const sequence::Step& step : story.steps)
    if (step.time <= times[static_cast<std::size_t>(step.file)] &&
        (groups >> static_cast<unsigned>(step.group) & 1U) != 0)
      last = &step;
  sequence::set_marks(story, {{static_cast<std::size_t>(last->file), last->record, failure.text}});
}

}  // namespace

std::string run_page(const std::vector<std::string>& traces, const std::vector<sequence::WantedMark>& marks,
                     const RunNotes& notes, const std::string& command) {
  int code = 0;
  trace::RunSummary summary;
  sequence::Story story = sequence::build_story(traces, marks, code, &summary);
  if (story.steps.empty()) throw std::runtime_error("no record to show");
  sequence::PageContent content;
  content.groups = sequence::usual_groups(story);
  content.facts.summary = &summary;
  content.facts.judged = true;
  content.facts.command = command;
  for (const RunNote& fault : notes.faults) content.facts.faults.push_back(happening(story, fault));
  if (notes.failure) {
    mark_failure(story, *notes.failure);
    content.facts.failure = happening(story, *notes.failure);
  }
  content.ranges = sequence::choose_ranges(story, content.facts, {0, story.steps.size(), ~0U}, kMostSteps);
  return sequence::story_page(story, content);
}

bool write_run_page(const std::string& prefix, bool traces_stay, const RunNotes& notes,
                    const std::string& file) {
  try {
    const std::vector<std::string> traces = tools::traces_of(prefix);
    std::vector<sequence::WantedMark> marks;
    judgement(traces, marks);
    const std::string page = run_page(traces, marks, notes, traces_stay ? sequence::seq_command(traces) : "");
    errno = 0;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out << page;
    if (out.flush()) return true;
    complain("cannot write " + file + ": " + std::strerror(errno) + " (errno " + std::to_string(errno) + ")");
  } catch (const std::exception& failure) {
    complain("no page " + file + ": " + failure.what());
  }
  return false;
}

RunNotes notes_of(const nlohmann::ordered_json& run) {
  RunNotes notes;
  const auto failure = run.find("failure");
  // Violations that `check` finds after the run are marked where they are.
  if (failure == run.end() || !failure->contains("event")) return notes;
  notes.failure = {static_cast<Nanos>(std::llround(failure->value("time_s", 0.0) * 1e9)),
                   failure->value("oracle", "") + ": " + failure->value("seen", "")};
  return notes;
}

}  // namespace rtrs::sim_tool
