// Tests that a change is undone before its request gets its Done, if the state file cannot be written.
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/lib/control/mapping/supervisor_play.hpp"

namespace rtrs::mapping::supervisor_save_test {
namespace {

// Returns a Play with the session "s" and the device "a", mapped and saved.
Play with_a() {
  Play play(some_wishes());
  play.on(Tick{});
  play.up();
  play.on(Mapped{"s", "a", 0});
  return play;
}

TEST(SupervisorSave, UnsavedMapIsUndoneBeforeItsDone) {
  Play play = with_a();
  play.map("b", 1);
  play.disk_error = ENOSPC;
  EXPECT_EQ(play.on(Mapped{"s", "b", 0}), (Words{"save", "unmap s/b force"}));
  EXPECT_EQ(play.wishes(), some_wishes());
  EXPECT_EQ(play.map("b", 2), Words{"done 2 16"}) << "EBUSY: it is being unmapped";
  EXPECT_EQ(play.on(Unmapped{"s", "b", 0}), Words{"done 1 28 unsaved"});
  EXPECT_EQ(play.machine().sessions().at("s").devices.size(), 1U);
}

TEST(SupervisorSave, UnsavedMapOfANewSessionLeavesNothing) {
  Play play;
  play.map("a", 1);
  play.up();
  play.disk_error = EIO;
  EXPECT_EQ(play.on(Mapped{"s", "a", 0}), (Words{"save", "unmap s/a force"}));
  EXPECT_EQ(play.on(Unmapped{"s", "a", EIO}), Words{"done 1 5 unsaved"}) << "even if the unmap fails";
  EXPECT_TRUE(play.wishes().empty());
  EXPECT_EQ(play.on(Ended{"s"}), Words{});
  EXPECT_TRUE(play.machine().sessions().empty());
}

TEST(SupervisorSave, UnsavedUnmapChangesNothing) {
  Play play = with_a();
  play.disk_error = EROFS;
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", true, 1}), (Words{"save", "done 1 30 unsaved"}));
  EXPECT_EQ(play.wishes(), some_wishes());
  EXPECT_TRUE(play.machine().sessions().at("s").devices.at("a").mapped);
  play.disk_error = 0;
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", true, 2}), (Words{"save", "unmap s/a force"}));
}

TEST(SupervisorSave, FailedSaveIsRetriedUntilItSucceeds) {
  Play play = with_a();
  play.on(DeviceUnmapRequested{"s", "a", false, 1});
  play.disk_error = ENOSPC;
  EXPECT_EQ(play.on(Unmapped{"s", "a", EBUSY}), (Words{"save", "done 1 16"}));
  EXPECT_EQ(play.wishes(), some_wishes()) << "the device must be restored in the file";
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(play.left(), seconds(5));
    EXPECT_EQ(play.tick(), Words{"save"});
  }
  play.disk_error = 0;
  EXPECT_EQ(play.tick(), Words{"save"});
  EXPECT_EQ(play.left(), kNever);
}

TEST(SupervisorSave, AdoptedDeviceStaysMappedIfSavingFails) {
  Supervisor::Options options;
  options.ends_unwanted_processes = false;
  Play play({}, options);
  play.on(Found{"s", some_wishes().at("s")});
  play.map("a", 1);
  play.disk_error = ENOSPC;
  EXPECT_EQ(play.up({"a"}), (Words{"save", "done 1 28 unsaved"}));
  EXPECT_EQ(play.wishes(), some_wishes());
  play.disk_error = 0;
  EXPECT_EQ(play.tick(), Words{"save"});
}

TEST(SupervisorSilence, RequestToASilentProcessTimesOut) {
  Play play = with_a();
  play.map("b", 1);
  play.on(DeviceUnmapRequested{"s", "a", false, 2});
  play.after(seconds(10));
  play.up({"a"});
  EXPECT_EQ(play.left(), seconds(30)) << "its answer restarted the time limit";
  EXPECT_EQ(play.tick(), (Words{"done 2 110", "cancel", "done 1 110"})) << "ETIMEDOUT";
  EXPECT_EQ(play.left(), kNever);
  EXPECT_EQ(play.on(Mapped{"s", "b", 0}), Words{"unmap s/b"}) << "its request has failed already";
  EXPECT_EQ(play.on(Unmapped{"s", "a", 0}), Words{}) << "its request has completed already";
}

TEST(SupervisorSilence, EndOfTheProcessCompletesPendingRequests) {
  Play play = with_a();
  play.map("b", 1);
  EXPECT_EQ(play.on(DeviceUnmapRequested{"s", "a", false, 2}), (Words{"save", "unmap s/a"}));
  EXPECT_EQ(play.on(Ended{"s"}), (Words{"done 1 107", "done 2 0"}));
  EXPECT_EQ(play.on(Mapped{"s", "b", ENOTCONN}), Words{}) << "no second Done";
  EXPECT_TRUE(play.machine().sessions().empty());
}

class SupervisorPaths : public ::testing::Test {
 protected:
  Words add(const std::string& path, Ticket ticket) {
    return play_.on(PathChangeRequested{"s", path, true, false, ticket});
  }
  Words remove(const std::string& path, Ticket ticket, bool force = false) {
    return play_.on(PathChangeRequested{"s", path, false, force, ticket});
  }
  Words paths() const { return play_.machine().sessions().at("s").wish.paths; }
  void expect_saved(const Words& paths) const { EXPECT_EQ(play_.wishes().at("s").paths, paths); }

  Play play_ = with_a();
};

TEST_F(SupervisorPaths, PathIsAddedInTheProcessAndThenSaved) {
  EXPECT_EQ(add("10.0.0.3", 1), Words{"add s/10.0.0.3"});
  expect_saved({"10.0.0.2"});
  EXPECT_EQ(add("10.0.0.4", 2), Words{"done 2 114"}) << "EALREADY";
  EXPECT_EQ(play_.on(PathChanged{"s", "1", 0}), (Words{"save", "done 1 0"}));
  expect_saved({"10.0.0.2", "10.0.0.3"});
  EXPECT_EQ(add("ip:10.0.0.3", 3), Words{"done 3 17"}) << "EEXIST";
  EXPECT_EQ(remove("0", 4, true), Words{"remove s/0 force"});
  EXPECT_EQ(play_.on(PathChanged{"s", "10.0.0.2", 0}), (Words{"save", "done 4 0"}));
  expect_saved({"10.0.0.3"});
  EXPECT_EQ(remove("10.0.0.3", 5), Words{"done 5 16"}) << "EBUSY: the last one";
}

TEST_F(SupervisorPaths, RefusedPathIsNotSaved) {
  add("nowhere", 1);
  EXPECT_EQ(play_.on(PathChanged{"s", "", EHOSTUNREACH}), Words{"done 1 113"});
  add("10.0.0.3", 2);
  EXPECT_EQ(play_.on(Ended{"s"}), Words{"done 2 107"});
  EXPECT_EQ(paths(), Words{"10.0.0.2"});
}

TEST_F(SupervisorPaths, UnsavedPathChangeIsUndone) {
  add("10.0.0.3", 1);
  play_.disk_error = ENOSPC;
  EXPECT_EQ(play_.on(PathChanged{"s", "7", 0}), (Words{"save", "remove s/7 force"}));
  EXPECT_EQ(paths(), Words{"10.0.0.2"});
  EXPECT_EQ(play_.on(PathChanged{"s", "", 0}), Words{"done 1 28 unsaved"});
  play_.disk_error = 0;
  add("10.0.0.3", 2);
  play_.on(PathChanged{"s", "1", 0});
  play_.disk_error = EIO;
  EXPECT_EQ(remove("10.0.0.2", 3), Words{"remove s/10.0.0.2"});
  EXPECT_EQ(play_.on(PathChanged{"s", "10.0.0.2", 0}), (Words{"save", "add s/10.0.0.2 force"}));
  EXPECT_EQ(paths(), (Words{"10.0.0.2", "10.0.0.3"}));
  EXPECT_EQ(play_.on(Ended{"s"}), Words{"done 3 5 unsaved"});
}

TEST_F(SupervisorPaths, UnsavedPathChangeOfAnEndingProcessIsNotUndone) {
  add("10.0.0.3", 1);
  play_.on(DeviceUnmapRequested{"s", "a", false, 2});
  play_.on(Unmapped{"s", "a", 0});
  EXPECT_EQ(play_.machine().sessions().at("s").state, Supervisor::State::ending);
  play_.disk_error = ENOSPC;
  EXPECT_EQ(play_.on(PathChanged{"s", "1", 0}), (Words{"save", "done 1 28 unsaved"}));
}

TEST_F(SupervisorPaths, PathChangeWithoutAProcessAppliesToTheNextStart) {
  play_.on(Ended{"s"});
  EXPECT_EQ(add("10.0.0.3", 1), (Words{"save", "done 1 0"}));
  EXPECT_EQ(play_.tick(), Words{"start s"});
  EXPECT_EQ(remove("10.0.0.2", 2), (Words{"save", "done 2 0", "end s"})) << "started with the old paths";
  play_.disk_error = ENOSPC;
  EXPECT_EQ(add("10.0.0.4", 3), (Words{"save", "done 3 28 unsaved"}));
  expect_saved({"10.0.0.3"});
  EXPECT_EQ(remove("10.0.0.9", 4), Words{"done 4 2"}) << "ENOENT";
}

TEST_F(SupervisorPaths, PathChangeIsRefusedUntilAFoundProcessAnswers) {
  Play play(some_wishes());
  play.on(Found{"s"});
  EXPECT_EQ(play.on(PathChangeRequested{"s", "10.0.0.3", true, false, 1}), Words{"done 1 11"}) << "EAGAIN";
  play.up({"a"});
  EXPECT_EQ(play.on(PathChangeRequested{"s", "10.0.0.3", true, false, 2}), Words{"add s/10.0.0.3"});
  EXPECT_EQ(play.on(PathChangeRequested{"t", "10.0.0.3", true, false, 3}), Words{"done 3 2"});
}

TEST_F(SupervisorPaths, PathChangeOfASilentProcessTimesOut) {
  add("10.0.0.3", 1);
  EXPECT_EQ(play_.tick(), Words{"done 1 110"}) << "ETIMEDOUT";
  EXPECT_EQ(play_.on(PathChanged{"s", "1", 0}), Words{"save"}) << "the process has added the path";
  expect_saved({"10.0.0.2", "10.0.0.3"});
}

}  // namespace
}  // namespace rtrs::mapping::supervisor_save_test
