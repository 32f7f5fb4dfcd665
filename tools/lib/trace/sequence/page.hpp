// Writes the sequence diagram as one self-contained HTML file: the data as JSON, and the style and scripts of
// tools/lib/trace/sequence/page/, which are embedded at build time.
#pragma once
#include <string>
#include <vector>

#include "tools/lib/trace/sequence/answer.hpp"
#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence {

// Steps [from, to) of the story.
struct Range {
  std::size_t from = 0, to = 0;
};

// What a page shows of a story.
struct PageContent {
  std::vector<Range> ranges;  // in order, disjoint, not empty
  unsigned groups = ~0U;      // the other groups are included, but hidden at first
  PageFacts facts;
};

// Returns the groups that are shown by default: all except local details and wire messages, or all if there
// are no other steps.
unsigned usual_groups(const Story& story);

// Chooses at most `limit` steps (0: all) of the window: its beginning and end, and those around everything
// that the answer names, the most important first.
std::vector<Range> choose_ranges(const Story& story, const PageFacts& facts, const Window& window,
                                 std::size_t limit);

// Returns the data of the page as JSON.
std::string story_json(const Story& story, const PageContent& content);
std::string story_page(const Story& story, const PageContent& content);

}  // namespace rtrs::tools::sequence
