// Runs the fabric contract on the TCP fabric over IPv4 and IPv6, with and without CRC.
#include "conformance/contract/contract.hpp"
#include "conformance/contract/tcp_pair.hpp"

namespace rtrs::conformance {
namespace {

tcp::TcpOptions with_crc() {
  tcp::TcpOptions options;
  options.crc = true;
  return options;
}
std::unique_ptr<FabricPair> make_v4() {
  return TcpPair::open("127.0.0.1");
}
std::unique_ptr<FabricPair> make_v6() {
  return TcpPair::open("[::1]");
}
std::unique_ptr<FabricPair> make_v4_crc() {
  return TcpPair::open("127.0.0.1", with_crc());
}
std::unique_ptr<FabricPair> make_v6_crc() {
  return TcpPair::open("[::1]", with_crc());
}
INSTANTIATE_TEST_SUITE_P(Tcp, FabricContract,
                         ::testing::Values(FabricCase{"v4", make_v4}, FabricCase{"v6", make_v6},
                                           FabricCase{"v4_crc", make_v4_crc},
                                           FabricCase{"v6_crc", make_v6_crc}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
