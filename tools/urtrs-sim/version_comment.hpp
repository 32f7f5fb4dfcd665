// Makes a shell comment with version and commit, which ends each command line that repeats a failure. A seed
// gives the same run only with the same commit.
#pragma once
#include <string>

#include "tools/lib/text/version/version.hpp"

namespace rtrs::sim_tool {

inline std::string version_comment() {
  const std::string text = tools::version_text("urtrs-sim");
  return "# " + text.substr(0, text.find('\n'));
}

}  // namespace rtrs::sim_tool
