// Helper for tests of oracles.
#pragma once
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

inline bool fails_with(const Judge& judge, Oracle oracle) {
  return judge.failed() && judge.failure().oracle == oracle;
}

}  // namespace rtrs::sim
