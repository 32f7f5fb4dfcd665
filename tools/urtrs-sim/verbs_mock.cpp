#include "tools/urtrs-sim/verbs_mock.hpp"

#include "sim/net/verbs/mock_net.hpp"

namespace rtrs::sim_tool {

sim::MakeNet verbs_mock() noexcept {
  return [](const sim::NetworkConfig& config, std::uint64_t seed) -> std::unique_ptr<sim::Net> {
    return std::make_unique<mock_net::MockNet>(config, seed);
  };
}

}  // namespace rtrs::sim_tool
