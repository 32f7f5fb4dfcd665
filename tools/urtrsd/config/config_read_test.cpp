#include "tools/urtrsd/config/config_read.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/lib/files/scratch_folder.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon::config_read_test {
namespace {

std::string error_of(const std::string& path) {
  const auto text = read_config_file(path);
  return text ? "it was read" : text.error();
}

TEST(ConfigRead, RegularFilesAndLinksToThemAreRead) {
  const tools::ScratchFolder folder;
  std::ofstream(folder / "file") << "port = 1\n";
  std::filesystem::create_symlink("file", folder / "link");
  EXPECT_EQ(*read_config_file(folder / "file"), "port = 1\n");
  EXPECT_EQ(*read_config_file(folder / "link"), "port = 1\n");
  std::ofstream(folder / "large") << std::string(1 << 20, '#');
  EXPECT_TRUE(read_config_file(folder / "large").has_value());
  std::ofstream(folder / "large", std::ios::app) << "#";
  EXPECT_EQ(error_of(folder / "large"), "is larger than 1 MiB, so it is not a configuration");
  EXPECT_EQ(error_of(folder / "none"), "cannot be read: No such file or directory (2)");
}

TEST(ConfigRead, OtherKindsOfFilesAreRejected) {
  const tools::ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of(folder / "fifo"), "is a pipe, and a configuration is a regular file");
  EXPECT_EQ(error_of(folder.path()), "is a folder, and a configuration is a regular file");
  EXPECT_EQ(error_of("/dev/zero"), "is a device, and a configuration is a regular file");
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, (folder / "socket").c_str(), sizeof name.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(error_of(folder / "socket"), "is a socket, and a configuration is a regular file");
}

}  // namespace
}  // namespace rtrs::daemon::config_read_test
