#include "tools/urtrsd/storage/image_locks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::image_locks_test {
namespace {

Located locate(const std::string& path) {
  return std::move(*identify(UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC)), "the image"));
}

// Two ImageLocks objects in one process act like two servers, because the locks belong to open file
// descriptions and not to processes.
class Locks : public ::testing::Test {
 protected:
  std::int32_t error(ImageLocks& locks, bool write) {
    const auto hold = locks.acquire(located_, {write}, "the image");
    return hold ? 0 : hold.error().error;
  }
  TestDirectory directory_;
  const std::string path_ = directory_.make_file("disk.img", 4096);
  const Located located_ = locate(path_);
  ImageLocks one_;
  ImageLocks other_;
};

TEST_F(Locks, WriterExcludesOtherServers) {
  const auto hold = one_.acquire(located_, {true}, "the image");
  ASSERT_TRUE(hold) << hold.error().sentence;
  EXPECT_TRUE(hold->warning().empty());
  EXPECT_EQ(error(other_, true), EBUSY);
  EXPECT_EQ(error(other_, false), EBUSY);
}

TEST_F(Locks, ReadersShareAndExcludeWriters) {
  const auto hold = one_.acquire(located_, {false}, "the image");
  ASSERT_TRUE(hold);
  EXPECT_EQ(error(other_, false), 0);
  EXPECT_EQ(error(other_, true), EBUSY);
}

TEST_F(Locks, SessionsOfOneServerShareALock) {
  const auto first = one_.acquire(located_, {true}, "the image");
  ASSERT_TRUE(first);
  EXPECT_EQ(error(one_, true), 0);
  EXPECT_EQ(error(one_, false), 0);
  EXPECT_EQ(error(other_, false), EBUSY);
}

TEST_F(Locks, LockIsDowngradedWhenTheLastWriterCloses) {
  auto reader = one_.acquire(located_, {false}, "the image");
  ASSERT_TRUE(reader);
  {
    const auto writer = one_.acquire(located_, {true}, "the image");
    ASSERT_TRUE(writer);
    EXPECT_EQ(error(other_, false), EBUSY);
  }
  EXPECT_EQ(error(other_, false), 0);
  EXPECT_EQ(error(other_, true), EBUSY);
  reader->release();
  EXPECT_EQ(error(other_, true), 0);
}

TEST_F(Locks, RejectedWriterDoesNotReleaseTheReadLock) {
  const auto reader = one_.acquire(located_, {false}, "the image");
  auto others = other_.acquire(located_, {false}, "the image");
  ASSERT_TRUE(reader);
  ASSERT_TRUE(others);
  EXPECT_EQ(error(one_, true), EBUSY);
  EXPECT_EQ(error(other_, true), EBUSY);
  others->release();
  EXPECT_EQ(error(other_, true), EBUSY);
  EXPECT_EQ(error(one_, true), 0);
}

TEST_F(Locks, ErrorNamesTheHolder) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    const char done = ::fcntl(fd.get(), F_OFD_SETLK, &lock) == 0 ? 'y' : 'n';
    if (::write(ready[1], &done, 1) == 1) ::pause();
    ::_exit(0);
  }
  char locked = 'n';
  EXPECT_EQ(::read(ready[0], &locked, 1), 1);
  EXPECT_EQ(locked, 'y');
  const auto refused = one_.acquire(located_, {true}, "the image");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error, EBUSY);
  EXPECT_NE(refused.error().sentence.find("in use by process " + std::to_string(child) + " ("),
            std::string::npos)
      << refused.error().sentence;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int fd : ready) ::close(fd);
}

}  // namespace
}  // namespace rtrs::daemon::image_locks_test
