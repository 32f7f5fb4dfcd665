// Devices of the kernel's NBD client, with folders and a program in their place that a test has.
#include "tools/urtrs/kernel_nbd.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::admin {
namespace {

class KernelNbd : public testing::Test {
 protected:
  KernelNbd() {
    for (const char* name : {"dev", "sys", "notes"}) std::filesystem::create_directory(path(name));
    host.devices = path("dev");
    host.blocks = path("sys");
    host.notes = path("notes");
    host.program = path("nbd-client");
    host.needs_root = false;
    for (const char* name : {"nbd0", "nbd1", "nbd2"}) put(std::string("dev/") + name, "");
    // Notes what it was asked for, and does what the kernel does.
    put("nbd-client",
        "#!/bin/sh\ncd \"$(dirname \"$0\")\" && echo \"$@\" >> calls\n"
        "case \"$1\" in\n-d) rm -r sys/\"${2##*/}\" ;;\n"
        "*) [ ! -e refuse ] && mkdir sys/\"${3##*/}\" && echo $$ > sys/\"${3##*/}\"/pid ;;\nesac\n");
    ::chmod(host.program.c_str(), 0755);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  void take(const std::string& name) const {
    std::filesystem::create_directory(path("sys/" + name));
    put("sys/" + name + "/pid", "1\n");
  }
  std::string calls() const {
    std::ifstream file(path("calls"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int refused(const std::string& wanted) const {
    const auto error = check_kernel_nbd(host, wanted);
    return error ? error->error : 0;
  }

  trace::ScratchFolder folder_;
  NbdHost host;
};

TEST_F(KernelNbd, TheFirstFreeDeviceIsTaken) {
  take("nbd0");
  const auto device = attach_kernel_nbd(host, "auto", "/run/s.sock", "disk0");
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(*device, path("dev/nbd1"));
  EXPECT_EQ(calls(), "-unix /run/s.sock " + path("dev/nbd1") + " -N disk0 -C 4 -timeout 3600\n");
  EXPECT_EQ(attach_kernel_nbd(host, "auto", "/run/s.sock", "disk1"), path("dev/nbd2"));
  EXPECT_EQ(refused("auto"), EBUSY) << "all are taken";
}

TEST_F(KernelNbd, WhatIsMissingIsSaid) {
  EXPECT_EQ(refused("nbd1"), 0);
  EXPECT_EQ(refused(path("dev/nbd1")), 0);
  EXPECT_EQ(refused("nbd9"), ENODEV);
  EXPECT_EQ(refused("../nbd0"), ENODEV);
  EXPECT_EQ(refused("/dev/sda"), ENODEV);
  take("nbd1");
  EXPECT_EQ(refused("nbd1"), EBUSY);
  std::filesystem::remove(path("dev/nbd0"));
  EXPECT_EQ(refused("auto"), ENODEV) << "no module";
}

TEST_F(KernelNbd, ADeviceThatCannotBeAttachedIsNot) {
  put("refuse", "");
  const auto device = attach_kernel_nbd(host, "nbd2", "/run/s.sock", "disk0");
  ASSERT_FALSE(device);
  EXPECT_NE(device.error().message.find("ended with code 1"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(path("notes")));
}

TEST_F(KernelNbd, OnlyWhatWasAttachedForTheExportIsDetached) {
  ASSERT_TRUE(attach_kernel_nbd(host, "nbd0", "/run/s.sock", "disk0"));
  ASSERT_TRUE(attach_kernel_nbd(host, "nbd1", "/run/s.sock", "disk1"));
  EXPECT_FALSE(detach_kernel_nbd(host, "/run/s.sock", "disk0"));
  EXPECT_TRUE(calls().ends_with("-d " + path("dev/nbd0") + "\n")) << calls();
  EXPECT_FALSE(std::filesystem::exists(path("sys/nbd0")));
  EXPECT_TRUE(std::filesystem::exists(path("sys/nbd1")));
  const std::string before = calls();
  EXPECT_FALSE(detach_kernel_nbd(host, "/run/other.sock", "disk1"));
  EXPECT_FALSE(detach_kernel_nbd(host, "/run/s.sock", "disk0")) << "a second time";
  EXPECT_EQ(calls(), before);
  EXPECT_FALSE(std::filesystem::exists(path("notes/nbd0.attached"))) << "it would be of the next attachment";
  EXPECT_TRUE(std::filesystem::exists(path("notes/nbd1.attached")));
}

TEST_F(KernelNbd, ADeviceThatSomebodyElseHasByNowStays) {
  ASSERT_TRUE(attach_kernel_nbd(host, "nbd0", "/run/s.sock", "disk0"));
  put("sys/nbd0/pid", "another process\n");
  EXPECT_FALSE(detach_kernel_nbd(host, "/run/s.sock", "disk0"));
  EXPECT_TRUE(std::filesystem::exists(path("sys/nbd0")));
}

}  // namespace
}  // namespace rtrs::admin
