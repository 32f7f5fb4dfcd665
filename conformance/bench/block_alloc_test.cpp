// Checks that RNBD client and server allocate memory only while the number of requests in flight reaches a
// new maximum. Covers requests of every kind and size, from submit() to storage and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "conformance/bench/count_allocations.hpp"
#include "conformance/bench/loop_fabric.hpp"
#include "core/driver/block_client.hpp"
#include "core/record/recorder.hpp"
#include "sim/memory/memory_store.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::bench {
namespace {

using wire::rnbd::Opcode;

constexpr std::uint32_t kSmall = 4096;
constexpr std::uint32_t kLarge = 1 << 19;
constexpr unsigned kDepth = 16;

struct Kind {
  Opcode opcode;
  std::uint32_t length;
  bool fua;
};
constexpr std::array kKinds{
    Kind{Opcode::read, kSmall, false},    Kind{Opcode::write, kSmall, false},
    Kind{Opcode::read, kLarge, false},    Kind{Opcode::write, kLarge, false},
    Kind{Opcode::write, kSmall, true},    Kind{Opcode::write, kLarge, true},
    Kind{Opcode::flush, 0, false},        Kind{Opcode::discard, kSmall, false},
    Kind{Opcode::discard, kLarge, false}, Kind{Opcode::write_zeroes, kLarge, true},
};

// An RNBD client and server on two fabrics, with two devices. One device does not support FUA, so each FUA
// write is followed by a flush.
class Blocks {
 public:
  // `advance` advances virtual time and returns the new time.
  Blocks(Fabric& near, Fabric& far, const PathAddress& path, std::function<Nanos()> advance)
      : near_(near),
        far_(far),
        advance_(std::move(advance)),
        store_(disks_),
        server_(server_config(far), 0, &recorders_[0]),
        client_(client_options(near, path), &recorders_[1]) {
    for (const char* name : {"fua", "flushed"}) disks_[name].bytes.resize(2 * kLarge);
    disks_["flushed"].fua = false;
  }

  // Returns false if the devices did not open.
  bool open(const PathAddress& at) {
    if (server_.listen(far_, now_, at) != Errc::ok || client_.open(near_, now_) != Errc::ok) return false;
    for (unsigned i = 0; i < devices_.size(); ++i)
      devices_[i] =
          client_.map(near_, now_, i == 0 ? "fua" : "flushed", wire::rnbd::AccessMode::read_write).device;
    for (unsigned round = 0; round < 10'000 && !all_open(); ++round) turn();
    return all_open() && client_.session().max_io_size() < kLarge;
  }

  // Runs `rounds` requests of each kind on each device, kDepth at a time. Returns false if one failed.
  bool run(unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round)
      for (const Kind& kind : kKinds)
        for (const rnbd::DeviceHandle device : devices_)
          if (!submit(device, kind)) return false;
    while (client_.under_way() != 0) turn();
    return !failed_;
  }
  std::uint64_t storage_operations() const { return server_.stats().storage_operations; }

 private:
  static ServerConfig server_config(const Fabric& fabric) {
    ServerConfig config;
    config.queue_depth = 64;
    config.send_invalidate = false;
    return clamp_to(config, fabric.capabilities());
  }
  static BlockClientOptions client_options(const Fabric& fabric, const PathAddress& path) {
    BlockClientOptions options;
    options.session.session_name = "alloc";
    options.session.session_uuid.bytes[0] = 1;
    options.session.path_uuids.resize(1);
    options.session.path_uuids[0].bytes[0] = 2;
    options.session.paths = {path};
    options.session = clamp_to(options.session, fabric.capabilities());
    return options;
  }
  bool all_open() const {
    return std::all_of(devices_.begin(), devices_.end(), [this](rnbd::DeviceHandle device) {
      return client_.state(device) == rnbd::DeviceState::open;
    });
  }
  bool submit(rnbd::DeviceHandle device, const Kind& kind) {
    while (client_.under_way() == kDepth) turn();
    BlockRequest request;
    request.opcode = kind.opcode;
    request.length = kind.length;
    request.data = data_.data();
    request.fua = kind.fua;
    return client_.submit(near_, now_, device, request) == Errc::ok;
  }
  void turn() {
    now_ = advance_();
    store_.serve(server_, far_, now_);
    std::array<BlockCompletion, kDepth> done;
    const std::size_t count = client_.poll(near_, now_, done);
    for (const BlockCompletion& one : std::span(done).first(count)) failed_ |= one.result != Errc::ok;
    BlockEvent event;
    while (client_.take_event(event)) {
    }
  }

  Fabric& near_;
  Fabric& far_;
  std::function<Nanos()> advance_;
  sim::MemoryDisks disks_;
  sim::MemoryStore store_;
  std::array<Recorder, 2> recorders_{Recorder(1024), Recorder(1024)};
  BlockServer server_;
  BlockClient client_;
  std::array<rnbd::DeviceHandle, 2> devices_{};
  std::vector<std::byte> data_ = std::vector<std::byte>(kLarge);
  Nanos now_ = 0;
  bool failed_ = false;
};

void expect_no_allocation(Blocks& blocks, unsigned rounds) {
  ASSERT_TRUE(blocks.run(50));
  const std::uint64_t before = allocations();
  const std::uint64_t operations = blocks.storage_operations();
  EXPECT_GT(before, 0U);
  const bool served = blocks.run(rounds);
  const std::uint64_t during = allocations() - before;
  ASSERT_TRUE(served);
  EXPECT_EQ(during, 0U);
  // Large requests were split.
  EXPECT_GT(blocks.storage_operations() - operations, std::uint64_t{3} * kKinds.size() * rounds);
}

TEST(BlockAllocations, NoneOverTheLoop) {
  LoopFabric near;
  LoopFabric far;
  LoopFabric::join(near, far);
  Nanos now = 0;
  Blocks blocks(near, far, {}, [&now] { return now += microseconds(1); });
  ASSERT_TRUE(blocks.open({}));
  expect_no_allocation(blocks, 1000);
}

TEST(BlockAllocations, NoneOverTheSimulatedFabric) {
  sim::ZeroChoice choice;
  sim::Network network;
  sim::SimFabric near(network, network.add_node(), choice);
  sim::SimFabric far(network, network.add_node(), choice);
  Blocks blocks(near, far, PathAddress{"n0.p0", "n1.p0", 1234}, [&] {
    if (!network.has_events(0) && !network.has_events(1)) network.step(choice);
    return network.now();
  });
  ASSERT_TRUE(blocks.open(PathAddress{"", "n1.p0", 1234}));
  expect_no_allocation(blocks, 200);
}

}  // namespace
}  // namespace rtrs::bench
