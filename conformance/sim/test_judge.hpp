// Helper for tests of oracles.
#pragma once
#include "sim/oracles/judge.hpp"

namespace rtrs::conformance {

inline bool fails_with(const sim::Judge& judge, sim::Oracle oracle) {
  return judge.failed() && judge.failure().oracle == oracle;
}

}  // namespace rtrs::conformance
