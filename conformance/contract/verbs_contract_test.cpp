// Runs the fabric contract on verbs over IPv4 and IPv6, with each way to invalidate a key and to post. Needs
// an RDMA device, such as in tools/dev/softroce-vm.
#include <sys/socket.h>

#include "conformance/contract/contract.hpp"
#include "conformance/contract/verbs_pair.hpp"

namespace rtrs::conformance {
namespace {

std::unique_ptr<FabricPair> make_verbs_pair() {
  return VerbsPair::open(verbs_address(AF_INET));
}
std::unique_ptr<FabricPair> make_verbs6_pair() {
  return VerbsPair::open(verbs_address(AF_INET6));
}
std::unique_ptr<FabricPair> make_registering_pair() {
  verbs::VerbsOptions options;
  options.invalidation = verbs::Invalidation::registration;
  return VerbsPair::open(verbs_address(AF_INET), options);
}
// On a device without ibv_wr_*(), this is the same as "windows".
std::unique_ptr<FabricPair> make_calling_pair() {
  verbs::VerbsOptions options;
  options.posting = verbs::Posting::calls;
  return VerbsPair::open(verbs_address(AF_INET), options);
}
std::string without_ipv4() {
  return verbs_address(AF_INET).empty() ? "no RDMA device with an IPv4 address here" : "";
}
std::string without_ipv6() {
  return verbs_address(AF_INET6).empty() ? "no RDMA device with a global IPv6 address here" : "";
}

INSTANTIATE_TEST_SUITE_P(Verbs, FabricContract,
                         ::testing::Values(FabricCase{"windows", make_verbs_pair, without_ipv4},
                                           FabricCase{"windows6", make_verbs6_pair, without_ipv6},
                                           FabricCase{"registration", make_registering_pair, without_ipv4},
                                           FabricCase{"calls", make_calling_pair, without_ipv4}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
