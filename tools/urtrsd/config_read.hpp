// The text of a configuration file, wherever its path leads.
#pragma once

#include <chrono>
#include <string>
#include <tl/expected.hpp>

namespace rtrs::daemon {

inline constexpr std::chrono::seconds kConfigPatience{10};

// Of a regular file of at most 1 MiB. The error says what is wrong, for behind "FILE: ". Waits for the disk
// for `patience` at most; a thread that the disk holds up for longer is left behind.
tl::expected<std::string, std::string> read_config_file(const std::string& path,
                                                        std::chrono::milliseconds patience = kConfigPatience);

}  // namespace rtrs::daemon
