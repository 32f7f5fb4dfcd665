// Writes the sequence diagram as one self-contained HTML file: the data as JSON, and the style and scripts of
// tools/lib/trace/sequence/page/, which are embedded at build time.
#pragma once
#include <string>

#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence {

// Returns the data of the page as JSON. Groups that the window excludes are included, but hidden at first.
std::string story_json(const Story& story, const Window& window);
std::string story_page(const Story& story, const Window& window);

}  // namespace rtrs::tools::sequence
