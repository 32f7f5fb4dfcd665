// Tests single decisions: which processes are started and ended, and which devices are mapped.
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/lib/control/mapping/supervisor_play.hpp"

namespace rtrs::mapping::supervisor_test {
namespace {

TEST(Supervisor, RestoredSessionIsStartedAndItsDevicesAreMapped) {
  Play play(some_wishes({"a", "b"}));
  EXPECT_EQ(play.on(Tick{}), Words{"start s"});
  EXPECT_EQ(play.up(), (Words{"map s/a rw", "map s/b rw"}));
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}), Words{});
  EXPECT_EQ(play.on(Mapped{"s", "b", 0}), Words{});
  EXPECT_EQ(play.left(), kNever);
  EXPECT_EQ(play.wishes(), some_wishes({"a", "b"}));
}

TEST(Supervisor, MapIsDoneAfterTheDeviceIsMappedAndSaved) {
  Play play;
  EXPECT_EQ(play.map("a", 7), Words{"start s"});
  EXPECT_TRUE(play.wishes().empty()) << "only mapped devices are saved";
  EXPECT_EQ(play.up(), Words{"map s/a rw"});
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}), (Words{"save", "done 7 0"}));
  EXPECT_EQ(play.wishes(), some_wishes());
  EXPECT_EQ(play.map("a", 8), Words{"done 8 17"}) << "EEXIST";
}

TEST(Supervisor, DevicesOfASessionShareTheProcess) {
  Play play;
  play.map("a", 1);
  EXPECT_EQ(play.map("b", 2), Words{}) << "it is already starting";
  EXPECT_EQ(play.up(), (Words{"map s/a rw", "map s/b rw"}));
  play.on(Mapped{"s", "a", 0});
  EXPECT_EQ(play.on(Mapped{"s", "b", 0}), (Words{"save", "done 2 0"}));
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", false, 3}), (Words{"save", "unmap s/a"}));
  EXPECT_EQ(play.on(Unmapped{"s", "a", 0}), Words{"done 3 0"}) << "the other one still needs it";
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "b", true, 4}), (Words{"save", "unmap s/b force"}));
  EXPECT_EQ(play.on(Unmapped{"s", "b", 0}), (Words{"done 4 0", "end s"}));
  EXPECT_EQ(play.on(Ended{"s"}), Words{});
  EXPECT_TRUE(play.machine().sessions().empty());
}

TEST(Supervisor, RefusedDeviceOfAMapRequestIsForgotten) {
  Play play;
  play.map("a", 1);
  play.up();
  EXPECT_EQ(play.on(Mapped{"s", "a", ENOENT}), (Words{"done 1 2", "end s"}));
  EXPECT_TRUE(play.wishes().empty());
}

// The first request has failed. The second request has other paths, as if the user had corrected a mistake.
TEST(Supervisor, NameOfAFailedSessionIsReusable) {
  for (const bool hangs : {false, true}) {
    Play play;
    play.map("a", 1);
    if (hangs) {
      EXPECT_EQ(play.tick(), (Words{"done 1 110", "end s"}));
    } else {
      play.up();
      EXPECT_EQ(play.on(Mapped{"s", "a", ENOENT}), (Words{"done 1 2", "end s"}));
    }
    EXPECT_FALSE(play.machine().sessions().at("s").in_use());
    SessionWish other;
    other.paths = {"10.0.0.3"};
    EXPECT_EQ(play.on(DeviceMapRequested{"s", other, "a", {}, 2}), Words{}) << "its process has to end first";
    EXPECT_TRUE(play.machine().sessions().at("s").in_use());
    EXPECT_EQ(play.on(Ended{"s"}), Words{"start s"});
    EXPECT_EQ(play.machine().sessions().at("s").wish, other);
    EXPECT_EQ(play.up(), Words{"map s/a rw"});
    EXPECT_EQ(play.on(Mapped{"s", "a", 0}), (Words{"save", "done 2 0"}));
  }
}

// The process that was found running may have mapped devices that are not in the desired state.
TEST(Supervisor, ProcessOfAnEarlierWishIsNotReused) {
  Play play;
  EXPECT_EQ(play.on(Found{"s"}), Words{"end s"});
  EXPECT_EQ(play.map("a", 1), Words{});
  EXPECT_EQ(play.on(Ended{"s"}), Words{"start s"});
  EXPECT_EQ(play.machine().sessions().at("s").wish.paths, Words{"10.0.0.2"}) << "not those found";
}

TEST(Supervisor, RefusedDeviceOfTheWishesIsRetried) {
  Play play(some_wishes());
  play.on(Tick{});
  play.up();
  for (const unsigned pause : {200U, 400U, 800U, 1600U}) {
    EXPECT_EQ(play.on(Mapped{"s", "a", ENOENT}), Words{});
    EXPECT_EQ(play.left(), milliseconds(pause));
    EXPECT_EQ(play.machine().sessions().at("s").devices.at("a").error, ENOENT);
    EXPECT_EQ(play.tick(), Words{"map s/a rw"});
  }
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}), Words{});
  play.on(Answers{"s", {}});
  EXPECT_EQ(play.on(Mapped{"s", "a", ENOENT}), Words{});
  EXPECT_EQ(play.left(), milliseconds(200)) << "it was mapped in between";
  EXPECT_EQ(play.on(RetryNow{"s"}), Words{"map s/a rw"});
}

TEST(Supervisor, EndedProcessIsRestartedAfterAGrowingPause) {
  Play play(some_wishes());
  play.on(Tick{});
  Nanos pause = milliseconds(200);
  for (unsigned i = 0; i < 20; ++i) {
    EXPECT_EQ(play.on(Ended{"s"}), Words{});
    EXPECT_EQ(play.left(), pause);
    EXPECT_EQ(play.tick(), Words{"start s"});
    play.up();
    play.on(Mapped{"s", "a", 0});
    pause = std::min(2 * pause, seconds(30));
  }
  play.after(seconds(59));
  play.on(Ended{"s"});
  EXPECT_EQ(play.left(), seconds(30));
  play.tick();
  EXPECT_EQ(play.up(), Words{"map s/a rw"}) << "a new process has nothing mapped";
  play.after(seconds(60));
  play.on(Ended{"s"});
  EXPECT_EQ(play.left(), milliseconds(200)) << "it ran for `calm`";
}

TEST(Supervisor, MapRequestSkipsThePause) {
  Play play(some_wishes());
  play.on(Tick{});
  for (unsigned i = 0; i < 9; ++i) {
    play.on(Ended{"s"});
    play.tick();
  }
  play.on(Ended{"s"});
  EXPECT_EQ(play.left(), seconds(30));
  EXPECT_EQ(play.map("b", 5), Words{"start s"});
  EXPECT_EQ(play.on(Ended{"s"}), Words{"done 5 107"}) << "ENOTCONN: the process could not do it";
  EXPECT_EQ(play.left(), seconds(30));
  EXPECT_EQ(play.wishes(), some_wishes());
}

TEST(Supervisor, RetryNowSkipsThePause) {
  Play play(some_wishes());
  play.on(Tick{});
  play.on(Ended{"s"});
  EXPECT_EQ(play.machine().sessions().at("s").ended, 1U);
  EXPECT_EQ(play.on(RetryNow{"t"}), Words{}) << "unknown session";
  EXPECT_EQ(play.on(RetryNow{"s"}), Words{"start s"});
  play.on(Ended{"s"});
  EXPECT_EQ(play.left(), milliseconds(400)) << "the pause keeps growing";
}

TEST(Supervisor, UnmapOfADeviceThatIsAlreadyUnmappedSucceeds) {
  for (const int error : {EALREADY, ENOENT}) {
    Play play(some_wishes());
    play.on(Tick{});
    play.up();
    play.on(Mapped{"s", "a", 0});
    play.on(DeviceUnmapRequested{"s", "a", false, 1});
    EXPECT_EQ(play.map("a", 2), Words{"done 2 16"}) << "EBUSY: it is being unmapped";
    EXPECT_EQ(play.on(Unmapped{"s", "a", error}), (Words{"done 1 0", "end s"}));
  }
}

TEST(Supervisor, UnexpectedAnswerChangesNothing) {
  Play play(some_wishes());
  play.on(Tick{});
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}), Words{}) << "no Map is pending";
  EXPECT_EQ(play.on(Unmapped{"s", "a", 0}), Words{});
  EXPECT_EQ(play.on(Ended{"t"}), Words{});
  EXPECT_EQ(play.on(Answers{"t", {"a"}}), Words{});
  EXPECT_EQ(play.up(), Words{"map s/a rw"});
}

TEST(Supervisor, DeviceInUseStaysMappedWithoutForce) {
  Play play(some_wishes());
  play.on(Tick{});
  play.up();
  play.on(Mapped{"s", "a", 0});
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", false, 1}), (Words{"save", "unmap s/a"}));
  EXPECT_TRUE(play.wishes().empty());
  EXPECT_TRUE(play.machine().sessions().at("s").in_use());
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", true, 2}), Words{"done 2 114"})
      << "EALREADY: the first unmap is pending";
  EXPECT_EQ(play.on(Unmapped{"s", "a", EBUSY}), (Words{"save", "done 1 16"}));
  EXPECT_EQ(play.wishes(), some_wishes());
  EXPECT_EQ(play.left(), kNever) << "nothing left to do";
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "b", false, 3}), Words{"done 3 2"});
}

TEST(Supervisor, UnmapWithoutAProcessIsDoneAtOnce) {
  Play play(some_wishes());
  play.on(Tick{});
  play.on(Ended{"s"});
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", false, 1}), (Words{"save", "done 1 0"}));
  EXPECT_TRUE(play.machine().sessions().empty());
}

TEST(Supervisor, MapDuringTheEndOfAProcessWaitsForTheNextOne) {
  Play play(some_wishes());
  play.on(Tick{});
  play.up();
  play.on(Mapped{"s", "a", 0});
  play.on(DeviceUnmapRequested{"s", "a", false, 1});
  EXPECT_EQ(play.on(Unmapped{"s", "a", 0}), (Words{"done 1 0", "end s"}));
  EXPECT_EQ(play.map("a", 2), Words{}) << "never two processes";
  EXPECT_EQ(play.on(Ended{"s"}), Words{"start s"});
  EXPECT_EQ(play.up(), Words{"map s/a rw"});
}

TEST(Supervisor, ProcessThatDoesNotEndIsKilled) {
  Play play;
  play.map("a", 1);
  EXPECT_EQ(play.left(), seconds(30));
  EXPECT_EQ(play.tick(), (Words{"done 1 110", "end s"})) << "ETIMEDOUT: it never answered";
  EXPECT_EQ(play.left(), seconds(60));
  EXPECT_EQ(play.tick(), Words{"kill s"});
  EXPECT_EQ(play.tick(), Words{"kill s"});
  EXPECT_EQ(play.on(Ended{"s"}), Words{});
  EXPECT_TRUE(play.machine().sessions().empty());
}

TEST(Supervisor, HungProcessIsRestartedAfterAPause) {
  Play play(some_wishes());
  play.on(Tick{});
  EXPECT_EQ(play.tick(), Words{"end s"});
  EXPECT_EQ(play.tick(), Words{"kill s"});
  EXPECT_EQ(play.on(Ended{"s"}), Words{});
  EXPECT_EQ(play.left(), milliseconds(200));
  EXPECT_EQ(play.tick(), Words{"start s"});
}

TEST(Supervisor, RunningProcessIsTakenOver) {
  Play play(some_wishes({"a", "b"}));
  EXPECT_EQ(play.on(Found{"s"}), Words{}) << "not started";
  EXPECT_EQ(play.up({"a", "x"}), (Words{"map s/b rw", "unmap s/x"}));
  play.on(Mapped{"s", "b", 0});
  EXPECT_EQ(play.on(Unmapped{"s", "x", EBUSY}), Words{});
  EXPECT_EQ(play.tick(), Words{"unmap s/x"}) << "retried without force";
  EXPECT_EQ(play.on(Unmapped{"s", "x", 0}), Words{});
  EXPECT_EQ(play.left(), kNever);
}

TEST(Supervisor, MapRequestOfAnAlreadyMappedDeviceIsSentToTheProcess) {
  Play play(some_wishes({"b"}));
  play.on(Found{"s"});
  play.map("a", 1);
  EXPECT_EQ(play.up({"a", "b"}), Words{"map s/a rw"});
  EXPECT_EQ(play.on(Answers{"s", {"a", "b"}}), Words{});
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}), (Words{"save", "done 1 0"}));
  EXPECT_EQ(play.wishes(), some_wishes({"a", "b"}));
}

TEST(Supervisor, UnmapWaitsForTheAnswerOfAFoundProcess) {
  Play play(some_wishes());
  play.on(Found{"s"});
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", true, 1}), Words{"save"});
  EXPECT_EQ(play.up({"a"}), Words{"unmap s/a force"});
}

TEST(Supervisor, UnwishedProcessIsEnded) {
  Play play;
  EXPECT_EQ(play.on(Found{"s"}), Words{"end s"});
}

// Returns a Play in which the desired state was lost and a process was found.
Play lost() {
  Supervisor::Options options;
  options.ends_unwanted_processes = false;
  Play play({}, options);
  EXPECT_EQ(play.on(Found{"s", some_wishes({"ignored"}).at("s")}), Words{});
  return play;
}

TEST(Supervisor, LostWishesAreRestoredFromTheFoundProcess) {
  Play play = lost();
  EXPECT_TRUE(play.machine().sessions().at("s").in_use());
  EXPECT_EQ(play.on(Answers{"s", {"x", "y"}, {{"y", {wire::rnbd::AccessMode::read_only}}}}), Words{"save"});
  Wishes both = some_wishes({"x", "y"});
  both["s"].devices["y"].mode = wire::rnbd::AccessMode::read_only;
  EXPECT_EQ(play.wishes(), both);
  EXPECT_EQ(play.map("a", 1), Words{"map s/a rw"}) << "in the running process";
  play.on(Mapped{"s", "a", 0});
  play.on(DeviceUnmapRequested{"s", "a", false, 2});
  EXPECT_EQ(play.on(Unmapped{"s", "a", 0}), Words{"done 2 0"}) << "the others still need it";
  EXPECT_EQ(play.on(Ended{"s"}), Words{});
  EXPECT_EQ(play.tick(), Words{"start s"});
  EXPECT_EQ(play.up(), (Words{"map s/x rw", "map s/y ro"}));
}

TEST(Supervisor, MapBeforeAdoptionSucceedsOnlyInTheSameMode) {
  for (const auto mode : {wire::rnbd::AccessMode::read_write, wire::rnbd::AccessMode::read_only}) {
    Play play = lost();
    EXPECT_EQ(play.on(DeviceMapRequested{"s", {}, "x", {}, 1}), Words{});
    const bool same = mode == wire::rnbd::AccessMode::read_write;
    EXPECT_EQ(play.on(Answers{"s", {"x"}, {{"x", {mode}}}}),
              (Words{"save", same ? "done 1 0" : "done 1 17"}));
    EXPECT_EQ(play.wishes().at("s").devices.at("x").mode, mode);
    EXPECT_EQ(play.wishes().at("s").paths, Words{"10.0.0.2"}) << "the paths of the process";
  }
}

TEST(Supervisor, HungProcessIsNotEndedIfTheWishesWereLost) {
  Play play = lost();
  EXPECT_EQ(play.left(), kNever);
  play.map("a", 1);
  EXPECT_EQ(play.tick(), Words{"done 1 110"}) << "ETIMEDOUT";
  EXPECT_EQ(play.left(), kNever);
  EXPECT_EQ(play.map("b", 2), Words{"done 2 110"});
  EXPECT_EQ(play.up({"x", "a"}), Words{"save"});
  EXPECT_EQ(play.wishes(), some_wishes({"a", "x"})) << "mapped, although its request timed out";
}

TEST(Supervisor, FoundProcessWithoutDevicesIsEnded) {
  Play play = lost();
  EXPECT_EQ(play.up({"a\nb"}), Words{"end s"}) << "an invalid device name";
  Play another = lost();
  EXPECT_EQ(another.on(Ended{"s"}), Words{});
  EXPECT_TRUE(another.machine().sessions().empty());
}

TEST(Supervisor, LostDeviceIsMappedAgain) {
  Play play(some_wishes());
  play.on(Tick{});
  play.up();
  play.on(Mapped{"s", "a", 0});
  EXPECT_EQ(play.on(Answers{"s", {"a", "by hand"}}), Words{}) << "devices mapped by hand are left alone";
  EXPECT_EQ(play.on(Answers{"s", {}}), Words{"map s/a rw"});
}

TEST(Supervisor, RequestsPerProcessAreLimited) {
  Words devices;
  for (char c = 'a'; c < 'a' + 20; ++c) devices.emplace_back(1, c);
  Play play(some_wishes(devices));
  play.on(Tick{});
  EXPECT_EQ(play.up().size(), Supervisor::kMaxAsked);
  EXPECT_EQ(play.left(), kNever) << "waits for the next answer";
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}).size(), 1U);
}

TEST(Supervisor, ExcessDevicesAndSessionsAreRefused) {
  Play play;
  for (std::size_t i = 0; i < kMaxDevices; ++i) play.map("d" + std::to_string(i), i + 1);
  EXPECT_EQ(play.map("one more", 1000), Words{"done 1000 28"}) << "ENOSPC";
  for (std::size_t i = 1; i < kMostSessions; ++i) play.map("d", 2000 + i, "s" + std::to_string(i));
  EXPECT_EQ(play.machine().sessions().size(), kMostSessions);
  EXPECT_EQ(play.map("d", 3000, "one more"), Words{"done 3000 28"});
}

}  // namespace
}  // namespace rtrs::mapping::supervisor_test
