// Temporary directory for one test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "tools/lib/files/scratch_folder.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

class TestDirectory {
 public:
  std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string path() const { return folder_.path().string(); }
  std::string make_file(const std::string& name, std::uint64_t size) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    EXPECT_TRUE(fd);
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
    return path;
  }

 private:
  tools::ScratchFolder folder_;
};

}  // namespace rtrs::daemon
