// Tests what a client reports when the cache that held its changes is lost.
#include <gtest/gtest.h>

#include "core/rnbd/test_client.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::test::client_cache_test {
namespace {

constexpr IoNature kRead{};
constexpr IoNature kChange{true, false, false};
constexpr IoNature kFua{true, true, false};
constexpr IoNature kFlush{false, false, true};

// A mapped device on servers whose caches have instance numbers.
class ClientCache : public testing::Test {
 protected:
  void open_at(std::uint64_t instance, bool extended = true) {
    client_.step(LinkUp{extended});
    if (!mapped_) device_ = client_.map("disk");
    mapped_ = true;
    client_.answer_info();
    ASSERT_TRUE(client_.answer_open(disk(7, 1024, instance)));
    ASSERT_EQ(client_.devices.state(device_), DeviceState::open);
  }
  IoTicket arrive(const IoNature& nature) const {
    return {.nature = nature, .arrival = client_.devices.arrive(device_)};
  }
  IoTicket begin(const IoTicket& ticket) {
    return client_.devices.begin_io({device_, ticket.nature, ticket.arrival}).ticket;
  }
  IoTicket begin(const IoNature& nature) { return begin(arrive(nature)); }
  Disposition end(const IoTicket& ticket, std::uint16_t peer_errno = 0, bool delivered = true) {
    return client_.step(IoDone{device_, delivered, peer_errno, ticket});
  }
  Disposition io(const IoNature& nature) { return end(begin(nature)); }

  Client client_;
  DeviceHandle device_ = 0;
  bool mapped_ = false;
};

TEST_F(ClientCache, LossIsReportedOnceToFlushAndOnceToFua) {
  open_at(1);
  EXPECT_EQ(io(kChange), Disposition::ok);
  EXPECT_EQ(io(kChange), Disposition::ok);
  open_at(2);
  ASSERT_EQ(client_.replaced.size(), 1U);
  EXPECT_EQ(client_.replaced[0].device, device_);
  EXPECT_EQ(client_.replaced[0].unflushed, 2U);
  EXPECT_EQ(io(kRead), Disposition::ok);
  EXPECT_EQ(io(kChange), Disposition::ok);
  EXPECT_EQ(io(kFua), Disposition::lost);
  EXPECT_EQ(io(kFua), Disposition::ok);
  EXPECT_EQ(io(kFlush), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok);
  EXPECT_EQ(client_.devices.unflushed(device_), 0U);
}

TEST_F(ClientCache, SuccessfulOpensAreCounted) {
  EXPECT_EQ(client_.devices.openings(device_), 0U);
  open_at(1);
  EXPECT_EQ(client_.devices.openings(device_), 1U);
  open_at(1);
  EXPECT_EQ(client_.devices.openings(device_), 2U) << "same instance, possibly another server process";
  EXPECT_EQ(client_.devices.caches(device_), 0U);
  client_.step(LinkUp{true});
  client_.answer_info();
  ASSERT_TRUE(client_.answer(MessageKind::open, wire::linux_errno::kEnoent, {}));
  EXPECT_EQ(client_.devices.openings(device_), 2U) << "refused OPENs do not count";
  client_.step(UnmapRequested{device_});
  EXPECT_EQ(client_.devices.openings(device_), 0U) << "dead handle";
}

TEST_F(ClientCache, LossReportedToAFlushIsNotReportedToFua) {
  open_at(1);
  io(kChange);
  open_at(2);
  EXPECT_EQ(io(kFlush), Disposition::lost);
  EXPECT_EQ(io(kFua), Disposition::ok);
}

TEST_F(ClientCache, FlushBegunBeforeTheReportReportsTheLossToo) {
  open_at(1);
  io(kChange);
  open_at(2);
  const IoTicket first = begin(kFlush), second = begin(kFlush), fua = begin(kFua);
  EXPECT_EQ(end(first), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok) << "this flush began after the report";
  EXPECT_EQ(end(second), Disposition::lost);
  EXPECT_EQ(end(fua), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

// The first flush reports the loss while another flush and a FUA change are held, so the held requests must
// report the loss too.
TEST_F(ClientCache, FlushArrivedBeforeTheReportReportsTheLossToo) {
  open_at(1);
  io(kChange);
  open_at(2);
  const IoTicket first = begin(kFlush), held = arrive(kFlush), held_fua = arrive(kFua);
  EXPECT_EQ(end(first), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok) << "this flush arrived after the report";
  EXPECT_EQ(end(begin(held)), Disposition::lost);
  EXPECT_EQ(end(begin(held_fua)), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok);
  EXPECT_EQ(io(kFua), Disposition::ok);
}

TEST_F(ClientCache, FlushArrivedBeforeTheLossReportsIt) {
  open_at(1);
  io(kChange);
  const IoTicket held = arrive(kFlush);
  open_at(2);
  EXPECT_EQ(io(kFlush), Disposition::lost);
  EXPECT_EQ(end(begin(held)), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, ResubmittedFlushStillReportsTheLoss) {
  open_at(1);
  io(kChange);
  open_at(2);
  const IoTicket first = begin(kFlush), second = begin(kFlush);
  EXPECT_EQ(end(first), Disposition::lost);
  EXPECT_EQ(end(second, wire::linux_errno::kEnotconn), Disposition::retry_after_remap);
  client_.answer_info();
  ASSERT_TRUE(client_.answer_open(disk(8, 1024, 2)));
  EXPECT_EQ(end(begin(second)), Disposition::lost);
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, FlushFailedByTheServerReportsNoLoss) {
  open_at(1);
  io(kChange);
  open_at(2);
  EXPECT_EQ(end(begin(kFlush), wire::linux_errno::kEio), Disposition::fail);
  EXPECT_EQ(end(begin(kFlush), 0, false), Disposition::fail);
  EXPECT_EQ(io(kFlush), Disposition::lost);
}

TEST_F(ClientCache, DurableChangeIsNotLost) {
  open_at(1);
  io(kChange);
  io(kFlush);
  io(kFua);
  io(kRead);
  open_at(2);
  ASSERT_EQ(client_.replaced.size(), 1U);
  EXPECT_EQ(client_.replaced[0].unflushed, 0U);
  EXPECT_EQ(io(kFlush), Disposition::ok);
  EXPECT_EQ(io(kFua), Disposition::ok);
}

TEST_F(ClientCache, FlushCoversChangesCompletedBeforeItBegan) {
  open_at(1);
  io(kChange);
  const IoTicket write = begin(kChange);
  const IoTicket flush = begin(kFlush);
  EXPECT_EQ(end(write), Disposition::ok);
  EXPECT_EQ(end(flush), Disposition::ok);
  EXPECT_EQ(client_.devices.unflushed(device_), 1U);
  open_at(2);
  EXPECT_EQ(io(kFlush), Disposition::lost);
}

TEST_F(ClientCache, HeldFlushCoversChangesCompletedBeforeItArrived) {
  open_at(1);
  io(kChange);
  const IoTicket held = arrive(kFlush);
  io(kChange);
  EXPECT_EQ(end(begin(held)), Disposition::ok);
  EXPECT_EQ(client_.devices.unflushed(device_), 1U);
}

TEST_F(ClientCache, FlushThatReportsALossCoversNothing) {
  open_at(1);
  io(kChange);
  open_at(2);
  io(kChange);
  EXPECT_EQ(io(kFlush), Disposition::lost);
  EXPECT_EQ(client_.devices.unflushed(device_), 1U);
  open_at(3);
  EXPECT_EQ(io(kFlush), Disposition::lost) << "no flush covered the second change";
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, LateFlushDoesNotReduceCoverage) {
  open_at(1);
  const IoTicket early = begin(kFlush);
  io(kChange);
  io(kFlush);
  EXPECT_EQ(end(early), Disposition::ok);
  EXPECT_EQ(client_.devices.unflushed(device_), 0U);
}

TEST_F(ClientCache, UnacknowledgedChangeIsNotReportedAsLost) {
  open_at(1);
  EXPECT_EQ(end(begin(kChange), wire::linux_errno::kEio), Disposition::fail);
  EXPECT_EQ(end(begin(kChange), 0, false), Disposition::fail);
  open_at(2);
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, RequestExecutedByTheNewServerIsInItsCache) {
  open_at(1);
  const IoTicket write = begin(kChange);
  client_.step(LinkDown{});
  client_.step(LinkUp{true});
  EXPECT_EQ(end(write, wire::linux_errno::kEnotconn), Disposition::retry_after_remap);
  client_.answer_info();
  ASSERT_TRUE(client_.answer_open(disk(8, 1024, 2)));
  EXPECT_EQ(io(kChange), Disposition::ok);
  EXPECT_EQ(client_.devices.unflushed(device_), 1U);
  open_at(3);
  EXPECT_EQ(io(kFlush), Disposition::lost);
}

TEST_F(ClientCache, SameInstanceLosesNothing) {
  open_at(1);
  io(kChange);
  open_at(1);
  EXPECT_TRUE(client_.replaced.empty());
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, UnknownInstanceNeitherReportsNorHidesALoss) {
  open_at(0);
  io(kChange);
  open_at(1);
  EXPECT_EQ(io(kFlush), Disposition::ok) << "the earlier instance is unknown";
  io(kChange);
  open_at(0);
  EXPECT_EQ(io(kFua), Disposition::ok);
  open_at(2);
  EXPECT_EQ(io(kFlush), Disposition::lost);
}

// Before Linux 7.0, a kernel server does not initialise the reserved bytes of its responses.
TEST_F(ClientCache, InstanceOfAPeerWithoutExtensionsIsIgnored) {
  open_at(0x1122334455667788, false);
  io(kChange);
  open_at(0x8877665544332211, false);
  EXPECT_TRUE(client_.replaced.empty());
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

// Extensions disappear, for example, when a kernel server replaces a urtrs server.
TEST_F(ClientCache, InstanceIsIgnoredAfterThePeerLosesItsExtensions) {
  open_at(1);
  io(kChange);
  open_at(0x8877665544332211, false);
  EXPECT_TRUE(client_.replaced.empty());
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, FeaturesOfAPeerWithoutExtensionsAreIgnored) {
  for (const bool extended : {false, true}) {
    Client client;
    client.step(LinkUp{extended});
    const DeviceHandle device = client.map("disk");
    client.answer_info();
    wire::rnbd::OpenRsp answer = disk(7);
    answer.features = 0xff;
    ASSERT_TRUE(client.answer_open(answer));
    ASSERT_EQ(client.devices.state(device), DeviceState::open);
    EXPECT_EQ(client.last_news().geometry.features != 0, extended);
    EXPECT_EQ(client.devices.geometry(device)->features != 0, extended);
  }
}

TEST_F(ClientCache, LaterMappingOfTheNameReportsNoLoss) {
  open_at(1);
  io(kChange);
  client_.step(UnmapRequested{device_});
  ASSERT_TRUE(client_.answer_close());
  mapped_ = false;
  open_at(2);
  EXPECT_EQ(io(kFlush), Disposition::ok);
}

TEST_F(ClientCache, OperationsHaveTheirNature) {
  using wire::rnbd::Opcode;
  for (const Opcode change : {Opcode::write, Opcode::discard, Opcode::write_zeroes}) {
    EXPECT_TRUE(nature_of(change, false).changes && !nature_of(change, false).durable);
    EXPECT_TRUE(nature_of(change, true).durable && !nature_of(change, true).flushes);
  }
  EXPECT_TRUE(nature_of(Opcode::flush, false).flushes && !nature_of(Opcode::flush, true).durable);
  EXPECT_FALSE(nature_of(Opcode::read, true).changes || nature_of(Opcode::read, true).durable);
}

}  // namespace
}  // namespace rtrs::rnbd::test::client_cache_test
