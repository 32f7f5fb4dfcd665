#include "tools/urtrs-sim/verbs_mock.hpp"

namespace rtrs::sim_tool {

sim::MakeNet verbs_mock() noexcept {
  return nullptr;
}

}  // namespace rtrs::sim_tool
