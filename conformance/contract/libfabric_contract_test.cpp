// Runs the fabric contract on libfabric's tcp provider over IPv4 and IPv6.
#include "conformance/contract/contract.hpp"
#include "conformance/contract/libfabric_pair.hpp"

namespace rtrs::conformance {
namespace {

std::unique_ptr<FabricPair> make_tcp_pair() {
  return LibfabricPair::open("tcp", "127.0.0.1");
}
std::unique_ptr<FabricPair> make_tcp6_pair() {
  return LibfabricPair::open("tcp", "[::1]");
}
INSTANTIATE_TEST_SUITE_P(Libfabric, FabricContract,
                         ::testing::Values(FabricCase{"tcp", make_tcp_pair},
                                           FabricCase{"tcp6", make_tcp6_pair}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
