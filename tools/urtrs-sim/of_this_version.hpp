// The end of a line that repeats a failure: a comment of the shell with version and commit. A seed plays the
// same run with the same commit alone.
#pragma once
#include <string>

#include "tools/lib/text/version/version.hpp"

namespace rtrs::tools {

inline std::string of_this_version() {
  const std::string text = version_text("urtrs-sim");
  return "# " + text.substr(0, text.find('\n'));
}

}  // namespace rtrs::tools
