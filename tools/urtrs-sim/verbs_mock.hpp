// The network of --fabric verbs-mock, where this build has the headers of libibverbs and librdmacm.
#pragma once
#include "sim/net/basic/net.hpp"

namespace rtrs::tools {

inline constexpr const char* kVerbsMock = "verbs-mock";
// Null: this build has none.
sim::MakeNet verbs_mock() noexcept;

}  // namespace rtrs::tools
