// Tests the default socket paths: sockets of dead processes must be removed, and unreadable folders must be
// reported.
#include "tools/lib/control/rpc/socket_path.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::rpc::socket_path_test {
namespace {

// Returns the pid of a process that has ended.
pid_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class SocketPathTest : public ::testing::Test {
 protected:
  SocketPathTest() { ::setenv("URTRS_RUNTIME_DIR", folder_.path().c_str(), 1); }
  ~SocketPathTest() override { ::unsetenv("URTRS_RUNTIME_DIR"); }
  // Creates a socket file on which no process listens.
  std::string bound(const std::string& name) const {
    const std::string path = folder_ / name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
    return path;
  }

  const tools::ScratchFolder folder_;
};

TEST_F(SocketPathTest, OnlySocketsOfDeadProcessesAreRemoved) {
  const std::string dead = bound(fmt::format("urtrsd-{}.sock", ended_process()));
  const std::string starting = bound(fmt::format("urtrsd-{}.sock", ::getpid()));
  const std::string unnumbered = bound("urtrsd-x.sock");
  const auto made = make_socket_path("urtrsd");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(*made, starting);
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_FALSE(std::filesystem::exists(unnumbered));
  EXPECT_TRUE(std::filesystem::exists(starting));
}

TEST_F(SocketPathTest, UnreadableFolderIsReported) {
  ASSERT_EQ(only_socket("urtrsd").error().error, ENOENT);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::none);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool other = ::geteuid() != 0 || ::setuid(65534) == 0;
    const auto found = only_socket("urtrsd");
    ::_exit(other && !found && found.error().error == EACCES &&
                    found.error().message.find("no permission to read") != std::string::npos
                ? 0
                : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
}

TEST_F(SocketPathTest, FolderOfAnotherUserIsNotUsed) {
  constexpr uid_t kNobody = 65534;
  bound("urtrsd-1.sock");
  EXPECT_EQ(sockets("urtrsd").size(), 1U);
  if (::geteuid() != 0 || ::chown(folder_.path().c_str(), kNobody, kNobody) != 0)
    GTEST_SKIP() << "needs to be root";
  EXPECT_TRUE(sockets("urtrsd").empty());
  const auto made = make_socket_path("urtrsd");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().find("does not belong to this user"), std::string::npos) << made.error();
}

}  // namespace
}  // namespace rtrs::rpc::socket_path_test
