// A peer that sends any bytes that a test chooses, on a simulated network without faults.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/driver/client.hpp"
#include "core/driver/server.hpp"
#include "core/fabric/test_seen_event.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::hostile {

inline wire::Uuid uuid(std::uint8_t fill) {
  wire::Uuid made;
  made.bytes.fill(fill);
  return made;
}

using Message = std::vector<std::byte>;
using test::SeenEvent;

// Names a parameterised test by the `name` of its parameter.
struct ByName {
  template <class Info>
  std::string operator()(const Info& case_) const {
    return case_.param.name;
  }
};

inline Message conn_req(std::uint16_t cid, std::uint8_t path = 0x11, std::uint8_t session = 0x22) {
  wire::ConnReq request;
  request.cid = cid;
  request.cid_num = 2;
  request.recon_cnt = 1;
  request.sess_uuid = uuid(path);
  request.paths_uuid = uuid(session);
  request.first_conn = true;
  Message bytes(wire::kConnReqBytes);
  EXPECT_EQ(wire::encode(request, bytes), bytes.size());
  return bytes;
}

inline Message info_req(const std::string& name = "raw") {
  Message bytes(wire::kInfoReqBytes);
  EXPECT_EQ(wire::encode(wire::InfoReq{wire::make_name(name).value}, bytes), bytes.size());
  return bytes;
}

// Two nodes and their event loop; `step` polls the driver under test.
class World {
 public:
  World() {
    network.add_node();
    network.add_node();
  }
  // Runs until `done` returns true, for at most `limit` of virtual time; returns false on timeout.
  bool run_until(const std::function<bool()>& done, Nanos limit = seconds(120)) {
    const Nanos end = network.now() + limit;
    for (unsigned turn = 0; turn < 1'000'000; ++turn) {
      step(network.now());
      if (done()) return true;
      if (network.has_events(0) || network.has_events(1)) continue;
      const Nanos next = std::max(network.now(), std::min(network.next_time(), deadline()));
      if (next > end) return false;
      network.run_until(next, choice);
    }
    return false;
  }
  sim::ZeroChoice choice;
  sim::Network network;
  std::function<void(Nanos)> step = [](Nanos) {};
  std::function<Nanos()> deadline = [] { return kNever; };
};

// Connections of the misbehaving peer, which has a separate node.
class RawPeer {
 public:
  RawPeer(World& world, sim::NodeId node) : fabric(world.network, node, world.choice) {}

  void connect(ConKey key, const Message& bytes, const PathAddress& address) {
    fabric.connect(key, address, ConnectionParams{64, 256}, bytes);
  }
  void send(ConKey key, const Message& bytes, std::optional<std::uint32_t> imm = {}) {
    WorkRequest work;
    work.key = key;
    work.op = imm ? WorkRequest::Op::send_imm : WorkRequest::Op::send;
    work.imm = imm.value_or(0);
    work.inline_bytes = bytes;
    work.signalled = true;
    work.cookie = 1;
    ASSERT_EQ(fabric.post(std::span(&work, 1)), 1U);
  }
  // Writes `bytes` to the peer by RDMA, with the immediate `imm`.
  void write_imm(ConKey key, std::uint32_t imm, const Message& bytes = {}, wire::Descriptor to = {}) {
    WorkRequest work;
    work.key = key;
    work.op = WorkRequest::Op::write_imm;
    work.imm = imm;
    work.signalled = true;
    work.cookie = 1;
    if (!bytes.empty()) {
      if (memory.id == kNoRegion) memory = *fabric.allocate(65536);
      std::copy(bytes.begin(), bytes.end(), memory.bytes.begin());
      work.remote_addr = to.addr;
      work.rkey = to.key;
      work.parts[work.part_count++] = LocalPart{memory.id, 0, static_cast<std::uint32_t>(bytes.size())};
    }
    ASSERT_EQ(fabric.post(std::span(&work, 1)), 1U);
  }
  void poll() {
    std::array<FabricEvent, 32> events;
    const std::size_t count = fabric.poll(0, events);
    for (const FabricEvent& event : std::span(events).first(count)) {
      const SeenEvent& one = seen.emplace_back(test::seen(event));
      if (one.kind == SeenEvent::Kind::connection_lost || one.kind == SeenEvent::Kind::connect_failed)
        fabric.disconnect(one.key);
    }
  }
  unsigned count(SeenEvent::Kind kind) const {
    unsigned found = 0;
    for (const SeenEvent& event : seen) found += event.kind == kind ? 1 : 0;
    return found;
  }
  const SeenEvent* last(SeenEvent::Kind kind) const {
    for (auto event = seen.rbegin(); event != seen.rend(); ++event)
      if (event->kind == kind) return &*event;
    return nullptr;
  }

  sim::SimFabric fabric;
  Region memory;
  std::deque<SeenEvent> seen;
};

}  // namespace rtrs::hostile
