// Writes the sequence diagram as one self-contained HTML file: the data as JSON, and the style and scripts of
// tools/lib/trace/sequence/page/, which are embedded at build time.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/answer.hpp"
#include "tools/lib/trace/sequence/kept.hpp"
#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence {

// What a page shows of a story.
struct PageContent {
  std::vector<Range> ranges;  // in order, disjoint, not empty
  unsigned groups = ~0U;      // the other groups are included, but hidden at first
  PageFacts facts;
};

// Returns the groups that are shown by default: all except local details and wire messages, or all if there
// are no other steps.
unsigned usual_groups(const Story& story);

using Place = std::pair<Index, std::uint64_t>;  // file, record
// Returns the records of the marks and those that the answer names, the most important first.
std::vector<Place> places_of(const Story& story, const PageFacts& facts);

// Finds the step of each place. A record without a step counts as the next step of its file.
class PlaceFinder {
 public:
  PlaceFinder(const std::vector<Place>& places, std::size_t files);
  void on(const Step& step, std::size_t number);  // call for each step in order
  const std::map<Place, std::size_t>& steps() const noexcept { return steps_; }

 private:
  std::vector<std::vector<std::uint64_t>> records_;  // by file, sorted
  std::vector<std::size_t> next_;
  std::map<Place, std::size_t> steps_;
};

// Chooses at most `limit` steps (0: all) of the window: its beginning and end, and those around the places,
// the most important of which are first. `steps`: of the places.
std::vector<Range> choose_ranges(const std::vector<Place>& places, const std::map<Place, std::size_t>& steps,
                                 const Window& window, std::size_t limit);
// Chooses the ranges of a story that holds all its steps, around the places of its summary.
std::vector<Range> choose_ranges(const Story& story, const PageFacts& facts, const Window& window,
                                 std::size_t limit);
// Returns the steps that a page with these ranges needs. `outline`: has the marks, and the number of steps.
Kept steps_of_page(const std::vector<Range>& ranges, const Story& outline);

// Returns the data of the page as JSON.
std::string story_json(const Story& story, const PageContent& content);
std::string story_page(const Story& story, const PageContent& content);

}  // namespace rtrs::tools::sequence
