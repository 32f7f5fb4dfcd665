// The file of the wishes. Every call blocks, for as long as the file system takes.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rtrs::mapping {

// The whole file. The error is an errno: ENOENT where there is none; ELOOP, EISDIR and EINVAL for what is no
// regular file; EFBIG for one of more than kMostStateBytes.
tl::expected<std::string, int> read_state(const std::string& file);

// False: it is another program's, whatever became of it. One of ours that was cut off, emptied or changed by
// hand may be.
bool may_be_state(std::string_view text);

// Replaces it at once or not at all: written beside it, with mode 0600, and forced to storage before it takes
// the place. 0 or an errno.
int write_state(const std::string& file, const std::string& text);

// Gives it another name, "FILE.damaged" or "FILE.damaged-N", which nothing has. The error is an errno;
// EEXIST: all of these names are taken.
tl::expected<std::string, int> set_aside(const std::string& file);

}  // namespace rtrs::mapping
