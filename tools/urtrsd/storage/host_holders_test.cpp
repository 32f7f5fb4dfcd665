#include "tools/urtrsd/storage/host_holders.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::host_holders_test {
namespace {

namespace fs = std::filesystem;

// Directory with fake /proc and /sys files of a host that has the disk sda (8:0), its partitions sda1 (8:1)
// and sda2 (8:2), and dm-0 on sda2.
class HostHoldersTest : public testing::Test {
 protected:
  HostHoldersTest() {
    disk("sda", "8:0", "sda");
    disk("sda/sda1", "8:1", "sda1");
    disk("sda/sda2", "8:2", "sda2");
    disk("dm-0", "253:0", "dm-0");
    write("sys/devices/sda/sda1/partition", "1");
    write("sys/devices/sda/sda2/partition", "2");
    write("sys/devices/dm-0/dm/name", "vg-data");
  }
  void write(const std::string& path, const std::string& text) {
    const fs::path whole = root_.path() + "/" + path;
    fs::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  void disk(const std::string& folder, const std::string& number, const std::string& name) {
    write("sys/devices/" + folder + "/dev", number);
    fs::create_directories(root_ / "sys/dev/block");
    fs::create_directories(root_ / "sys/class/block");
    fs::create_directories(root_ / "sys/block");
    fs::create_directories(root_.path() + "/sys/devices/" + folder + "/holders");
    const std::string target = root_.path() + "/sys/devices/" + folder;
    fs::create_directory_symlink(target, root_.path() + "/sys/dev/block/" + number);
    fs::create_directory_symlink(target, root_.path() + "/sys/class/block/" + name);
    if (folder == name) fs::create_directory_symlink(target, root_.path() + "/sys/block/" + name);
  }
  void hold(const std::string& folder, const std::string& by) {
    fs::create_directory_symlink(root_.path() + "/sys/devices/" + by,
                                 root_.path() + "/sys/devices/" + folder + "/holders/" + by);
  }
  std::string of(unsigned major, unsigned minor) const {
    return HostHolders(root_.path()).of_device(major, minor);
  }
  TestDirectory root_;
};

TEST_F(HostHoldersTest, FreeDiskHasNoHolders) {
  EXPECT_EQ(of(8, 0), "");
  EXPECT_EQ(of(9, 9), "") << "a device that sysfs does not have";
}

TEST_F(HostHoldersTest, MountIsReported) {
  write("proc/self/mountinfo",
        "22 1 8:2 / / rw - ext4 /dev/root rw\n"
        "30 22 8:1 / /srv/a\\040b rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n"
        "31 22 0:5");
  EXPECT_EQ(of(8, 1), "mounted at \"/srv/a b\"");
}

TEST_F(HostHoldersTest, UsesOfPartitionsAndTheirDiskAreReported) {
  write("proc/self/mountinfo", "30 22 8:1 / /srv rw - ext4 /dev/sda1 rw");
  hold("sda/sda2", "dm-0");
  EXPECT_EQ(of(8, 0), "sda1 mounted at \"/srv\", sda2 part of dm-0 (vg-data)");
  EXPECT_EQ(of(8, 2), "part of dm-0 (vg-data)") << "the other partition does not matter";
  write("proc/self/mountinfo", "30 22 8:0 / /whole rw - ext4 /dev/sda rw");
  EXPECT_EQ(of(8, 1), "sda mounted at \"/whole\"");
}

// For btrfs, mountinfo shows an anonymous device number, so the mount must be found by its source.
TEST_F(HostHoldersTest, MountIsFoundByItsSource) {
  write("proc/self/mountinfo", "30 22 0:42 /sub /srv rw - btrfs /dev/sda1 rw");
  EXPECT_EQ(of(8, 1), "mounted at \"/srv\"");
  EXPECT_EQ(of(8, 2), "");
}

TEST_F(HostHoldersTest, SwapIsReported) {
  write("proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap\\040file file 1 0 -3");
  EXPECT_EQ(of(8, 2), "used as swap");
  EXPECT_EQ(of(8, 1), "");
}

TEST_F(HostHoldersTest, AtMostFourUsesAreReported) {
  std::string mounts;
  for (int i = 0; i < 9; ++i) mounts += "3 2 8:1 / /m" + std::to_string(i) + " rw - ext4 /dev/sda1 rw\n";
  write("proc/self/mountinfo", mounts);
  EXPECT_EQ(of(8, 1), "mounted at \"/m0\", mounted at \"/m1\", mounted at \"/m2\", mounted at \"/m3\", ...");
}

TEST_F(HostHoldersTest, FileIsUsedByAWritableLoopDevice) {
  disk("loop3", "7:3", "loop3");
  write("sys/devices/loop3/loop/backing_file", "/srv/disk.img");
  write("sys/devices/loop3/ro", "0");
  write("proc/self/mountinfo", "30 22 7:3 / /mnt rw - ext4 /dev/loop3 rw");
  const HostHolders host(root_.path());
  EXPECT_EQ(host.of_file("/srv/disk.img"), "/dev/loop3 is a loop device on it, mounted at \"/mnt\"");
  EXPECT_EQ(host.of_file("/srv/other.img"), "");
  write("sys/devices/loop3/ro", "1");
  EXPECT_EQ(host.of_file("/srv/disk.img"), "");
}

TEST(InUseByHost, MessageSuggestsAFix) {
  const std::string text = in_use_by_host("device \"d\"", "mounted at \"/srv\"");
  EXPECT_EQ(
      text.rfind("device \"d\" is in use by this host: mounted at \"/srv\": Device or resource busy (16); ",
                 0),
      0U)
      << text;
  EXPECT_NE(text.find(",ro"), std::string::npos);
  EXPECT_NE(in_use_by_host("device \"d\"", "").find("O_EXCL"), std::string::npos);
}

}  // namespace
}  // namespace rtrs::daemon::host_holders_test
