#include "tools/urtrsd/storage/nbd_link.hpp"

#include <gtest/gtest.h>

namespace rtrs::daemon::nbd_link_test {
namespace {

bool fails_flush(NbdLink& link, std::uint64_t& seen) {
  return link.take_loss(seen, seen);
}

TEST(NbdLink, RetriesAfterAPauseUntilConnected) {
  NbdLink link;
  EXPECT_FALSE(link.is_up());
  EXPECT_EQ(link.next_attempt(), 0U);
  link.lost(5);
  EXPECT_EQ(link.next_attempt(), 5 + NbdLink::kPause);
  link.connected();
  EXPECT_TRUE(link.is_up());
  EXPECT_EQ(link.next_attempt(), kNever);
  link.lost(7);
  EXPECT_FALSE(link.is_up());
  EXPECT_EQ(link.next_attempt(), 7 + NbdLink::kPause);
}

TEST(NbdLink, EachOpenFailsOneFlushForEachLoss) {
  NbdLink link;
  std::uint64_t first = link.losses().seen_at_open();
  std::uint64_t second = link.losses().seen_at_open();
  link.connected();
  link.changed();
  EXPECT_FALSE(fails_flush(link, first)) << "nothing was lost yet";
  link.lost(1);
  link.lost(2);  // a failed connection attempt must not count as a further loss
  EXPECT_TRUE(fails_flush(link, first));
  EXPECT_FALSE(fails_flush(link, first));
  EXPECT_TRUE(fails_flush(link, second)) << "the other open reports the loss too";
  EXPECT_FALSE(fails_flush(link, second));
  link.connected();
  link.lost(3);
  EXPECT_FALSE(fails_flush(link, first)) << "nothing changed since";
  link.connected();
  link.changed();
  link.lost(4);
  EXPECT_TRUE(fails_flush(link, first)) << "another loss";
}

TEST(NbdLink, FlushesSubmittedBeforeTheFirstFailureFail) {
  NbdLink link;
  std::uint64_t seen = 0;
  link.connected();
  link.changed();
  const std::uint64_t in_flight = seen;
  link.lost(1);
  const std::uint64_t in_the_outage = seen;
  link.connected();
  EXPECT_TRUE(link.take_loss(seen, in_flight));
  EXPECT_TRUE(link.take_loss(seen, in_the_outage));
  EXPECT_FALSE(fails_flush(link, seen)) << "submitted after the report";
}

TEST(NbdLink, UnreportedLossIsReportedByTheNextOpen) {
  NbdLink link;
  EXPECT_FALSE(link.owes_flush());
  link.connected();
  link.changed();
  EXPECT_TRUE(link.owes_flush());
  link.lost(1);
  EXPECT_TRUE(link.owes_flush());
  NbdLink next;  // a new connection to the same server
  next.inherit(link.losses());
  std::uint64_t late = next.losses().seen_at_open();
  std::uint64_t beside = next.losses().seen_at_open();
  EXPECT_TRUE(fails_flush(next, late));
  EXPECT_FALSE(next.owes_flush());
  EXPECT_TRUE(fails_flush(next, beside)) << "opened before the loss was reported";
  std::uint64_t after = next.losses().seen_at_open();
  EXPECT_FALSE(fails_flush(next, after));
}

TEST(NbdLink, FlushCoversChangesAcknowledgedBeforeItStarted) {
  NbdLink link;
  std::uint64_t seen = 0;
  link.connected();
  link.changed();
  const auto before = link.changes();
  link.flushed(before);
  link.lost(1);
  EXPECT_FALSE(fails_flush(link, seen));

  link.connected();
  link.changed();
  const auto second = link.changes();
  link.changed();
  link.flushed(second);
  link.flushed(before);  // the older flush completes after the newer flush
  link.lost(2);
  EXPECT_TRUE(fails_flush(link, seen));
}

TEST(NbdLink, RepeatedOutagesDoNotExtendTheWaitOfARequest) {
  NbdLink link(30);
  link.connected();
  link.lost(100);
  EXPECT_EQ(link.wait_until(100, 0), 130U);
  link.lost(110);  // a connection attempt failed
  EXPECT_EQ(link.wait_until(120, 0), 130U) << "a later request of this outage";
  EXPECT_FALSE(link.wait_is_over(129));
  EXPECT_EQ(link.wait_until(130, 0), 0U) << "the wait has ended";
  EXPECT_TRUE(link.wait_is_over(130));
  EXPECT_EQ(link.wait_until(131, 130), 0U);
  link.connected();
  link.lost(125);
  EXPECT_EQ(link.wait_until(125, 0), 155U) << "another outage";
  EXPECT_EQ(link.wait_until(125, 130), 130U) << "this request has waited before";
  NbdLink impatient;
  impatient.connected();
  impatient.lost(5);
  EXPECT_EQ(impatient.wait_until(5, 0), 0U);
}

TEST(NbdLink, UnansweredRequestsMakeTheServerLost) {
  constexpr Nanos kPatience = NbdLink::kAnswerPatience;
  NbdLink link;
  link.connected();
  EXPECT_EQ(link.lost_at(), kNever) << "no request is unanswered";
  link.asked(5);
  link.asked(7);
  EXPECT_EQ(link.lost_at(), 5 + kPatience);
  link.answered(9);
  EXPECT_EQ(link.lost_at(), 9 + kPatience) << "one of two is answered";
  link.asked(11);
  EXPECT_EQ(link.lost_at(), 9 + kPatience) << "another request does not extend the time";
  link.answered(12);
  link.answered(13);
  EXPECT_EQ(link.lost_at(), kNever);
  link.asked(20);
  link.lost(21);
  EXPECT_EQ(link.lost_at(), kNever);
  link.connected();
  EXPECT_EQ(link.lost_at(), kNever) << "requests of the old connection no longer count";
}

TEST(NbdLink, LossIsKeptUntilItIsReported) {
  NbdLink link;
  std::uint64_t seen = 0;
  link.connected();
  link.changed();
  link.lost(1);
  link.connected();
  link.changed();
  link.flushed(link.changes());
  link.lost(2);
  EXPECT_TRUE(fails_flush(link, seen));
  EXPECT_FALSE(fails_flush(link, seen));
}

}  // namespace
}  // namespace rtrs::daemon::nbd_link_test
