// How urtrs-mapd hears why an nbdkit did not start, and yet leaves it its log: the process outlives
// urtrs-mapd.
#pragma once

namespace rtrs::nbdkit {

// The variable with the number of a descriptor: the standard error of urtrs-mapd. That of the process is a
// pipe to urtrs-mapd until the plugin has started, and this one from then on.
inline constexpr const char* kLogVariable = "URTRS_MAPD_LOG_FD";

}  // namespace rtrs::nbdkit
