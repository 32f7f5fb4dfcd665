#include "tools/lib/control/kernel_nbd/attachment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/lib/control/kernel_nbd/descriptor.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::kernel_nbd::attachment_test {
namespace {

Attachment odd() {
  return {0x16d, 300, "/run/with blank%/nbd-a@b.sock", "a \xc3\xa4/b%20\x7f"};
}

TEST(Attachment, IdentityIsOneLineOfPrintableAscii) {
  EXPECT_EQ(identity_of({0x16d, 300, "/run/urtrs/nbd-a.sock", "disk0"}),
            "urtrs1 16d 300 /run/urtrs/nbd-a.sock disk0");
  const std::string line = identity_of(odd());
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 0x7f) << line;
  EXPECT_EQ(parse_identity(line), odd());
  EXPECT_EQ(parse_identity(identity_of({1, 0, "/s", ""})), (Attachment{1, 0, "/s", ""}));
}

TEST(Attachment, OtherIdentitiesAreRefused) {
  for (const char* text : {"", "disk0", "urtrs1", "urtrs1 1 2 /s", "urtrs1 1 2 /s a b", "urtrs2 1 2 /s a",
                           "urtrs1 10000 2 /s a", "urtrs1 x 2 /s a", "urtrs1 1 -2 /s a", "urtrs1 1 2  a",
                           "urtrs1 1 2 /s a%2", "urtrs1 1 2 /s a%", "urtrs1 1 2 /s a%zz"})
    EXPECT_FALSE(parse_identity(text)) << text;
}

TEST(Attachment, OnlyDevicesWithOurIdentityAreListed) {
  const tools::ScratchFolder folder;
  const auto put = [&](const std::string& name, const std::string& backend, const std::string& size) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / (name + "/backend")) << backend << '\n';
    std::ofstream(folder / (name + "/size")) << size << '\n';
  };
  put("nbd10", identity_of(odd()), "2048");
  put("nbd2", "urtrs1 1 300 /s disk0", "16");
  put("nbd3", "another's", "16");
  put("nbd4", "", "0");
  put("nbd5", "urtrs1 1 300 /s disk0", "many");
  put("nbdx", "urtrs1 1 300 /s disk0", "16");
  put("sda", "urtrs1 1 300 /s disk0", "16");
  std::filesystem::create_directories(folder / "nbd0");
  EXPECT_EQ(attached_devices(folder.path()),
            (std::vector<Attached>{{2, {1, 300, "/s", "disk0"}, 8192}, {10, odd(), 1 << 20}}));
  EXPECT_TRUE(attached_devices(folder / "none").empty());
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(KeeperRuns, TrueWhileTheLockIsHeld) {
  const tools::ScratchFolder folder;
  ::setenv("URTRS_RUNTIME_DIR", folder.path().c_str(), 1);
  ASSERT_EQ(keeper_lock_file(), folder / "kernel-devices.lock");
  EXPECT_EQ(keeper_runs(), false) << "no lock file";
  Descriptor lock(::open(keeper_lock_file().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::ptrdiff_t before = open_files();
  EXPECT_EQ(keeper_runs(), false) << "lock file that no process holds";
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0) << "keeper_runs() keeps no lock";
  EXPECT_EQ(keeper_runs(), true);
  EXPECT_EQ(open_files(), before);
  ::setenv("URTRS_RUNTIME_DIR", (folder / "kernel-devices.lock").c_str(), 1);
  EXPECT_EQ(keeper_runs(), std::nullopt) << "not a folder";
  ::setenv("URTRS_RUNTIME_DIR", "", 1);
  EXPECT_EQ(keeper_lock_file(), "/run/urtrs-kernel-devices/kernel-devices.lock");
  ::unsetenv("URTRS_RUNTIME_DIR");
  EXPECT_EQ(keeper_lock_file(), "/run/urtrs-kernel-devices/kernel-devices.lock");
}

}  // namespace
}  // namespace rtrs::kernel_nbd::attachment_test
