// The answer with which a page opens: a verdict in one sentence, and what happened, by kind. Each item has
// its place in the diagram.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/summary/trace_summary.hpp"

namespace rtrs::tools::sequence {

// What the simulator did or found at a time of the run, which no trace contains.
struct Happening {
  std::int64_t at = 0;  // common time, in ns
  std::string text;
};

// What a page tells besides the steps.
struct PageFacts {
  const trace::RunSummary* summary = nullptr;  // of the files of the story; nullptr: the page has no answer
  bool judged = false;                         // the marks of the story are all violations that `check` finds
  std::vector<Happening> faults;               // of a simulated run
  std::optional<Happening> failure;            // oracle that failed
  std::string command;  // beginning of the command line that draws other parts; empty: none
};

struct AnswerItem {
  std::string text;
  std::int64_t at = 0;     // common time, in ns
  std::int64_t until = 0;  // equal to `at` if it has no length
  Index file = kNone;
  std::uint64_t record = 0;
  std::uint64_t end_record = 0;  // equal to `record` if it has no end
};

struct AnswerRow {
  const char* kind = "";  // one word, for styles and tests
  const char* label = "";
  Tone tone = Tone::normal;
  bool known = true;        // the traces tell it; false only without items
  std::uint64_t count = 0;  // with those that are not among the items
  std::vector<AnswerItem> items;
};

struct Answer {
  Tone tone = Tone::good;
  std::string verdict;
  std::vector<AnswerRow> rows;  // most important first; rows without items have a count of 0
};

Answer make_answer(const Story& story, const PageFacts& facts);

// Returns the beginning of the command line that draws the traces.
std::string seq_command(const std::vector<std::string>& files);

// Returns a recorded time of a file as common time.
std::int64_t common_time(const Story& story, Index file, Nanos time) noexcept;

}  // namespace rtrs::tools::sequence
