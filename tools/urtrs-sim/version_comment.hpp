// Version with the commit, because a seed gives the same run only with the same commit.
#pragma once
#include <string>

#include "tools/lib/text/version/version.hpp"

namespace rtrs::sim_tool {

inline std::string this_version() {
  const std::string text = tools::version_text("urtrs-sim");
  return text.substr(0, text.find('\n'));
}

// Returns a shell comment that ends each command line that repeats a failure.
inline std::string version_comment() {
  return "# " + this_version();
}

}  // namespace rtrs::sim_tool
