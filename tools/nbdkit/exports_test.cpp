#include "tools/nbdkit/exports.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace rtrs::nbdkit::exports_test {
namespace {

using wire::rnbd::AccessMode;
using Step = Exports::Step;
using State = Export::State;

constexpr rnbd::DeviceHandle kHandle = 5;

rnbd::DeviceChanged changed(rnbd::DeviceState state, std::uint16_t error = 0, std::uint64_t sectors = 8) {
  rnbd::DeviceChanged change{kHandle, state, error, {}};
  change.geometry.nsectors = sectors;
  return change;
}

class ExportsTest : public ::testing::Test {
 protected:
  void open(Export& one, Exports::Wish& wish) {
    ASSERT_EQ(exports.next(one, wish), Step::map);
    exports.began(one, kHandle, Exports::mode_for(one, wish));
    ASSERT_EQ(exports.next(one, wish), Step::wait);
    exports.on_changed(one, changed(rnbd::DeviceState::open));
    ASSERT_EQ(exports.next(one, wish), Step::serve);
  }
  Exports exports;
  Exports::Wish writes{AccessMode::read_write, false, 0};
  Exports::Wish either{AccessMode::read_write, true, 0};
  Exports::Wish reads{AccessMode::read_only, false, 0};
};

TEST_F(ExportsTest, RefusalIsReportedAgainAfterTheDeviceWasOpen) {
  Export& one = exports.join("a");
  open(one, writes);
  exports.on_changed(one, changed(rnbd::DeviceState::closed, ENOENT));
  EXPECT_EQ(one.refusal, ENOENT);
  exports.on_changed(one, changed(rnbd::DeviceState::closed));
  EXPECT_EQ(one.refusal, ENOENT) << "a lost path is not a response of the server";
  exports.on_changed(one, changed(rnbd::DeviceState::open));
  EXPECT_EQ(one.refusal, 0);
}

TEST_F(ExportsTest, FirstConnectionOpensTheDeviceAndOthersShareIt) {
  Export& one = exports.join("a");
  open(one, writes);
  Export& same = exports.join("a");
  EXPECT_EQ(&same, &one);
  Exports::Wish second;
  EXPECT_EQ(exports.next(same, second), Step::serve);
  EXPECT_EQ(exports.find(kHandle), &one);
}

TEST_F(ExportsTest, UnusedDeviceIsClosedAfterTheGrace) {
  Export& one = exports.join("a");
  open(one, writes);
  exports.join("a");
  exports.leave(one, seconds(1));
  EXPECT_EQ(exports.unused(kNever), nullptr) << "a connection uses the device";
  exports.leave(one, seconds(2));
  EXPECT_EQ(exports.unused(seconds(2) + Exports::kGrace - 1), nullptr);
  exports.join("a");
  EXPECT_EQ(exports.unused(kNever), nullptr) << "the next connection came within the grace";
  exports.leave(one, seconds(9));
  ASSERT_EQ(exports.unused(seconds(9) + Exports::kGrace), &one);
  exports.ends(one);
  EXPECT_EQ(exports.unused(kNever), nullptr);
  Export& again = exports.join("a");
  EXPECT_EQ(exports.next(again, writes), Step::wait) << "the device is being closed";
  exports.on_changed(one, changed(rnbd::DeviceState::unmapped));
  EXPECT_FALSE(exports.drop_if_unused(one)) << "a connection waits for the device";
  open(again, writes);
}

TEST_F(ExportsTest, KeptDeviceStaysOpenAndListed) {
  Export& one = exports.keep("a");
  EXPECT_EQ(&exports.join("a"), &one);
  open(one, writes);
  exports.leave(one, 0);
  EXPECT_EQ(exports.unused(kNever), nullptr);
  exports.on_changed(one, changed(rnbd::DeviceState::unmapped));
  EXPECT_FALSE(exports.drop_if_unused(one));
  EXPECT_EQ(exports.all().size(), 1U);
}

TEST_F(ExportsTest, RejectionFailsWaitingConnectionsAndTheNextOneRetries) {
  Export& one = exports.join("a");
  exports.join("a");
  Exports::Wish other = writes;
  EXPECT_EQ(exports.next(one, writes), Step::map);
  exports.began(one, kHandle, writes.mode);
  EXPECT_EQ(exports.next(one, writes), Step::wait);
  EXPECT_EQ(exports.next(one, other), Step::wait);
  exports.on_changed(one, changed(rnbd::DeviceState::unmapped, ENOENT));
  EXPECT_EQ(exports.next(one, writes), Step::fail);
  EXPECT_EQ(exports.next(one, other), Step::fail);
  EXPECT_EQ(one.error, ENOENT);
  Exports::Wish later;
  exports.join("a");
  EXPECT_EQ(exports.next(one, later), Step::map);
  for (int i = 0; i < 3; ++i) exports.leave(one, 0);
  EXPECT_TRUE(exports.all().empty()) << "unknown names are not kept in the list";
}

TEST_F(ExportsTest, WriteProtectedDeviceIsOpenedReadOnlyIfAllowed) {
  for (const int error : {EROFS, EACCES}) {
    Exports some;
    Export& one = some.join("a");
    Exports::Wish wish = either;
    EXPECT_EQ(Exports::mode_for(one, wish), AccessMode::read_write);
    some.began(one, kHandle, AccessMode::read_write);
    EXPECT_EQ(some.next(one, wish), Step::wait);
    some.on_changed(one, changed(rnbd::DeviceState::unmapped, static_cast<std::uint16_t>(error)));
    Exports::Wish strict = writes;
    strict.opening = wish.opening;
    EXPECT_EQ(some.next(one, strict), Step::fail);
    EXPECT_EQ(some.next(one, wish), Step::map);
    EXPECT_EQ(Exports::mode_for(one, wish), AccessMode::read_only);
    some.began(one, kHandle, AccessMode::read_only);
    some.on_changed(one, changed(rnbd::DeviceState::open));
    EXPECT_EQ(some.next(one, wish), Step::serve) << "not closed again to try writing";
  }
}

TEST_F(ExportsTest, OtherWriterDoesNotMakeTheOpenReadOnly) {
  Export& one = exports.join("a");
  exports.began(one, kHandle, AccessMode::read_write);
  EXPECT_EQ(exports.next(one, either), Step::wait);
  exports.on_changed(one, changed(rnbd::DeviceState::unmapped, EPERM));
  EXPECT_EQ(exports.next(one, either), Step::fail);
}

TEST_F(ExportsTest, DeviceOfReadersIsReopenedForAWriter) {
  Export& one = exports.join("a");
  open(one, reads);
  exports.join("a");
  EXPECT_EQ(exports.next(one, writes), Step::serve) << "read-only, because a reader uses it";
  exports.leave(one, 0);
  EXPECT_EQ(exports.next(one, writes), Step::unmap);
  exports.ends(one);
  EXPECT_EQ(exports.next(one, writes), Step::wait);
  exports.on_changed(one, changed(rnbd::DeviceState::unmapped));
  open(one, writes);
  EXPECT_EQ(one.mode, AccessMode::read_write);
}

TEST_F(ExportsTest, NewConnectionsSeeTheNewSize) {
  Export& one = exports.join("a");
  open(one, writes);
  exports.on_changed(one, changed(rnbd::DeviceState::closed));
  EXPECT_EQ(exports.next(one, writes), Step::serve) << "requests wait, but connections do not";
  exports.on_changed(one, changed(rnbd::DeviceState::open, 0, 16));
  EXPECT_EQ(one.geometry.nsectors, 16U);
}

TEST_F(ExportsTest, OpenWithoutAWaitingConnectionIsUnused) {
  Export& one = exports.join("a");
  exports.began(one, kHandle, AccessMode::read_write);
  exports.leave(one, seconds(1));
  EXPECT_EQ(exports.unused(seconds(1)), &one);
}

}  // namespace
}  // namespace rtrs::nbdkit::exports_test
