// Tests peers whose name resolves to several addresses.
#include "tools/lib/control/rdma_probe/test_peer.hpp"

namespace rtrs::probe::peer_names_test {
namespace {

// Returns a resolver that resolves every name to `addresses`.
Resolve name_of(std::vector<std::string> addresses) {
  return [addresses = std::move(addresses)](std::string_view, std::uint16_t port) {
    std::vector<net::SocketAddress> all;
    for (const std::string& one : addresses) all.push_back(*net::parse_address(one, port));
    return all;
  };
}

TEST_F(PeerTest, AddressesOfANameAreTriedUntilOneAnswers) {
  ListeningProbe server;
  const auto ask = [&](std::vector<std::string> addresses) {
    return probe_peer(
        {.address = "storage", .port = server.port(), .rounds = 5, .resolve = name_of(std::move(addresses))},
        test_pace());
  };
  const PeerLines got = ask({"192.0.2.77", "192.0.2.78", kServer});
  EXPECT_EQ(got.lines.size(), 6U) << text_of(got.lines);
  EXPECT_TRUE(all_ok(got.lines)) << text_of(got.lines);
  EXPECT_TRUE(says(got.lines, Grade::ok, "no peer at 192.0.2.77:")) << text_of(got.lines);
  EXPECT_TRUE(says(got.lines, Grade::ok, ", 192.0.2.78:")) << text_of(got.lines);
  const PeerLines none = ask({"192.0.2.77", "192.0.2.78"});
  EXPECT_EQ(none.lines.size(), 2U) << text_of(none.lines);
  EXPECT_TRUE(says(none.lines, Grade::failed, "192.0.2.77:")) << text_of(none.lines);
  EXPECT_TRUE(says(none.lines, Grade::failed, "192.0.2.78:")) << text_of(none.lines);
}

// The first address belongs to a device, but no probe listens on it.
TEST_F(PeerTest, AddressWithoutAProbeIsSkipped) {
  ListeningProbe server(std::chrono::seconds(10), kServer);
  const PeerLines got = probe_peer(
      {.address = "storage", .port = server.port(), .rounds = 5, .resolve = name_of({"192.0.2.2", kServer})},
      test_pace());
  EXPECT_TRUE(all_ok(got.lines)) << text_of(got.lines);
  EXPECT_TRUE(says(got.lines, Grade::ok, "no peer at 192.0.2.2:")) << text_of(got.lines);
}

TEST_F(PeerTest, ListensOnTheFirstAddressThatBelongsToADevice) {
  Pace pace = test_pace();
  std::uint16_t port = 0;
  pace.stop = [&port] { return port != 0; };
  Listening listening{.address = "here", .port = 0};
  listening.ready = [&port](std::uint16_t own) { port = own; };
  listening.resolve = name_of({"192.0.2.77", kServer});
  const Lines lines = listen_for_peers(listening, pace);
  EXPECT_TRUE(says(lines, Grade::absent, "none came")) << text_of(lines);
  EXPECT_NE(port, 0);
}

}  // namespace
}  // namespace rtrs::probe::peer_names_test
