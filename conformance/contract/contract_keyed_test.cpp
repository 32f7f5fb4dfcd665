// Runs the fabric contract with shared-key authentication (core/keyed) over the simulated network and real
// fabrics.
#include "conformance/contract/keyed_pair.hpp"
#include "conformance/contract/sim_pair.hpp"
#include "conformance/contract/tcp_pair.hpp"
#ifdef URTRS_HAS_LIBFABRIC
#include "conformance/contract/libfabric_pair.hpp"
#endif

namespace rtrs::conformance {
namespace {

std::unique_ptr<FabricPair> behind_keys(std::unique_ptr<FabricPair> inner) {
  return inner == nullptr ? nullptr : std::make_unique<KeyedPair>(std::move(inner));
}
std::unique_ptr<FabricPair> make_calm() {
  return behind_keys(std::make_unique<SimPair>(sim::default_capabilities(), sim::Rates{}));
}
std::unique_ptr<FabricPair> make_weak_awkward() {
  return behind_keys(std::make_unique<SimPair>(sim::weak_capabilities(), awkward()));
}
std::unique_ptr<FabricPair> make_tcp() {
  return behind_keys(TcpPair::open("127.0.0.1"));
}
INSTANTIATE_TEST_SUITE_P(Keyed, FabricContract,
                         ::testing::Values(FabricCase{"calm", make_calm},
                                           FabricCase{"weak_awkward", make_weak_awkward},
                                           FabricCase{"tcp", make_tcp}),
                         case_name);

#ifdef URTRS_HAS_LIBFABRIC
std::unique_ptr<FabricPair> make_libfabric() {
  return behind_keys(LibfabricPair::open("tcp", "127.0.0.1"));
}
INSTANTIATE_TEST_SUITE_P(KeyedLibfabric, FabricContract,
                         ::testing::Values(FabricCase{"libfabric", make_libfabric}), case_name);
#endif

}  // namespace
}  // namespace rtrs::conformance
