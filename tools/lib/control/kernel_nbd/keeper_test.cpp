// Tests the actions of Keeper, with simulated time.
#include "tools/lib/control/kernel_nbd/keeper.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace rtrs::kernel_nbd::keeper_test {
namespace {

const Attachment kDisk{0x16d, 300, "/run/nbd-a.sock", "disk0"};
constexpr std::uint64_t kBytes = 1 << 20;
const Export kExport{kBytes, 0x16d, 512};

class KeeperTest : public testing::Test {
 protected:
  Actions give(const Input& input) {
    Actions all = keeper_.on(input, now_);
    for (const Action& one : all) {
      if (const auto* tell = std::get_if<Tell>(&one)) told_ += tell->line + "\n";
      if (const auto* open = std::get_if<Open>(&one)) open_ = *open;
    }
    return all;
  }
  template <typename One>
  static std::vector<One> only(const Actions& all) {
    std::vector<One> some;
    for (const Action& action : all)
      if (const auto* one = std::get_if<One>(&action)) some.push_back(*one);
    return some;
  }
  // Attaches nbd3 with a working connection.
  void connected() {
    give(Listed{{{3, kDisk, kBytes}}});
    give(Opened{open_.serial, kExport});
    give(HandedOver{3, 0});
    EXPECT_EQ(state(), Keeper::State::connected);
    told_.clear();
  }
  // Advances the time to the next connection attempt, which then fails.
  void fail_next(const std::string& why) {
    while (keeper_.devices().at(3).asked == 0 && only<Open>(give(Tick{})).empty()) now_ = keeper_.next_tick();
    give(NotOpened{open_.serial, why});
  }
  Keeper::State state() const { return keeper_.devices().at(3).state; }
  bool told(const std::string& text) const { return told_.find(text) != std::string::npos; }

  Nanos now_ = seconds(1000);
  Keeper keeper_{Keeper::Options()};
  Open open_;
  std::string told_;
};

TEST_F(KeeperTest, FoundDeviceGetsAConnection) {
  EXPECT_EQ(only<List>(give(Tick{})).size(), 1U);
  const auto opens = only<Open>(give(Listed{{{3, kDisk, kBytes}}}));
  ASSERT_EQ(opens.size(), 1U);
  EXPECT_EQ(opens[0].socket, kDisk.socket);
  EXPECT_EQ(opens[0].name, kDisk.name);
  EXPECT_TRUE(give(Listed{{{3, kDisk, kBytes}}}).empty()) << "one at a time";
  const auto handed = only<HandOver>(give(Opened{opens[0].serial, kExport}));
  ASSERT_EQ(handed.size(), 1U);
  EXPECT_EQ(handed[0].index, 3U);
  EXPECT_EQ(handed[0].what, kDisk);
  give(HandedOver{3, 0});
  EXPECT_EQ(state(), Keeper::State::connected);
  EXPECT_FALSE(told("connected again")) << "the connection may never have been lost";
}

TEST_F(KeeperTest, LostConnectionIsReplacedWhenAServerAnswers) {
  connected();
  EXPECT_EQ(only<Open>(give(Lost{3})).size(), 1U);
  EXPECT_TRUE(told("lost"));
  EXPECT_TRUE(only<Open>(give(NotOpened{open_.serial, "connection refused"})).empty());
  // The pauses between attempts must grow.
  Nanos pause = 0;
  for (int turn = 0; turn < 20; ++turn) {
    const Nanos next = keeper_.next_tick() - now_;
    now_ += next;
    if (only<Open>(give(Tick{})).empty()) {
      pause += next;
      continue;
    }
    pause = 0;
    give(NotOpened{open_.serial, "connection refused"});
    EXPECT_LE(keeper_.next_tick() - now_, seconds(2));
  }
  EXPECT_LE(pause, seconds(2));
  EXPECT_EQ(state(), Keeper::State::lost);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = told_.find("refused", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 1U) << told_;
  while (only<Open>(give(Tick{})).empty()) now_ = keeper_.next_tick();
  EXPECT_EQ(only<HandOver>(give(Opened{open_.serial, kExport})).size(), 1U);
  give(HandedOver{3, 0});
  EXPECT_EQ(state(), Keeper::State::connected);
  EXPECT_TRUE(told("connected again"));
}

TEST_F(KeeperTest, FirstAttemptsFollowQuickly) {
  connected();
  give(Lost{3});
  const Nanos lost = now_;
  for (int turn = 0; turn < 3; ++turn) {
    give(NotOpened{open_.serial, "no such file"});
    now_ = keeper_.next_tick();
    ASSERT_EQ(only<Open>(give(Tick{})).size(), 1U);
  }
  EXPECT_LT(now_ - lost, seconds(1));
  EXPECT_FALSE(told("no such file")) << "nbdkit is being started";
}

TEST_F(KeeperTest, RepeatedLossStartsOneAttempt) {
  connected();
  give(Lost{3});
  EXPECT_TRUE(give(Lost{3}).empty());
}

TEST_F(KeeperTest, ConnectionToADifferentExportIsClosed) {
  EXPECT_EQ(mismatch(kDisk, kBytes, kExport), "");
  EXPECT_EQ(mismatch(kDisk, kBytes, {kBytes * 2 + 100, 0x16d, 512}), "") << "it grew";
  EXPECT_NE(mismatch(kDisk, kBytes, {kBytes - 512, 0x16d, 512}), "");
  EXPECT_NE(mismatch(kDisk, kBytes, {kBytes - 1, 0x16d, 512}), "") << "its last sector is not whole";
  EXPECT_NE(mismatch(kDisk, kBytes, {kBytes, 0x16f, 512}).find("read-only"), std::string::npos);
  EXPECT_NE(mismatch(kDisk, kBytes, {kBytes, 0x165, 512}).find("flags"), std::string::npos);
  connected();
  give(Lost{3});
  const Actions all = give(Opened{open_.serial, {kBytes, 0x16f, 512}});
  EXPECT_TRUE(only<HandOver>(all).empty());
  ASSERT_EQ(only<Close>(all).size(), 1U);
  EXPECT_EQ(only<Close>(all)[0].serial, open_.serial);
  ASSERT_EQ(only<Tell>(all).size(), 1U);
  EXPECT_EQ(only<Tell>(all)[0].grade, Tell::Grade::error);
  // When the export has the right flags again, the keeper must connect the device.
  now_ = keeper_.next_tick();
  ASSERT_EQ(only<Open>(give(Tick{})).size(), 1U);
  EXPECT_EQ(only<HandOver>(give(Opened{open_.serial, kExport})).size(), 1U);
}

TEST_F(KeeperTest, DeviceIsDetachedAfterItsWaitTime) {
  connected();
  give(Lost{3});
  const Nanos end = now_ + seconds(kDisk.wait);
  Actions all;
  while (only<Detach>(all).empty()) {
    ASSERT_LE(now_, end);
    all = give(Opened{open_.serial, {kBytes, 0x16f, 512}});
    if (!only<Detach>(all).empty()) break;
    now_ = keeper_.next_tick();
    give(Tick{});
  }
  EXPECT_EQ(now_, end);
  EXPECT_EQ(only<Detach>(all)[0].what, kDisk);
  EXPECT_EQ(only<List>(all).size(), 1U);
  EXPECT_TRUE(told("is detached: the export is now read-only"));
  give(Listed{});
  EXPECT_TRUE(keeper_.devices().empty());
}

TEST_F(KeeperTest, DeviceThatCannotBeDetachedIsTriedAgain) {
  connected();
  give(Lost{3});
  now_ += seconds(kDisk.wait);
  EXPECT_TRUE(only<Detach>(give(Tick{})).empty()) << "the pending attempt may still succeed";
  EXPECT_EQ(only<Detach>(give(NotOpened{open_.serial, "nobody listens"})).size(), 1U);
  EXPECT_EQ(state(), Keeper::State::over);
  EXPECT_EQ(only<Open>(give(Listed{{{3, kDisk, kBytes}}})).size(), 1U);
}

TEST_F(KeeperTest, DeviceThatMayHaveAConnectionIsNotDetached) {
  give(Listed{{{3, kDisk, kBytes}}});
  for (int turn = 0; turn < 1000; ++turn) {
    give(NotOpened{open_.serial, "hangs"});
    now_ = keeper_.next_tick();
    EXPECT_TRUE(only<Detach>(give(Tick{})).empty());
  }
  EXPECT_GT(now_, seconds(1000 + kDisk.wait));
}

TEST_F(KeeperTest, DetachedOrReattachedDeviceIsForgotten) {
  connected();
  give(Lost{3});
  const Serial old = open_.serial;
  const Attachment other{1, 5, "/run/nbd-b.sock", "disk1"};
  const auto opens = only<Open>(give(Listed{{{3, other, 512}, {4, kDisk, kBytes}}}));
  ASSERT_EQ(opens.size(), 2U);
  EXPECT_EQ(opens[0].name, "disk1");
  const Actions late = give(Opened{old, kExport});
  EXPECT_EQ(only<Close>(late).size(), 1U);
  EXPECT_TRUE(only<HandOver>(late).empty());
  give(Listed{});
  EXPECT_TRUE(keeper_.devices().empty());
  EXPECT_EQ(only<Close>(give(Opened{opens[1].serial, kExport})).size(), 1U);
}

TEST_F(KeeperTest, LossOfAnUnknownDeviceListsTheDevices) {
  give(Tick{});
  EXPECT_TRUE(give(Tick{}).empty());
  EXPECT_EQ(only<List>(give(Lost{7})).size(), 1U);
}

TEST_F(KeeperTest, MissedEventsCauseACheckOfEveryDevice) {
  connected();
  EXPECT_EQ(only<Open>(give(NewsMissed{})).size(), 1U);
  EXPECT_EQ(state(), Keeper::State::unknown);
}

TEST_F(KeeperTest, HandOverRefusedByTheKernelIsRetried) {
  connected();
  give(Lost{3});
  give(Opened{open_.serial, kExport});
  EXPECT_EQ(only<List>(give(HandedOver{3, EINVAL})).size(), 1U) << "the device may be detached";
  EXPECT_EQ(state(), Keeper::State::lost);
  now_ = keeper_.next_tick();
  EXPECT_EQ(only<Open>(give(Tick{})).size(), 1U);
}

TEST_F(KeeperTest, DeviceIsResizedWithItsExport) {
  connected();
  now_ += seconds(60);
  const auto looks = only<QuerySize>(give(Tick{}));
  ASSERT_EQ(looks.size(), 1U);
  EXPECT_EQ(looks[0].socket, kDisk.socket);
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, kBytes})).empty());
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, kBytes + 100})).empty()) << "no whole sector more";
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, 0})).empty()) << "size unknown";
  const auto sizes = only<Resize>(give(SizeReported{3, 2 * kBytes}));
  ASSERT_EQ(sizes.size(), 1U);
  EXPECT_EQ(sizes[0].bytes, 2 * kBytes);
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, 2 * kBytes})).empty()) << "a resize is in progress";
  now_ += seconds(60);
  EXPECT_TRUE(only<QuerySize>(give(Tick{})).empty()) << "a resize is in progress";
  EXPECT_EQ(only<List>(give(Resized{3, 0})).size(), 1U);
  give(Listed{{{3, kDisk, 2 * kBytes}}});
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, 2 * kBytes})).empty());
}

TEST_F(KeeperTest, ResizeUsesWholeSectorsAndShrinkingIsAWarning) {
  connected();
  now_ += seconds(60);
  Actions all = give(SizeReported{3, kBytes + 512 + 100});
  ASSERT_EQ(only<Resize>(all).size(), 1U);
  EXPECT_EQ(only<Resize>(all)[0].bytes, kBytes + 512);
  EXPECT_EQ(only<Resize>(all)[0].what, kDisk);
  EXPECT_EQ(only<Tell>(all).at(0).grade, Tell::Grade::info);
  give(Resized{3, 0});
  all = give(SizeReported{3, kBytes - 512});
  ASSERT_EQ(only<Resize>(all).size(), 1U);
  EXPECT_EQ(only<Tell>(all).at(0).grade, Tell::Grade::warning);
}

TEST_F(KeeperTest, ResizeRefusedByTheKernelIsLoggedAndRetried) {
  connected();
  now_ += seconds(60);
  ASSERT_EQ(only<Resize>(give(SizeReported{3, 2 * kBytes})).size(), 1U);
  EXPECT_EQ(only<List>(give(Resized{3, EINVAL})).size(), 1U);
  EXPECT_TRUE(told("the kernel refuses the new size: Invalid argument"));
  now_ += seconds(5);
  EXPECT_EQ(only<QuerySize>(give(Tick{})).size(), 1U);
  EXPECT_EQ(only<Resize>(give(SizeReported{3, 2 * kBytes})).size(), 1U);
}

TEST_F(KeeperTest, LossAfterFailedAttemptsIsRetriedAtOnce) {
  give(Listed{{{3, kDisk, kBytes}}});
  give(NotOpened{open_.serial, "hangs"});
  EXPECT_EQ(keeper_.next_tick(), now_ + milliseconds(50));
  for (int turn = 0; turn < 20; ++turn) fail_next("hangs");
  EXPECT_TRUE(told("hangs; retrying"));
  told_.clear();
  EXPECT_EQ(only<Open>(give(Lost{3})).size(), 1U) << "without waiting for the pause";
  give(NotOpened{open_.serial, "hangs"});
  EXPECT_EQ(keeper_.next_tick(), now_ + milliseconds(50));
  EXPECT_FALSE(told("hangs"));
  now_ += seconds(2);
  fail_next("hangs");
  EXPECT_TRUE(told("hangs; retrying")) << "logged again after a new loss";
}

TEST_F(KeeperTest, EachReasonIsLogged) {
  connected();
  give(Lost{3});
  now_ += seconds(2);
  fail_next("one");
  EXPECT_TRUE(told("one; retrying"));
  fail_next("another");
  EXPECT_TRUE(told("another; retrying"));
  now_ += seconds(2);
  give(Tick{});
  give(Opened{open_.serial, kExport});
  give(HandedOver{3, 0});
  told_.clear();
  give(NewsMissed{});
  give(NotOpened{open_.serial, "another"});
  now_ += seconds(2);
  fail_next("another");
  EXPECT_TRUE(told("another; retrying")) << "logged again after a connection";
}

TEST_F(KeeperTest, ResizeWaitsUntilTheNewConnectionHasSettled) {
  connected();
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, 2 * kBytes})).empty());
  now_ += seconds(60);
  give(Lost{3});
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, 2 * kBytes})).empty());
  now_ += seconds(60);
  give(Opened{open_.serial, {2 * kBytes, 0x16d, 512}});
  give(HandedOver{3, 0});
  EXPECT_TRUE(only<Resize>(give(SizeReported{3, 2 * kBytes})).empty());
  now_ += seconds(30);
  EXPECT_EQ(only<Resize>(give(SizeReported{3, 2 * kBytes})).size(), 1U);
}

}  // namespace
}  // namespace rtrs::kernel_nbd::keeper_test
