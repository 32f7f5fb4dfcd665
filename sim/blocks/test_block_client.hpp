// Fixture: a block client in its own world, with two disks.
#pragma once
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

class BlockClientTest : public testing::Test {
 protected:
  explicit BlockClientTest(const BlockOptions& options = {})
      : scenario(block_world_of(options)), world(options_of(scenario), choice), w(world) {
    w.add_disk("a", kSectors);
    w.add_disk("b", kSectors);
    w.start_server();
    w.start_client();
    w.until("the session is up", [&] { return w.link_up(); });
  }
  static WorldOptions options_of(const Scenario& scenario) {
    WorldOptions options;
    options.scenario = &scenario;
    return options;
  }
  Errc submit(DeviceHandle device, BlockRequest request) {
    request.data = data.data();
    request.prio = 0xffff;  // DiskBook does not judge requests with this priority
    return w.client().submit(w.client_fabric(), w.now(), device, request);
  }
  BlockCompletion result_of(DeviceHandle device, const BlockRequest& request) {
    EXPECT_EQ(submit(device, request), Errc::ok);
    return next();
  }
  BlockCompletion next() {
    w.until("a request is over", [&] { return !w.unjudged().empty(); });
    EXPECT_EQ(w.failure(), "");
    if (w.unjudged().empty()) return {};
    const BlockCompletion done = w.unjudged().front();
    w.unjudged().pop_front();
    return done;
  }
  void expect(const BlockCompletion& done, Errc result, int error) {
    EXPECT_EQ(done.result, result);
    EXPECT_EQ(done.error, error);
  }

  SeededChoice choice{1};
  Scenario scenario;
  World world;
  BlockWorld w;
  std::vector<std::byte> data = std::vector<std::byte>(kSectors * 512);
};

}  // namespace rtrs::sim
