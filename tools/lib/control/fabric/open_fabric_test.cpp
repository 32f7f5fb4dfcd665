// Tests that options which the chosen fabric does not support are refused, not silently ignored.
#include "tools/lib/control/fabric/open_fabric.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace rtrs::tools::open_fabric_test {
namespace {

std::string refusal(const std::string& fabric, const std::function<void(FabricChoice&)>& choose) {
  FabricChoice choice;
  choice.fabric = fabric;
  choose(choice);
  const auto opened = open_fabric(choice);
  return opened ? "" : opened.error();
}

TEST(OpenFabric, OptionsOfAnotherFabricAreRefused) {
  const auto shm = [](FabricChoice& choice) { choice.provider = "shm"; };
  const auto crc = [](FabricChoice& choice) { choice.crc = true; };
  const auto device = [](FabricChoice& choice) { choice.device = "mlx5_0"; };
  const auto windows = [](FabricChoice& choice) { choice.invalidation = "windows"; };
  const auto tls = [](FabricChoice& choice) { choice.tls.mode = "require"; };
  EXPECT_EQ(refusal("tcp", shm), "the provider 'shm' belongs to the fabric libfabric, not to tcp");
  EXPECT_EQ(refusal("verbs", shm), "the provider 'shm' belongs to the fabric libfabric, not to verbs");
  EXPECT_EQ(refusal("libfabric", crc), "CRC-32C is for the fabric tcp, not for libfabric");
  EXPECT_EQ(refusal("tcp", device), "the RDMA device 'mlx5_0' is for the fabric verbs, not for tcp");
  EXPECT_EQ(refusal("libfabric", windows),
            "invalidation by windows is for the fabric verbs, not for libfabric");
  const auto calls = [](FabricChoice& choice) { choice.post = "auto"; };
  EXPECT_EQ(refusal("tcp", calls), "RDMA posting by auto is for the fabric verbs, not for tcp");
  const auto auth = [](FabricChoice& choice) { choice.auth.keys = "keys"; };
  EXPECT_EQ(refusal("tcp", auth),
            "auth is for the fabrics verbs and libfabric; on tcp use tls-keys, which encrypts too");
  EXPECT_EQ(refusal("libfabric", tls), "TLS is for the fabric tcp, not for libfabric");
}

// If the client accepted this, a man in the middle could downgrade it to a connection without TLS.
TEST(OpenFabric, ClientRefusesTlsAllow) {
  const std::string refused = refusal("tcp", [](FabricChoice& choice) {
    choice.client = true;
    choice.tls.mode = "allow";
    choice.tls.credentials.keys = "nosuch";
  });
  EXPECT_EQ(refused.rfind("tls=allow is for servers", 0), 0U) << refused;
}

TEST(OpenFabric, OptionsOfTheChosenFabricAreAccepted) {
  EXPECT_EQ(refusal("tcp", [](FabricChoice& choice) { choice.crc = true; }), "");
  EXPECT_EQ(refusal("tcp", [](FabricChoice&) {}), "");
  EXPECT_EQ(refusal("other", [](FabricChoice&) {}), "unknown fabric 'other'; choose tcp, libfabric or verbs");
}

}  // namespace
}  // namespace rtrs::tools::open_fabric_test
