// The sequence diagram as one HTML file that needs nothing else: the data as JSON, and the style and scripts
// that stand in sequence diagram/page/ and were embedded at build time.
#pragma once
#include <string>

#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence {

// What the page shows, as JSON. Groups that the window leaves out are in it, but not shown at first.
std::string story_json(const Story& story, const Window& window);
std::string story_page(const Story& story, const Window& window);

}  // namespace rtrs::tools::sequence
