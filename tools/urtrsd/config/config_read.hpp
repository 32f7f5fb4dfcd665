// Reads a configuration file. The wait is limited, even if the path names a pipe or a device.
#pragma once

#include <chrono>
#include <string>
#include <tl/expected.hpp>

namespace rtrs::daemon {

inline constexpr std::chrono::seconds kConfigPatience{10};

// Returns the content of a regular file of at most 1 MiB. The error text is meant to follow "FILE: ". Waits
// at most `patience` for the disk; after that, the thread that still reads is abandoned.
tl::expected<std::string, std::string> read_config_file(const std::string& path,
                                                        std::chrono::milliseconds patience = kConfigPatience);

}  // namespace rtrs::daemon
