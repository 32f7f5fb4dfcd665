// Rules for requests while there is no path: how long they wait, and until when a failed write may still take
// effect.
#include <gtest/gtest.h>

#include "sim/oracles/io_book.hpp"
#include "sim/oracles/pathless_wait.hpp"

namespace rtrs::sim::outage_test {
namespace {

PathEvent link(bool up, Nanos at) {
  PathEvent news;
  news.kind = up ? PathEvent::Kind::link_up : PathEvent::Kind::link_down;
  news.at = at;
  return news;
}
PathEvent path(std::uint16_t index, PathState state, Nanos at) {
  PathEvent news;
  news.at = at;
  news.path.path = index;
  news.path.state = state;
  return news;
}

TEST(PathlessWait, BeginsWithTheLossOfTheLastPathOrTheSubmission) {
  PathlessWait wait;
  EXPECT_EQ(wait.since(5), kNever);
  wait.note(link(true, 1));
  EXPECT_EQ(wait.since(5), kNever);
  wait.note(link(false, 10));
  EXPECT_EQ(wait.since(5), 10U);
  EXPECT_EQ(wait.since(12), 12U);
  wait.note(link(true, 20));
  EXPECT_EQ(wait.since(12), kNever);
}

TEST(PathlessWait, BeginsWhenALostPathIsDrained) {
  PathlessWait wait;
  wait.note(path(0, PathState::connected, 1));
  wait.note(link(true, 1));
  wait.note(path(0, PathState::draining, 10));
  wait.note(link(false, 10));
  EXPECT_EQ(wait.since(5), kNever);
  wait.note(path(0, PathState::waiting, 14));
  EXPECT_EQ(wait.since(5), 14U);
  // A failed attempt carries no requests, so it does not restart the wait.
  wait.note(path(0, PathState::connecting, 20));
  wait.note(path(0, PathState::draining, 30));
  wait.note(path(0, PathState::waiting, 31));
  EXPECT_EQ(wait.since(5), 14U);
}

class FailedWrite : public testing::Test {
 protected:
  FailedWrite() : failed(write()), under_way(write()) {
    book[failed].answered = book.tick();
    book.failed_unanswered(failed, 1);
    later = write();
  }
  std::uint32_t write() { return book.open(0, Direction::write, 0, 1); }
  void succeed(std::uint32_t io) {
    book[io].answered = book[io].window_end = book.tick();
    book[io].good = true;
    book.end_failed(0, 1, book[io].invoked);
  }
  void read(std::uint32_t value) {
    const std::uint32_t io = book.open(0, Direction::read, 0, 1);
    book[io].good = true;
    book[io].answered = book.tick();
    book.add_value(book[io], 0, value);
  }

  IoBook book;
  const std::uint32_t failed;
  const std::uint32_t under_way;  // a request that was in flight when the write failed
  std::uint32_t later = 0;
};

TEST_F(FailedWrite, MayTakeEffectBeforeALaterRequestSucceeds) {
  read(failed);
  succeed(later);
  read(later);
  EXPECT_EQ(book.check(1, false, {false}), std::nullopt);
}

TEST_F(FailedWrite, EffectAfterALaterSuccessIsFound) {
  succeed(later);
  read(later);
  read(failed);
  EXPECT_NE(book.check(1, false, {false}), std::nullopt);
  EXPECT_EQ(book.check(1, false, {true}), std::nullopt) << "a sector that is not judged";
}

TEST_F(FailedWrite, MayTakeEffectAfterAnInFlightRequestSucceeded) {
  succeed(under_way);
  read(under_way);
  read(failed);
  EXPECT_EQ(book.check(1, false, {false}), std::nullopt);
}

TEST_F(FailedWrite, SuccessOfAnotherClientStartProvesNothing) {
  book.end_failed(0, 2, book.tick());
  EXPECT_EQ(book[failed].window_end, kOpenEnd);
  book.end_failed(1, 1, book.tick());
  EXPECT_EQ(book[failed].window_end, kOpenEnd);
}

}  // namespace
}  // namespace rtrs::sim::outage_test
