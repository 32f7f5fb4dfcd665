// Defines how an nbdkit that urtrs-mapd starts gets its log. urtrs-mapd reads the stderr of nbdkit through a
// pipe to learn why a start failed. After the start nbdkit must use another log, because it can outlive
// urtrs-mapd.
#pragma once

namespace rtrs::plugin {

// Environment variable that contains the number of a descriptor, a duplicate of urtrs-mapd's stderr. After
// the start the plugin makes it the stderr of nbdkit.
inline constexpr const char* kLogVariable = "URTRS_MAPD_LOG_FD";

}  // namespace rtrs::plugin
