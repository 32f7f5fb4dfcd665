// Tests that PreflushFabric marks the expected writes and changes nothing else.
#include "sim/net/basic/preflush_fabric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/wire/imm.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::sim::preflush_fabric_test {
namespace {

// Records posted work requests.
class Kept final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    posted.insert(posted.end(), work.begin(), work.end());
    return work.size();
  }
  std::vector<WorkRequest> posted;
};

class PreflushFabricTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kAt = 64;  // user header offset

  PreflushFabricTest() : region(fabric.allocate(4096).value()) {}
  static wire::rnbd::Io io(wire::rnbd::Opcode opcode, std::uint16_t prio) {
    wire::rnbd::Io message;
    message.device_id = 3;
    message.opcode = opcode;
    message.sector = 8;
    message.size = 4096;
    message.prio = prio;
    return message;
  }
  // A write request: data followed by its header.
  WorkRequest request() const {
    WorkRequest work;
    work.op = WorkRequest::Op::write_imm;
    work.imm = wire::encode_io_req(8, 1, 0);
    work.part_count = 2;
    work.parts[0] = {region.id, 0, kAt};
    work.parts[1] = {region.id, kAt, wire::rnbd::kIoBytes + 8};
    return work;
  }
  // Posts `work` with this message. Returns the message in memory afterwards.
  wire::rnbd::Io sent(const wire::rnbd::Io& message, const WorkRequest& work) {
    std::fill(region.bytes.begin(), region.bytes.end(), std::byte{0x5a});
    EXPECT_EQ(encode(message, region.bytes.subspan(kAt, wire::rnbd::kIoBytes)), wire::rnbd::kIoBytes);
    kept.posted.clear();
    EXPECT_EQ(fabric.post({&work, 1}), 1U);
    EXPECT_EQ(kept.posted.size(), 1U);
    const auto untouched = [](std::byte one) { return one == std::byte{0x5a}; };
    EXPECT_TRUE(std::all_of(region.bytes.begin(), region.bytes.begin() + kAt, untouched));
    EXPECT_TRUE(
        std::all_of(region.bytes.begin() + kAt + wire::rnbd::kIoBytes, region.bytes.end(), untouched));
    const auto parsed = wire::rnbd::parse_io(region.bytes.subspan(kAt, wire::rnbd::kIoBytes));
    EXPECT_TRUE(parsed);
    return parsed.value;
  }

  ZeroChoice calm;
  Network network;
  SimFabric inside{network, network.add_node(), calm};
  Kept kept{inside};
  PreflushFabric fabric{kept};
  Region region;
};

TEST_F(PreflushFabricTest, EverySecondWriteGetsPreflushAndNoOtherChange) {
  using wire::rnbd::Opcode;
  const wire::rnbd::Io marked = sent(io(Opcode::write, 4), request());
  EXPECT_TRUE(marked.preflush);
  EXPECT_FALSE(marked.fua);
  EXPECT_EQ(marked.device_id, 3U);
  EXPECT_EQ(marked.opcode, Opcode::write);
  EXPECT_EQ(marked.sector, 8U);
  EXPECT_EQ(marked.size, 4096U);
  EXPECT_EQ(marked.prio, 4U);
  EXPECT_FALSE(sent(io(Opcode::write, 5), request()).preflush);
}

TEST_F(PreflushFabricTest, NoOtherOperationIsMarked) {
  using wire::rnbd::Opcode;
  for (const Opcode opcode : {Opcode::read, Opcode::flush, Opcode::discard, Opcode::write_zeroes})
    EXPECT_FALSE(sent(io(opcode, 4), request()).preflush) << static_cast<int>(opcode);
}

TEST_F(PreflushFabricTest, OtherMessagesAreNotMarked) {
  const wire::rnbd::Io write = io(wire::rnbd::Opcode::write, 4);
  WorkRequest response = request();
  response.imm = wire::encode_io_rsp(wire::ImmType::io_rsp, 1, 0);
  EXPECT_FALSE(sent(write, response).preflush);
  WorkRequest send = request();
  send.op = WorkRequest::Op::send;
  EXPECT_FALSE(sent(write, send).preflush);
  WorkRequest brief = request();
  brief.parts[1].length = wire::rnbd::kIoBytes - 1;
  EXPECT_FALSE(sent(write, brief).preflush) << "too short for a header";
}

}  // namespace
}  // namespace rtrs::sim::preflush_fabric_test
