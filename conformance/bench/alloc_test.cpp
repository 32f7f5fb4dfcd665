// Checks that neither side allocates memory during 100,000 requests after the connections are established.
#include <gtest/gtest.h>

#include "conformance/bench/count_allocations.hpp"
#include "conformance/bench/pair.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::bench {

TEST(Allocations, NoneInAHundredThousandRequests) {
  for (const unsigned paths : {1U, 4U}) {
    Pair pair(paths, true);
    ASSERT_TRUE(pair.ready(paths));
    // The first request of each kind allocates cached objects, such as the key of the application's memory.
    for (const Direction direction : {Direction::write, Direction::read})
      ASSERT_TRUE(pair.one(direction, 4096));
    const std::uint64_t before = allocations();
    EXPECT_GT(before, 0U);
    for (unsigned request = 0; request < 100'000; ++request)
      ASSERT_TRUE(pair.one(request % 2 == 0 ? Direction::write : Direction::read, 4096));
    EXPECT_EQ(allocations() - before, 0U) << paths << " paths";
  }
}

// The simulated fabric has pools, which reach their final size during the first requests.
TEST(Allocations, NoneOverTheSimulatedFabric) {
  sim::ZeroChoice choice;
  sim::Network network;
  sim::SimFabric near(network, network.add_node(), choice);
  sim::SimFabric far(network, network.add_node(), choice);
  Recorder recorder(1024);
  ServerConfig config;
  config.queue_depth = 64;
  Server server(clamp_to(config, far.capabilities()), &recorder);
  ASSERT_EQ(server.listen(far, 0, PathAddress{"", "n1.p0", 1234}), Errc::ok);
  ClientOptions options;
  options.session_name = "alloc";
  options.session_uuid.bytes[0] = 1;
  options.path_uuids.resize(1);
  options.path_uuids[0].bytes[0] = 2;
  options.paths = {PathAddress{"n0.p0", "n1.p0", 1234}};
  Client client(options, nullptr);
  ASSERT_EQ(client.open(near, 0), Errc::ok);
  std::array<std::byte, 24> header{};
  std::vector<std::byte> data(4096);
  unsigned completed = 0;
  const auto turn = [&] {
    std::array<ServerEvent, 16> events;
    const std::size_t count = server.poll(far, network.now(), events);
    for (std::size_t at = 0; at < count; ++at)
      if (events[at].kind == ServerEvent::Kind::request) server.respond(far, network.now(), events[at].id, 0);
    std::array<IoCompletion, 16> done;
    const std::size_t finished = client.poll(near, network.now(), done);
    for (std::size_t at = 0; at < finished; ++at) completed += done[at].result == Errc::ok ? 1 : 0;
    if (!network.has_events(0) && !network.has_events(1)) network.step(choice);
  };
  const auto requests = [&](unsigned count) {
    const unsigned goal = completed + count;
    for (unsigned sent = 0; completed < goal;) {
      if (sent < count && client.inflight() < 16) {
        IoRequest request;
        request.direction = sent % 2 == 0 ? Direction::write : Direction::read;
        request.user_header = header;
        request.data = data;
        request.affinity = static_cast<std::uint16_t>(sent++);
        if (client.submit(near, network.now(), request) != Errc::ok) return false;
      }
      turn();
    }
    return true;
  };
  for (unsigned round = 0; round < 10'000 && !client.link_up(); ++round) turn();
  ASSERT_TRUE(client.link_up());
  ASSERT_TRUE(requests(5'000));
  const std::uint64_t before = allocations();
  ASSERT_TRUE(requests(100'000));
  EXPECT_EQ(allocations() - before, 0U);
}

}  // namespace rtrs::bench
