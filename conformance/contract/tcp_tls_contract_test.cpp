// Runs the fabric contract over TLS, with a pre-shared key and with certificates.
#include "backends/platform/tls/test_credentials.hpp"
#include "conformance/contract/contract.hpp"
#include "conformance/contract/tcp_pair.hpp"

namespace rtrs::conformance {
namespace {

tls::TestCredentials& credentials() {
  static tls::TestCredentials made;
  return made;
}

tcp::TlsOptions with(const tls::Credentials& given) {
  const auto context = tls::open_context(given);
  EXPECT_TRUE(context) << context.error();
  return {.context = context ? *context : nullptr, .allow_plain = false};
}

std::unique_ptr<FabricPair> make_key() {
  return TcpPair::open("127.0.0.1", {}, with(credentials().keys({"alice"})));
}
std::unique_ptr<FabricPair> make_certificate() {
  return TcpPair::open("[::1]", {}, with(credentials().issue({})));
}
// Changes the TLS key every 20 MiB.
std::unique_ptr<FabricPair> make_with_frequent_key_updates() {
  tls::Credentials given = credentials().keys({"alice"});
  given.records_per_key = 1200;
  return TcpPair::open("127.0.0.1", {}, with(given));
}

// The kernel encrypts if the module `tls` is loaded (tools/dev/softroce-vm, ktls); otherwise OpenSSL does.
std::unique_ptr<FabricPair> make_kernel() {
  tls::Credentials given = credentials().keys({"alice"});
  given.kernel = true;
  return TcpPair::open("127.0.0.1", {}, with(given));
}

INSTANTIATE_TEST_SUITE_P(Tls, FabricContract,
                         ::testing::Values(FabricCase{"key", make_key},
                                           FabricCase{"certificate", make_certificate},
                                           FabricCase{"hasty", make_with_frequent_key_updates},
                                           FabricCase{"kernel", make_kernel}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
