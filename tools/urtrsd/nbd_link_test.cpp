#include "tools/urtrsd/nbd_link.hpp"

#include <gtest/gtest.h>

namespace rtrs::daemon {
namespace {

TEST(NbdLink, IsTriedAgainAfterAPauseUntilItIsConnected) {
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

TEST(NbdLink, TellsOnceThatAcknowledgedChangesMayBeLost) {
  NbdLink link;
  link.connected();
  link.changed();
  EXPECT_FALSE(link.take_damage()) << "it is connected";
  link.lost(1);
  link.lost(2);  // an attempt that failed loses nothing more
  EXPECT_TRUE(link.take_damage());
  EXPECT_FALSE(link.take_damage());
  link.connected();
  link.lost(3);
  EXPECT_FALSE(link.take_damage()) << "nothing changed since";
}

TEST(NbdLink, AFlushCoversWhatWasAcknowledgedBeforeItBegan) {
  NbdLink link;
  link.connected();
  link.changed();
  const auto before = link.changes();
  link.flushed(before);
  link.lost(1);
  EXPECT_FALSE(link.take_damage());

  link.connected();
  link.changed();
  const auto second = link.changes();
  link.changed();
  link.flushed(second);
  link.flushed(before);  // of an older flush that ends late
  link.lost(2);
  EXPECT_TRUE(link.take_damage());
}

TEST(NbdLink, IsLostWhenNothingIsAnswered) {
  constexpr Nanos kPatience = NbdLink::kAnswerPatience;
  NbdLink link;
  link.connected();
  EXPECT_EQ(link.lost_at(), kNever) << "it owes nothing";
  link.asked(5);
  link.asked(7);
  EXPECT_EQ(link.lost_at(), 5 + kPatience);
  link.answered(9);
  EXPECT_EQ(link.lost_at(), 9 + kPatience) << "one of two is answered";
  link.asked(11);
  EXPECT_EQ(link.lost_at(), 9 + kPatience) << "to ask again is no reason to wait longer";
  link.answered(12);
  link.answered(13);
  EXPECT_EQ(link.lost_at(), kNever);
  link.asked(20);
  link.lost(21);
  EXPECT_EQ(link.lost_at(), kNever);
  link.connected();
  EXPECT_EQ(link.lost_at(), kNever) << "what was asked over the old connection is over";
}

TEST(NbdLink, KeepsTheDamageUntilSomebodyIsTold) {
  NbdLink link;
  link.connected();
  link.changed();
  link.lost(1);
  link.connected();
  link.changed();
  link.flushed(link.changes());
  link.lost(2);
  EXPECT_TRUE(link.take_damage());
}

}  // namespace
}  // namespace rtrs::daemon
