// Tests open_export() with an NBD server that runs in a thread of the test.
#include "tools/lib/control/kernel_nbd/open_export.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::kernel_nbd::open_export_test {
namespace {

using namespace std::string_literals;

// Longer than the time limit of a test, so that a test fails if it waits for this timeout.
constexpr std::chrono::hours kLong{24};

class OpenExportTest : public testing::Test {
 protected:
  OpenExportTest() : path_(folder_ / "an nbd.sock"), listener_(listen_at(path_)) {}

  static Descriptor listen_at(const std::string& path) {
    Descriptor listener(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener.get(), 4), 0);
    return listener;
  }

  // Accepts one connection. Sends the greeting at the start of `text`, the rest after the first request, then
  // reads until the client closes.
  std::thread serve(const std::string& text) {
    return std::thread([this, text] {
      const Descriptor one(::accept(listener_.get(), nullptr, nullptr));
      std::string_view left = text;
      const auto say = [&](std::size_t octets) {
        const std::string_view part = left.substr(0, octets);
        EXPECT_EQ(::send(one.get(), part.data(), part.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(part.size()));
        left.remove_prefix(part.size());
      };
      say(18);
      std::array<char, 100> room{};
      for (ssize_t got = 0; (got = ::recv(one.get(), room.data(), room.size(), 0)) > 0;) {
        heard_.append(room.data(), static_cast<std::size_t>(got));
        if (!left.empty()) say(left.size());
      }
    });
  }

  tools::ScratchFolder folder_;
  std::string path_;
  Descriptor listener_;
  std::string heard_;  // bytes that serve() received
};

const std::string kAnswers =
    "NBDMAGICIHAVEOPT\0\3"s
    "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\3\0\0\0\14\0\0\0\0\0\0\0\0\20\0\1\155"s
    "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\1\0\0\0\0"s;

TEST_F(OpenExportTest, OpenedConnectionStaysOpen) {
  std::thread server = serve(kAnswers);
  {
    const OpenResult opened = open_export(path_, "disk0", kLong);
    ASSERT_TRUE(opened) << opened.error().why;
    EXPECT_EQ(opened->what, (Export{4096, 0x16d, 512}));
    EXPECT_EQ(::fcntl(opened->fd.get(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_EQ(::send(opened->fd.get(), "x", 1, MSG_NOSIGNAL), 1);
  }
  server.join();
  EXPECT_NE(heard_.find("\0\0\0\5disk0"s), std::string::npos);
  EXPECT_TRUE(heard_.ends_with('x'));
}

TEST_F(OpenExportTest, FailureHasACause) {
  std::thread server = serve("no NBD at all, and longer than a greeting");
  const OpenResult odd = open_export(path_, "disk0", kLong);
  server.join();
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().why.find("fixed newstyle"), std::string::npos);
  EXPECT_FALSE(odd.error().is_dead);
  const OpenResult late = open_export(path_, "disk0", std::chrono::milliseconds(10));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().why.find("within 10 ms"), std::string::npos);
  const OpenResult nobody = open_export(folder_ / "none", "disk0", kLong);
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().why.find("none: No such file"), std::string::npos) << nobody.error().why;
  EXPECT_FALSE(late.error().is_dead);
  EXPECT_FALSE(open_export(std::string(200, 'x'), "disk0", kLong));
  constexpr std::size_t kRoom = sizeof(sockaddr_un::sun_path);
  const OpenResult most = open_export(std::string(kRoom - 1, 'x'), "disk0", kLong);
  ASSERT_FALSE(most);
  EXPECT_NE(most.error().why.find("No such file"), std::string::npos) << most.error().why;
  const OpenResult too_long = open_export(std::string(kRoom, 'x'), "disk0", kLong);
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().why.find("too long"), std::string::npos) << too_long.error().why;
}

TEST_F(OpenExportTest, ClosedSocketMeansADeadServer) {
  listener_ = Descriptor();
  const OpenResult dead = open_export(path_, "disk0", kLong);
  ASSERT_FALSE(dead);
  EXPECT_TRUE(dead.error().is_dead) << dead.error().why;
}

TEST_F(OpenExportTest, RemovedSocketFileAloneDoesNotMeanADeadServer) {
  std::filesystem::remove(path_);
  const OpenResult lives = open_export(path_, "disk0", kLong);
  ASSERT_FALSE(lives);
  EXPECT_FALSE(lives.error().is_dead) << lives.error().why;
  listener_ = Descriptor();
  const OpenResult dead = open_export(path_, "disk0", kLong);
  ASSERT_FALSE(dead);
  EXPECT_TRUE(dead.error().is_dead) << dead.error().why;
}

TEST_F(OpenExportTest, SocketOfTheSameNameInAnotherFolderDoesNotCount) {
  std::filesystem::create_directory(folder_ / "other");
  const Descriptor other = listen_at(folder_ / "other/an nbd.sock");
  listener_ = Descriptor();
  std::filesystem::remove(path_);
  const OpenResult dead = open_export(path_, "disk0", kLong);
  ASSERT_FALSE(dead);
  EXPECT_TRUE(dead.error().is_dead) << dead.error().why;
}

// The process bound the socket by a relative name, so the kernel's list of sockets does not contain the
// folder. The socket must count as open.
TEST_F(OpenExportTest, SocketWithARelativeNameMayBeAlive) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const Descriptor lives = listen_at("alone.sock");
  std::filesystem::current_path(before);
  std::filesystem::remove(folder_ / "alone.sock");
  const OpenResult unknown = open_export(folder_ / "alone.sock", "disk0", kLong);
  ASSERT_FALSE(unknown);
  EXPECT_FALSE(unknown.error().is_dead) << unknown.error().why;
}

TEST_F(OpenExportTest, OpenConnectionWithoutListenerMeansALiveServer) {
  Descriptor served;
  std::thread server([&] { served = Descriptor(::accept(listener_.get(), nullptr, nullptr)); });
  const Descriptor held(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  ASSERT_EQ(::connect(held.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  server.join();
  listener_ = Descriptor();
  std::filesystem::remove(path_);
  const OpenResult lives = open_export(path_, "disk0", kLong);
  ASSERT_FALSE(lives);
  EXPECT_FALSE(lives.error().is_dead);
  served = Descriptor();
  const OpenResult dead = open_export(path_, "disk0", kLong);
  ASSERT_FALSE(dead);
  EXPECT_TRUE(dead.error().is_dead);
}

TEST_F(OpenExportTest, ClosedOrRefusedHandshakeIsAnError) {
  std::thread closes([this] { const Descriptor one(::accept(listener_.get(), nullptr, nullptr)); });
  const OpenResult closed = open_export(path_, "disk0", kLong);
  closes.join();
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().why.find("nbdkit closed the connection"), std::string::npos) << closed.error().why;
  EXPECT_FALSE(closed.error().is_dead) << "it listens, and may serve the device by another connection";
  std::thread refuses =
      serve(kAnswers.substr(0, 18) + "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\x80\0\0\6\0\0\0\4none"s);
  const OpenResult refused = open_export(path_, "disk0", kLong);
  refuses.join();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().why.find("refuses the export: none"), std::string::npos) << refused.error().why;
  EXPECT_FALSE(refused.error().is_dead);
}

}  // namespace
}  // namespace rtrs::kernel_nbd::open_export_test
