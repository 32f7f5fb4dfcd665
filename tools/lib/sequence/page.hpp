// The ladder as one HTML file that needs nothing else: the data as JSON, and the style and scripts that stand
// in ladder/page/ and were embedded at build time.
#pragma once
#include <string>

#include "tools/lib/sequence/story.hpp"
#include "tools/lib/sequence/text_ladder.hpp"

namespace rtrs::tool::ladder {

// What the page shows, as JSON. Groups that the window leaves out are in it, but not shown at first.
std::string story_json(const Story& story, const Window& window);
std::string story_page(const Story& story, const Window& window);

}  // namespace rtrs::tool::ladder
