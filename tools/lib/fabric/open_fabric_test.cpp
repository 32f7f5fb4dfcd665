// What is asked of a fabric that another one alone has is refused, not left out in silence.
#include "tools/lib/fabric/open_fabric.hpp"

#include <gtest/gtest.h>

namespace rtrs::tools {
namespace {

std::string refusal(const FabricChoice& choice) {
  const auto opened = open_fabric(choice);
  return opened ? "" : opened.error();
}

TEST(OpenFabric, WhatIsOfAnotherFabricIsRefused) {
  EXPECT_EQ(refusal({.fabric = "tcp", .provider = "shm"}),
            "the provider 'shm' is one of the fabric libfabric, not of tcp");
  EXPECT_EQ(refusal({.fabric = "verbs", .provider = "shm"}),
            "the provider 'shm' is one of the fabric libfabric, not of verbs");
  EXPECT_EQ(refusal({.fabric = "libfabric", .crc = true}),
            "CRC-32C is for the fabric tcp, not for libfabric");
  EXPECT_EQ(refusal({.fabric = "tcp", .device = "mlx5_0"}),
            "the RDMA device 'mlx5_0' is for the fabric verbs, not for tcp");
  EXPECT_EQ(refusal({.fabric = "libfabric", .invalidation = "windows"}),
            "invalidation by windows is for the fabric verbs, not for libfabric");
  FabricChoice tls{.fabric = "libfabric"};
  tls.tls.mode = "require";
  EXPECT_EQ(refusal(tls), "TLS is for the fabric tcp, not for libfabric");
}

TEST(OpenFabric, WhatIsItsOwnIsTaken) {
  EXPECT_EQ(refusal({.fabric = "tcp", .crc = true}), "");
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.fabric = "other"}), "there is no fabric 'other'; choose tcp, libfabric or verbs");
}

}  // namespace
}  // namespace rtrs::tools
