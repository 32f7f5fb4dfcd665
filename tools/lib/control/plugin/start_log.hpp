// Log of an nbdkit that urtrs-mapd starts. urtrs-mapd reads stderr of nbdkit through a pipe to learn why the
// start failed. After the start nbdkit must use another log, because it can outlive urtrs-mapd.
#pragma once

namespace rtrs::plugin {

// Environment variable with the number of a descriptor: a duplicate of stderr of urtrs-mapd. The plugin makes
// it the stderr of nbdkit once it has started.
inline constexpr const char* kLogVariable = "URTRS_MAPD_LOG_FD";

}  // namespace rtrs::plugin
