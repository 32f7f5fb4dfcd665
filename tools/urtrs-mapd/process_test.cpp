// One process a session, whoever started it.
#include "tools/urtrs-mapd/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::mapd {
namespace {

class ProcessTest : public testing::Test {
 protected:
  using Started = tl::expected<std::unique_ptr<Process>, std::string>;

  Started start(const std::vector<std::string>& command) {
    return Process::start(context_, files_, command, [this](const std::string& how) { gone_ = how; });
  }
  Started adopt() {
    return Process::adopt(context_, files_, [this](const std::string& how) { gone_ = "adopted, " + how; });
  }
  std::string gone() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (gone_.empty() && std::chrono::steady_clock::now() < until) {
      context_.restart();  // it stops where nothing is watched
      context_.run_one_for(std::chrono::seconds(1));
    }
    return gone_;
  }

  trace::ScratchFolder folder_;
  boost::asio::io_context context_;
  SessionFiles files_{folder_.path().string(), "web1@10_0_0_2"};
  std::string gone_;
};

TEST_F(ProcessTest, ItsEndIsTold) {
  auto started = start({"/bin/sh", "-c", "exit 7"});
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ(gone(), "ended with code 7");
  gone_.clear();
  started = start({"/bin/sleep", "60"});
  ASSERT_TRUE(started) << started.error();
  (*started)->signal(SIGKILL);
  EXPECT_EQ(gone(), "was ended by signal 9");
}

TEST_F(ProcessTest, AProgramThatIsNotThere) {
  const auto started = start({"/nowhere/nbdkit"});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error(), "cannot run /nowhere/nbdkit: No such file or directory (errno 2)");
  EXPECT_EQ(adopt().value(), nullptr) << "the lock is free again";
}

TEST_F(ProcessTest, ASecondOneIsNotStartedButFound) {
  auto started = start({"/bin/sleep", "60"});
  ASSERT_TRUE(started) << started.error();
  const auto second = start({"/bin/sleep", "60"});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().find("runs already"), std::string::npos);
  auto adopted = adopt();
  ASSERT_TRUE(adopted) << adopted.error();
  ASSERT_NE(*adopted, nullptr);
  EXPECT_EQ((*adopted)->pid(), (*started)->pid());
  EXPECT_EQ(sessions_with_locks(folder_.path().string()), std::vector<std::string>{"web1@10_0_0_2"});
  started->reset();  // as where its urtrs-mapd was killed
  (*adopted)->signal(SIGTERM);
  EXPECT_EQ(gone(), "adopted, was ended by signal 15") << "our child all the same";
  EXPECT_EQ(adopt().value(), nullptr);
  files_.remove();
  EXPECT_TRUE(sessions_with_locks(folder_.path().string()).empty());
}

TEST_F(ProcessTest, NothingOfThisProgramStaysOpenInItButTheLock) {
  const std::string out = folder_ / "out";
  const int ours = ::open("/dev/null", O_RDONLY);  // as sockets of Asio are: not closed by exec
  ASSERT_GE(ours, 3);
  auto started = start({"/bin/sh", "-c", "for fd in /proc/$$/fd/*; do readlink $fd; done > \"$0\"", out});
  ::close(ours);
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ(gone(), "ended with code 0");
  std::ifstream file(out);
  std::vector<std::string> open;
  for (std::string line; std::getline(file, line);) open.push_back(line);
  EXPECT_EQ(std::count(open.begin(), open.end(), files_.lock), 1);
  EXPECT_EQ(std::count(open.begin(), open.end(), "/dev/null"), 1) << "standard input";
}

TEST_F(ProcessTest, ItHasNoTerminalAndNoInput) {
  const std::string out = folder_ / "out";
  auto started = start({"/bin/sh", "-c", "cat; ps -o sid= -p $$ > \"$0\"; echo $$ >> \"$0\"", out});
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ(gone(), "ended with code 0");
  std::ifstream file(out);
  int session = 0;
  int pid = 0;
  file >> session >> pid;
  EXPECT_EQ(session, pid) << "it leads a session of its own";
  EXPECT_NE(pid, 0);
}

TEST_F(ProcessTest, ALockThatNamesNobodyIsAMistakeOfSomebody) {
  std::ofstream(files_.lock) << "no number";
  auto holder =
      Process::start(context_, files_, {"/bin/sh", "-c", "printf '' > \"$0\"; exec sleep 60", files_.lock},
                     [this](const std::string& how) { gone_ = how; });
  ASSERT_TRUE(holder) << holder.error();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::filesystem::file_size(files_.lock) != 0 && std::chrono::steady_clock::now() < until)
    ::usleep(1000);
  const auto adopted = adopt();
  ASSERT_FALSE(adopted);
  EXPECT_NE(adopted.error().find("does not say which process"), std::string::npos);
  (*holder)->signal(SIGKILL);
  EXPECT_EQ(gone(), "was ended by signal 9");
}

TEST_F(ProcessTest, NothingIsOpenedThroughALink) {
  std::filesystem::create_symlink(folder_.path() / "target", files_.lock);
  EXPECT_FALSE(start({"/bin/true"}));
  EXPECT_FALSE(adopt());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "target"));
}

}  // namespace
}  // namespace rtrs::mapd
