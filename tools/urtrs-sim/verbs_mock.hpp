// The network of --fabric verbs-mock. Needs the headers of libibverbs and librdmacm.
#pragma once
#include "sim/net/basic/net.hpp"

namespace rtrs::sim_tool {

inline constexpr const char* kVerbsMock = "verbs-mock";
// Returns null if this build does not support the network.
sim::MakeNet verbs_mock() noexcept;

}  // namespace rtrs::sim_tool
