// Replaces a file atomically, so that a reader, a crash or a second writer never sees a part of it.
#pragma once
#include <string>

namespace rtrs::sim_tool {

// Returns 0, or the positive errno that replacing the file would give: EOPNOTSUPP for a device or a pipe.
int can_replace(const std::string& file);

// Keeps the permissions of the old file, and replaces the file that a symbolic link names. Returns 0 or a
// positive errno. After an error the old file is unchanged. Several processes may replace one
// file at the same time: the file then has the whole text of one of them.
int replace_file(const std::string& name, const std::string& text);

// Returns "cannot write FILE: No such file or directory (errno 2)".
std::string cannot_write(const std::string& file, int error);

}  // namespace rtrs::sim_tool
