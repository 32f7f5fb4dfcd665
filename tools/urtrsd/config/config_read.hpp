// Reads a configuration file without blocking for ever, whatever kind of file its path names.
#pragma once

#include <chrono>
#include <string>
#include <tl/expected.hpp>

namespace rtrs::daemon {

inline constexpr std::chrono::seconds kConfigPatience{10};

// Returns the text of a regular file of at most 1 MiB. The error text is meant to follow "FILE: ". Waits at
// most `patience` for the disk; a thread that still blocks then is abandoned.
tl::expected<std::string, std::string> read_config_file(const std::string& path,
                                                        std::chrono::milliseconds patience = kConfigPatience);

}  // namespace rtrs::daemon
