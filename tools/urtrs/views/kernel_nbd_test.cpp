// Tests `urtrs map --nbd` with a fake kernel and fake directories.
#include "tools/urtrs/views/kernel_nbd.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tools/lib/control/kernel_nbd/descriptor.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::admin::kernel_nbd_test {
namespace {

using namespace std::string_literals;

// A fake kernel, which creates the files of /sys in a directory.
struct PlayedKernel final : kernel_nbd::Kernel {
  PlayedKernel(std::string folder, std::string& calls) : blocks(std::move(folder)), said(calls) {}
  tl::expected<unsigned, int> attach(const kernel_nbd::NewDevice& device) override {
    unsigned index = device.index.value_or(0);
    while (!device.index && std::filesystem::exists(place(index))) ++index;
    if (std::filesystem::exists(place(index))) return tl::unexpected(EBUSY);
    said += "attach nbd" + std::to_string(index) + " " + std::to_string(device.bytes) + " " +
            std::to_string(device.block) + " " + std::to_string(device.wait) + " " +
            std::to_string(device.flags) + "\n";
    struct stat of {};
    EXPECT_TRUE(::fstat(device.fd, &of) == 0 && S_ISSOCK(of.st_mode));
    std::filesystem::create_directories(place(index) + "/queue");
    std::ofstream(place(index) + "/pid") << "1\n";
    std::ofstream(place(index) + "/size") << device.bytes / 512 << '\n';
    if (!old) std::ofstream(place(index) + "/backend") << device.identity << '\n';
    return index;
  }
  int hand_over(unsigned, const std::string&, int) override { return EPERM; }
  int resize(unsigned, const std::string&, std::uint64_t) override { return EPERM; }
  int detach(unsigned index) override {
    said += "detach nbd" + std::to_string(index) + "\n";
    if (busy) return EBUSY;
    std::filesystem::remove_all(place(index));
    return 0;
  }
  std::string place(unsigned index) const { return blocks + "/nbd" + std::to_string(index); }

  std::string blocks;
  std::string& said;
  bool old = false;
  bool busy = false;
};

kernel_nbd::Descriptor listen_at(const std::string& path) {
  kernel_nbd::Descriptor listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(listener.get(), 8), 0);
  return listener;
}

class KernelNbd : public testing::Test {
 protected:
  KernelNbd() : socket_(path("s")), listener_(listen_at(socket_)) {
    for (const char* name : {"dev", "sys"}) std::filesystem::create_directory(path(name));
    host.devices = path("dev");
    host.blocks = path("sys");
    host.kernel = [this]() -> tl::expected<std::unique_ptr<kernel_nbd::Kernel>, int> {
      if (no_kernel != 0) return tl::unexpected(no_kernel);
      auto kernel = std::make_unique<PlayedKernel>(host.blocks, calls);
      kernel->old = old;
      kernel->busy = busy;
      return kernel;
    };
    host.keeper_runs = [this] { return keeper; };
    host.needs_root = false;
    for (const char* name : {"nbd0", "nbd1", "nbd2"}) std::ofstream(path(std::string("dev/") + name)) << "";
    // An NBD server that accepts every export name.
    server_ = std::thread([this] {
      const std::string answers =
          "NBDMAGICIHAVEOPT\0\3"s
          "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\3\0\0\0\14\0\0\0\0\0\0\0\0\20\0\1\155"s
          "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\3\0\0\0\16\0\3\0\0\4\0\0\0\20\0\0\1\0\0"s
          "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\1\0\0\0\0"s;
      for (;;) {
        const kernel_nbd::Descriptor one(::accept(listener_.get(), nullptr, nullptr));
        if (one.get() < 0) return;
        EXPECT_GT(::send(one.get(), answers.data(), answers.size(), MSG_NOSIGNAL), 0);
        std::array<char, 100> room{};
        while (::recv(one.get(), room.data(), room.size(), 0) > 0) continue;
      }
    });
  }
  ~KernelNbd() override {
    ::shutdown(listener_.get(), SHUT_RDWR);
    server_.join();
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string dev(const std::string& name) const { return path("dev/" + name); }
  void take(const std::string& name) const {
    std::filesystem::create_directory(path("sys/" + name));
    std::ofstream(path("sys/" + name + "/pid")) << "1\n";
  }
  int refused(const std::string& wanted) const {
    const auto error = check_kernel_nbd(host, {wanted, 300, "disk0"});
    return error ? error->error : 0;
  }
  auto attach(const std::string& wanted, const std::string& name, bool again = false) const {
    return attach_kernel_nbd(host, {wanted, 60, name, again}, socket_);
  }

  tools::ScratchFolder folder_;
  std::string socket_;
  kernel_nbd::Descriptor listener_;
  std::thread server_;
  std::string calls;
  int no_kernel = 0;
  bool old = false;
  bool busy = false;
  std::optional<bool> keeper = true;
  NbdHost host;
};

TEST_F(KernelNbd, AutoChoosesTheFirstFreeDevice) {
  take("nbd0");
  const auto device = attach("auto", "disk0");
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(*device, dev("nbd1"));
  EXPECT_EQ(calls, "attach nbd1 4096 1024 60 365\n");
  const auto all = kernel_nbd::attached_devices(host.blocks);
  ASSERT_EQ(all.size(), 1U);
  std::string look;
  std::ifstream(path("sys/nbd1/queue/io_timeout")) >> look;
  EXPECT_EQ(look, "10000") << "ms until the kernel checks unanswered requests";
  EXPECT_EQ(all[0], (kernel_nbd::Attached{1, {0x16d, 60, socket_, "disk0"}, 4096}));
  EXPECT_EQ(attach("auto", "disk1"), dev("nbd2"));
}

TEST_F(KernelNbd, MissingRequirementsAreReported) {
  EXPECT_EQ(refused("nbd1"), 0);
  EXPECT_EQ(refused(dev("nbd1")), 0);
  EXPECT_EQ(refused("nbd9"), ENODEV);
  EXPECT_EQ(refused("../nbd0"), ENODEV);
  EXPECT_EQ(refused("/dev/sda"), ENODEV);
  take("nbd1");
  EXPECT_EQ(refused("nbd1"), EBUSY);
  keeper = std::nullopt;
  EXPECT_EQ(refused("auto"), 0) << "unknown whether urtrs-mapd runs";
  keeper = false;
  EXPECT_EQ(refused("auto"), ESRCH);
  no_kernel = EOPNOTSUPP;
  EXPECT_EQ(refused("auto"), EOPNOTSUPP);
  std::filesystem::remove(dev("nbd0"));
  EXPECT_EQ(refused("auto"), ENODEV) << "no module";
}

TEST_F(KernelNbd, FailedAttachLeavesNoDevice) {
  const auto nobody = attach_kernel_nbd(host, {"nbd2", 60, "disk0"}, path("none"));
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message.find("No such file"), std::string::npos);
  EXPECT_EQ(calls, "");
  old = true;
  EXPECT_FALSE(attach("nbd2", "disk0")) << "the attached device could not be found later";
  EXPECT_TRUE(calls.ends_with("detach nbd2\n")) << calls;
}

TEST_F(KernelNbd, IdempotentAttachFindsTheAttachedDevice) {
  ASSERT_TRUE(attach("nbd1", "disk0"));
  const std::string before = calls;
  EXPECT_FALSE(attach("nbd1", "disk0"));
  EXPECT_EQ(attach("nbd1", "disk0", true), dev("nbd1"));
  EXPECT_EQ(attach("auto", "disk0", true), dev("nbd1"));
  EXPECT_FALSE(check_kernel_nbd(host, {"nbd1", 60, "disk0", true}));
  EXPECT_TRUE(check_kernel_nbd(host, {"nbd1", 60, "disk1", true})) << "another export uses the device";
  EXPECT_EQ(calls, before);
  EXPECT_EQ(attach("nbd0", "disk0", true), dev("nbd0")) << "nbd0 is not attached yet";
}

TEST_F(KernelNbd, ExportOfAnotherSessionIsNotReused) {
  ASSERT_TRUE(attach("nbd1", "disk0"));
  std::filesystem::create_symlink(socket_, path("another"));
  EXPECT_EQ(attach_kernel_nbd(host, {"auto", 60, "disk0", true}, path("another")), dev("nbd0"));
}

TEST_F(KernelNbd, IdempotentAttachWaitsForTheExport) {
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::filesystem::create_symlink(socket_, path("later"));
  });
  EXPECT_EQ(attach_kernel_nbd(host, {"auto", 60, "disk0", true}, path("later")), dev("nbd0"));
  later.join();
}

TEST_F(KernelNbd, PlainAttachTriesOnce) {
  const kernel_nbd::Descriptor listener = listen_at(path("closes"));
  int connections = 0;
  std::thread closes([&] {
    for (;;) {
      const kernel_nbd::Descriptor one(::accept(listener.get(), nullptr, nullptr));
      if (one.get() < 0) return;
      ++connections;
    }
  });
  EXPECT_FALSE(attach_kernel_nbd(host, {"auto", 60, "disk0"}, path("closes")));
  ::shutdown(listener.get(), SHUT_RDWR);
  closes.join();
  EXPECT_EQ(connections, 1);
}

TEST_F(KernelNbd, OnlyRootAttaches) {
  host.needs_root = true;
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(refused("auto"), root ? 0 : EPERM);
  if (!root) return;
  ASSERT_EQ(::seteuid(65534), 0);
  const int of_another = refused("auto");
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(of_another, EPERM);
}

TEST_F(KernelNbd, DetachAffectsOnlyDevicesOfTheExport) {
  ASSERT_TRUE(attach("nbd0", "disk0"));
  ASSERT_TRUE(attach("nbd1", "disk1"));
  take("nbd2");
  calls.clear();
  EXPECT_EQ(detach_kernel_nbd(host, path("other.sock"), "disk1", false), false);
  EXPECT_EQ(calls, "");
  EXPECT_EQ(detach_kernel_nbd(host, socket_, "disk0", false), true);
  EXPECT_EQ(calls, "detach nbd0\n");
  EXPECT_EQ(detach_kernel_nbd(host, socket_, "disk0", false), false) << "a second time";
  EXPECT_EQ(calls, "detach nbd0\n");
}

TEST_F(KernelNbd, EveryDeviceOfTheExportIsDetached) {
  ASSERT_TRUE(attach("nbd0", "disk0"));
  ASSERT_TRUE(attach("nbd2", "disk0"));
  busy = true;
  const auto refused_by_it = detach_kernel_nbd(host, socket_, "disk0", false);
  ASSERT_FALSE(refused_by_it);
  EXPECT_EQ(refused_by_it.error().error, EBUSY);
  busy = false;
  EXPECT_EQ(detach_kernel_nbd(host, socket_, "disk0", false), true);
  EXPECT_TRUE(kernel_nbd::attached_devices(host.blocks).empty());
}

TEST_F(KernelNbd, FailedFlushPreventsDetach) {
  ASSERT_TRUE(attach("nbd0", "disk0"));
  std::filesystem::remove(dev("nbd0"));
  std::filesystem::create_symlink("/dev/null", dev("nbd0"));  // fsync() fails on /dev/null
  const auto refused_by_it = detach_kernel_nbd(host, socket_, "disk0", false);
  ASSERT_FALSE(refused_by_it);
  EXPECT_EQ(refused_by_it.error().error, EINVAL);
  EXPECT_TRUE(std::filesystem::exists(path("sys/nbd0")));
}

TEST_F(KernelNbd, DetachWithoutAFlushRequiresForce) {
  ASSERT_TRUE(attach("nbd0", "disk0"));
  std::filesystem::remove(dev("nbd0"));
  const auto refused_by_it = detach_kernel_nbd(host, socket_, "disk0", false);
  ASSERT_FALSE(refused_by_it);
  EXPECT_EQ(refused_by_it.error().error, ENOENT);
  EXPECT_TRUE(std::filesystem::exists(path("sys/nbd0")));
  EXPECT_EQ(detach_kernel_nbd(host, socket_, "disk0", true), true);
  EXPECT_FALSE(std::filesystem::exists(path("sys/nbd0")));
}

}  // namespace
}  // namespace rtrs::admin::kernel_nbd_test
