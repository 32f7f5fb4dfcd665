#include "tools/nbdkit/own_socket.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/nbdkit/own_command_line.hpp"

namespace rtrs::nbdkit::own_socket_test {
namespace {

namespace fs = std::filesystem;

class OwnSocketTest : public ::testing::Test {
 protected:
  OwnSocketTest() {
    std::string made = ::testing::TempDir() + "own_socket.XXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    path = made + "/s";
  }
  ~OwnSocketTest() override { fs::remove_all(fs::path(path).parent_path()); }

  int bind_socket() const {
    const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
    EXPECT_EQ(::bind(made, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    return made;
  }

  std::string path;
};

TEST_F(OwnSocketTest, SocketOfThisProcessIsRemoved) {
  const int made = bind_socket();
  ASSERT_EQ(::listen(made, 1), 0);
  EXPECT_TRUE(remove_own_socket(path));
  EXPECT_FALSE(fs::exists(path));
  ::close(made);
}

TEST_F(OwnSocketTest, SocketWithoutAListenerIsKept) {
  const int made = bind_socket();
  EXPECT_FALSE(remove_own_socket(path));
  ::close(made);
  EXPECT_FALSE(remove_own_socket(path));
  EXPECT_TRUE(fs::is_socket(path));
}

TEST_F(OwnSocketTest, OtherFilesAreKept) {
  const int made = bind_socket();
  ASSERT_EQ(::listen(made, 1), 0);
  fs::remove(path);
  std::ofstream(path) << "precious";
  EXPECT_FALSE(remove_own_socket(path));
  EXPECT_TRUE(fs::is_regular_file(path));
  EXPECT_FALSE(remove_own_socket(""));
  ::close(made);
}

TEST(OwnCommandLine, FindsTheSocketInEveryOptionForm) {
  using Line = std::vector<std::string>;
  for (const Line& line : {Line{"nbdkit", "-U", "s", "urtrs"}, Line{"nbdkit", "-fUs", "urtrs"},
                           Line{"nbdkit", "urtrs", "--unix", "/w/s"}, Line{"nbdkit", "--unix=s", "urtrs"}})
    EXPECT_EQ(unix_socket_of(line, "/w"), "/w/s");
  for (const Line& line :
       {Line{"nbdkit", "-U", "-", "urtrs"}, Line{"nbdkit", "-p", "10809", "urtrs"},
        Line{"nbdkit", "--run", "-Us", "urtrs"}, Line{"nbdkit", "urtrs", "--", "-Us"}, Line{}})
    EXPECT_EQ(unix_socket_of(line, "/w"), "");
}

}  // namespace
}  // namespace rtrs::nbdkit::own_socket_test
