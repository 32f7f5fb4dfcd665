// Files with the progress of long commands.
#pragma once
#include <string>

namespace rtrs::sim_tool {

// Returns the version with the commit, because a seed gives the same run only with the same commit.
std::string this_version();
// Replaces the file atomically. Returns false and sets errno if it cannot be written.
bool replace_file(const std::string& file, const std::string& whole);

}  // namespace rtrs::sim_tool
