// How a story is made from files, stage by stage.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::sequence {

// A violation to show, as somebody else found it.
struct WantedMark {
  std::size_t file = 0;
  std::uint64_t record = 0;
  std::string text;
};

// Reads the files and builds everything. Says on stderr what cannot be read; `code` is then an exit code:
// of a damaged trace what is sound is still told. A mark on a record that does not exist is a usage error.
Story build_story(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code);

// By how much an arrival may seem earlier than its sending. A driver stamps what it finds with the time at
// which it began to look; simulated clocks are exact.
std::int64_t clock_slack(const TraceFile& file) noexcept;

// The stages after reading, in this order; tests call build_story.
void pair_messages(Story& story);    // joins both ends of connections and of messages
void order_steps(Story& story);      // estimates clocks, then sorts: causes before their effects
void follow_requests(Story& story);  // requests, and the spans of storage
void lay_out(Story& story);          // clients, paths, lanes, spans of path states

}  // namespace rtrs::tools::sequence
