// Runs the fabric contract on the simulated network.
#include "conformance/contract/sim_pair.hpp"

namespace rtrs::conformance {
namespace {

std::unique_ptr<FabricPair> make_calm() {
  return std::make_unique<SimPair>(sim::default_capabilities(), sim::Rates{});
}
std::unique_ptr<FabricPair> make_awkward() {
  return std::make_unique<SimPair>(sim::default_capabilities(), awkward());
}
std::unique_ptr<FabricPair> make_weak() {
  return std::make_unique<SimPair>(sim::weak_capabilities(), sim::Rates{});
}
std::unique_ptr<FabricPair> make_weak_awkward() {
  return std::make_unique<SimPair>(sim::weak_capabilities(), awkward());
}

INSTANTIATE_TEST_SUITE_P(Sim, FabricContract,
                         ::testing::Values(FabricCase{"calm", make_calm}, FabricCase{"awkward", make_awkward},
                                           FabricCase{"weak", make_weak},
                                           FabricCase{"weak_awkward", make_weak_awkward}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
