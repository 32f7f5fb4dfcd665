// Builds a Story, the data of a sequence diagram, from trace files. Works in stages.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/summary/trace_summary.hpp"

namespace rtrs::tools::sequence {

// A violation that another command has found, and that the diagram must show.
struct WantedMark {
  std::size_t file = 0;
  std::uint64_t record = 0;
  std::string text;
};

// Reads the files and runs all stages. Prints read errors on stderr and sets `code` to the exit code. If a
// trace is damaged, the part before the damage is used. A mark on a record that does not exist is a usage
// error. `summary`: receives the records; may be nullptr.
Story build_story(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code,
                  trace::RunSummary* summary = nullptr);

// Marks steps of a finished story. Prints an error and returns false if a record has no step.
bool set_marks(Story& story, const std::vector<WantedMark>& marks);

// Returns the time in ns by which a receive may appear earlier than its send. A driver stamps events with the
// time at which it began to poll; simulated clocks are exact.
std::int64_t clock_slack(const TraceFile& file) noexcept;

// The stages after reading, in the order of the calls. Tests that need all stages call build_story() instead.
void pair_messages(Story& story);    // finds the two ends of each connection and of each message
void order_steps(Story& story);      // estimates clock offsets, then sorts causes before effects
void follow_requests(Story& story);  // finds requests and the time spans of storage
void lay_out(Story& story);          // places clients, paths and lanes; finds the time spans of path states

}  // namespace rtrs::tools::sequence
