// Whether this urtrsd was built with metrics.
#pragma once

namespace rtrs::daemon {

inline constexpr bool kHasMetrics = URTRS_HAS_METRICS != 0;
inline constexpr const char* kNoMetrics =
    "this urtrsd was built without metrics; install prometheus-cpp-dev and build it again";

}  // namespace rtrs::daemon
