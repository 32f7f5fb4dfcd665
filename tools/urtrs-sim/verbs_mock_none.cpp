#include "tools/urtrs-sim/verbs_mock.hpp"

namespace rtrs::tools {

sim::MakeNet verbs_mock() noexcept {
  return nullptr;
}

}  // namespace rtrs::tools
