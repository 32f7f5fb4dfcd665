// Tests client options, and their reduction on a fabric with fewer capabilities.
#include <gtest/gtest.h>

#include "core/driver/client.hpp"
#include "core/driver/server.hpp"

namespace rtrs::clamp_test {
namespace {

ClientConfig clamped(const ClientConfig& wanted, const Capabilities& fabric) {
  ClientOptions options;
  options.protocol = wanted;
  return clamp_to(options, fabric).protocol;
}

TEST(Clamp, SendDepthIsLimitedByTheFabric) {
  ClientConfig wanted;
  wanted.send_depth = 100;
  Capabilities fabric;
  EXPECT_EQ(clamped(wanted, fabric).send_depth, 100) << "0: no limit";
  fabric.max_send_depth = 99;
  EXPECT_EQ(clamped(wanted, fabric).send_depth, 99);
  fabric.max_send_depth = 200'000;
  EXPECT_EQ(clamped(wanted, fabric).send_depth, 100);
}

TEST(Clamp, QueueDepthIsLimitedByReceives) {
  ClientConfig wanted;
  wanted.max_depth = 512;
  Capabilities fabric;
  fabric.per_io_keys = true;
  EXPECT_EQ(clamped(wanted, fabric).max_depth, 512) << "0: no limit";
  fabric.max_receive_depth = 128 + 512;
  EXPECT_EQ(clamped(wanted, fabric).max_depth, 512);
  fabric.max_receive_depth = 128 + 511;
  EXPECT_EQ(clamped(wanted, fabric).max_depth, 511);
  // A request whose key the server invalidates needs two receives.
  wanted.offer_invalidation = true;
  fabric.max_receive_depth = 128 + 1024;
  EXPECT_EQ(clamped(wanted, fabric).max_depth, 512);
  fabric.max_receive_depth = 128 + 1023;
  EXPECT_EQ(clamped(wanted, fabric).max_depth, 511);
  fabric.per_io_keys = false;
  EXPECT_EQ(clamped(wanted, fabric).max_depth, 512);
}

TEST(Clamp, UnsupportedFeaturesAreNotOffered) {
  ClientConfig wanted;
  wanted.offer_invalidation = true;
  Capabilities fabric;
  EXPECT_FALSE(clamped(wanted, fabric).offer_invalidation);
  EXPECT_FALSE(clamped(wanted, fabric).probe_deliveries);
  EXPECT_FALSE(clamped(wanted, fabric).imm_consumes_receive);
  fabric.per_io_keys = fabric.done_means_delivered = fabric.imm_consumes_receive = true;
  EXPECT_TRUE(clamped(wanted, fabric).offer_invalidation);
  EXPECT_TRUE(clamped(wanted, fabric).probe_deliveries);
  EXPECT_TRUE(clamped(wanted, fabric).imm_consumes_receive);
  wanted.offer_invalidation = false;
  EXPECT_FALSE(clamped(wanted, fabric).offer_invalidation);
}

TEST(Clamp, DefaultSeedComesFromTheSession) {
  ClientOptions options;
  options.session_uuid.bytes[3] = 9;
  const std::uint64_t one = clamp_to(options, {}).protocol.seed;
  options.session_uuid.bytes[3] = 10;
  EXPECT_NE(clamp_to(options, {}).protocol.seed, one);
  options.protocol.seed = 77;
  EXPECT_EQ(clamp_to(options, {}).protocol.seed, 77U);
}

TEST(Clamp, ServerIsLimitedToFabricSendDepthAndSendWithInv) {
  ServerConfig wanted;
  wanted.send_depth = 100;
  wanted.send_invalidate = true;
  wanted.always_invalidate = true;
  Capabilities fabric;
  fabric.max_send_depth = 50;
  const ServerConfig poor = clamp_to(wanted, fabric);
  EXPECT_EQ(poor.send_depth, 50);
  EXPECT_FALSE(poor.send_invalidate);
  EXPECT_TRUE(poor.always_invalidate) << "unchanged; listen() fails";
  fabric.send_invalidate = true;
  fabric.max_send_depth = 0;
  EXPECT_EQ(clamp_to(wanted, fabric).send_depth, 100) << "0: no limit";
  EXPECT_TRUE(clamp_to(wanted, fabric).send_invalidate);
}

}  // namespace
}  // namespace rtrs::clamp_test
