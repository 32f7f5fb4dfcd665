// Two nodes with fabrics on a simulated network, for tests of the network.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/fabric/test_seen_event.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::sim {

using Seen = test::SeenEvent;

class NetworkTest : public ::testing::Test {
 protected:
  using Kind = Seen::Kind;
  static constexpr ConKey kClientKey{0, 1, 1};
  static constexpr ConKey kServerKey{3, 1, 9};

  void start(const NetworkConfig& config, ChoiceSource& choices) {
    network = Network(config);
    choice = &choices;
    network.add_node();
    network.add_node();
    client = std::make_unique<SimFabric>(network, 0, choices);
    server = std::make_unique<SimFabric>(network, 1, choices);
    ASSERT_EQ(server->listen({}), Errc::ok);
  }
  void SetUp() override { start(NetworkConfig{default_capabilities()}, calm); }
  void TearDown() override {
    for (const Violation& violation : network.monitor().violations()) {
      ADD_FAILURE() << "law A" << violation.law << ": " << violation.text << " at " << violation.time;
    }
  }

  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  // Returns all events that the node reports now.
  std::vector<Seen> poll(SimFabric& fabric) {
    std::vector<Seen> all;
    std::array<FabricEvent, 4> batch;
    while (const std::size_t count = fabric.poll(network.now(), batch)) {
      for (const FabricEvent& event : std::span(batch).first(count)) all.push_back(test::seen(event));
    }
    return all;
  }
  std::vector<Seen> run_and_poll(SimFabric& fabric, Nanos time = seconds(1)) {
    network.run_until(network.now() + time, *choice);
    return poll(fabric);
  }
  static std::vector<Kind> kinds(const std::vector<Seen>& events) {
    std::vector<Kind> result;
    for (const Seen& event : events) result.push_back(event.kind);
    return result;
  }

  void connect(ConKey client_key = kClientKey, ConKey server_key = kServerKey, unsigned receives = 64) {
    client->connect(client_key, {"n0.p0", "n1.p0"}, {64, 64}, bytes_of("req"));
    client->post_receive(client_key, receives, 256);
    const auto requests = run_and_poll(*server);
    ASSERT_EQ(kinds(requests), std::vector{Kind::connect_requested});
    EXPECT_EQ(requests[0].text, "req");
    server->accept(requests[0].request, server_key, {64, 64}, bytes_of("rsp"));
    server->post_receive(server_key, receives, 256);
    const auto answers = run_and_poll(*client);
    ASSERT_EQ(kinds(answers), std::vector{Kind::connected});
    EXPECT_EQ(answers[0].text, "rsp");
    link = network.qp_info(network.find_qp(0, client_key)).link;
  }
  void make_key(std::size_t bytes) {
    target = server->allocate(bytes).value();
    remote_key = server->make_key(target.id, 0, bytes).value();
    source = client->allocate(bytes).value();
  }
  WorkRequest write(std::uint32_t length, std::uint32_t imm, bool signalled = true) const {
    WorkRequest wr;
    wr.key = kClientKey;
    wr.op = WorkRequest::Op::write_imm;
    wr.imm = imm;
    wr.signalled = signalled;
    wr.cookie = imm;
    if (length != 0) {
      wr.part_count = 1;
      wr.parts[0] = LocalPart{source.id, 0, length};
      wr.rkey = remote_key.rkey;
      wr.remote_addr = remote_key.remote_addr;
    }
    return wr;
  }
  static WorkRequest message(ConKey key, std::string_view text) {
    WorkRequest wr;
    wr.key = key;
    wr.op = WorkRequest::Op::send;
    wr.inline_bytes = bytes_of(text);
    return wr;
  }
  static std::size_t post(SimFabric& fabric, const WorkRequest& wr) { return fabric.post(std::span(&wr, 1)); }
  void cut(Way way) { network.cut(link, way); }
  void heal(Way way) { network.heal(link, way, *choice); }
  static void fill(std::span<std::byte> bytes, char c) { std::memset(bytes.data(), c, bytes.size()); }

  Network network;
  ZeroChoice calm;
  ChoiceSource* choice = &calm;
  std::unique_ptr<SimFabric> client, server;
  Region target, source;
  RemoteKey remote_key;
  LinkId link = kNone;
};

}  // namespace rtrs::sim
