// Tests on which connections a BlockClient sends the requests of a device.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/driver/affinity_run.hpp"
#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim::block_runs_test {
namespace {

class BlockRuns : public testing::Test {
 protected:
  BlockRuns() : scenario(block_world_of({})), world(options(), choice), w(world) {
    w.add_disk("a", kSectors);
    w.start_server();
    w.start_client();
    w.until("the session is up", [&] { return w.link_up(); });
  }
  WorldOptions options() {
    WorldOptions made;
    made.scenario = &scenario;
    return made;
  }
  // Submits `requests` requests at once and waits until all complete. Returns each connection that carried
  // the oldest request in flight at some time.
  std::set<unsigned> used(DeviceHandle device, unsigned requests, std::size_t length) {
    std::set<unsigned> connections;
    for (unsigned one = 0; one < requests; ++one) {
      BlockRequest request;
      request.length = length;
      request.data = data.data();
      request.prio = 0xffff;  // DiskBook does not judge requests with this priority
      EXPECT_EQ(w.client().submit(w.client_fabric(), w.now(), device, request), Errc::ok);
    }
    w.until("all are over", [&] {
      OldestRequest oldest;
      if (w.client().session().oldest_in_flight(oldest)) connections.insert(oldest.con);
      return w.unjudged().size() == requests;
    });
    w.unjudged().clear();
    EXPECT_EQ(w.failure(), "");
    return connections;
  }

  SeededChoice choice{1};
  Scenario scenario;
  World world;
  BlockWorld w;
  std::vector<std::byte> data = std::vector<std::byte>(kSectors * 512);
};

TEST_F(BlockRuns, SingleRequestsStayOnOneConnection) {
  const DeviceHandle device = open(w, "a");
  const std::set<unsigned> first = used(device, 1, 16384);
  ASSERT_EQ(first.size(), 1U);
  for (unsigned turn = 0; turn < 40; ++turn) EXPECT_EQ(used(device, 1, 16384), first);
  EXPECT_EQ(used(device, AffinityRun::kRequests, 512), first) << "one run";
}

TEST_F(BlockRuns, ManyRequestsUseAllConnections) {
  const DeviceHandle device = open(w, "a");
  EXPECT_EQ(used(device, 2 * AffinityRun::kRequests, 512), (std::set<unsigned>{1, 2}));
  EXPECT_EQ(used(device, 8, 16384), (std::set<unsigned>{1, 2})) << "runs of 64 KiB";
}

}  // namespace
}  // namespace rtrs::sim::block_runs_test
