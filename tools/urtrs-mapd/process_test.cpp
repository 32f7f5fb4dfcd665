// Tests that a session has only one process, even if urtrs-mapd restarts.
#include "tools/urtrs-mapd/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::mapd::process_test {
namespace {

class ProcessTest : public testing::Test {
 protected:
  using Started = tl::expected<std::unique_ptr<Process>, std::string>;

  Started start(const std::vector<std::string>& command) {
    return Process::start(context_, files_, command, [this] { gone_ = true; });
  }
  Started adopt() {
    return Process::adopt(context_, files_, [this] { gone_ = true; });
  }
  bool gone() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!gone_ && std::chrono::steady_clock::now() < until) {
      context_.restart();  // the context stops when it has no work
      context_.run_one_for(std::chrono::seconds(1));
    }
    return std::exchange(gone_, false);
  }
  std::string lines(const std::string& file) const {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  tools::ScratchFolder folder_;
  boost::asio::io_context context_;
  SessionFiles files_{folder_.path().string(), "web1@10_0_0_2"};
  bool gone_ = false;
};

TEST_F(ProcessTest, EndIsReported) {
  auto started = start({"/bin/sleep", "60"});
  ASSERT_TRUE(started) << started.error();
  context_.poll();
  EXPECT_FALSE(gone_);
  (*started)->signal(SIGKILL);
  EXPECT_TRUE(gone());
}

TEST_F(ProcessTest, ProcessThatEndsAtOnceIsReported) {
  const auto started = start({"/bin/true"});
  if (started)
    EXPECT_TRUE(gone());
  else
    EXPECT_EQ(started.error(), "/bin/true has ended at once");
}

TEST_F(ProcessTest, LastErrorIsTheErrorLineOfTheProcess) {
  const std::string script =
      "sleep 0.2; echo first >&2; echo 'x: error: no such key' >&2; echo; echo later; exit 1";
  auto started = start({"/bin/sh", "-c", script});
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ((*started)->last_error(), "");
  EXPECT_TRUE(gone());
  EXPECT_EQ((*started)->last_error(), "no such key");
  started->reset();
  auto without = start({"/bin/sh", "-c", "sleep 0.2; echo a; echo b"});
  ASSERT_TRUE(without) << without.error();
  EXPECT_TRUE(gone());
  EXPECT_EQ((*without)->last_error(), "b") << "no line has an error";
}

// The last output of the process and its end may be handled in the same iteration of the event loop, and the
// callback for the end destroys the Process. The handler for the output must tolerate that.
TEST_F(ProcessTest, MayBeDestroyedInTheEndCallback) {
  const std::string go = (folder_.path() / "go").string();
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  for (int again = 0; again < 20; ++again) {
    std::unique_ptr<Process> process;
    auto started = Process::start(context_, files_, {"/bin/sh", "-c", "echo bye; read -r line < " + go}, [&] {
      process.reset();
      gone_ = true;
    });
    ASSERT_TRUE(started) << started.error();
    process = std::move(*started);
    // The process only ends after the write to `go`, because pidfd_open() needs a running process.
    const int watched = static_cast<int>(::syscall(SYS_pidfd_open, process->pid(), 0));
    ASSERT_GE(watched, 0);
    std::ofstream(go) << "go\n";
    // Waits until the process has ended, so that both events are pending.
    pollfd ended{watched, POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 60'000), 1);
    ::close(watched);
    EXPECT_TRUE(gone());
    context_.poll();
  }
}

TEST_F(ProcessTest, FilesOfARunningProcessAreNotRemoved) {
  auto started = start({"/bin/sleep", "60"});
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ((*started)->command(), (std::vector<std::string>{"/bin/sleep", "60"}));
  files_.remove();
  EXPECT_FALSE(start({"/bin/sleep", "60"})) << "only one process per session";
  (*started)->signal(SIGKILL);
  EXPECT_TRUE(gone());
  EXPECT_TRUE((*started)->command().empty());
  EXPECT_TRUE(std::filesystem::exists(files_.lock));
  files_.remove();
  EXPECT_FALSE(std::filesystem::exists(files_.lock));
}

// The script redirects its output to the log descriptor, as the plugin does.
TEST_F(ProcessTest, StartedProcessWritesToTheLogDirectly) {
  const std::string script =
      "eval \"exec 2>&$URTRS_MAPD_LOG_FD 1>&2\"; echo ours; echo 'error: ours too' >&2; exec sleep 0.2";
  testing::internal::CaptureStderr();
  auto started = start({"/bin/bash", "-c", script});
  EXPECT_TRUE(started);
  EXPECT_TRUE(started && gone());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "ours\nerror: ours too\n");
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ((*started)->last_error(), "");
}

// nbdkit -f ends when its parent ends, so the process must not be a child of the process that started it.
TEST_F(ProcessTest, ProcessOutlivesItsStarter) {
  const std::string out = folder_ / "out";
  auto started = start({"/bin/sh", "-c", "ps -o ppid= -p $$ > \"$0\"; exec sleep 60", out});
  ASSERT_TRUE(started) << started.error();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (lines(out).empty() && std::chrono::steady_clock::now() < until) ::usleep(1000);
  EXPECT_NE(std::stoi(lines(out)), ::getpid());
  EXPECT_EQ(::waitpid((*started)->pid(), nullptr, WNOHANG), -1) << "the process is not a child of this one";
  (*started)->signal(SIGKILL);
  EXPECT_TRUE(gone());
}

TEST_F(ProcessTest, MissingProgramIsReported) {
  const auto started = start({"/nowhere/nbdkit"});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error(), "cannot run /nowhere/nbdkit: No such file or directory (errno 2)");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (adopt().value() != nullptr && std::chrono::steady_clock::now() < until) ::usleep(1000);
  EXPECT_EQ(adopt().value(), nullptr) << "the lock is free once the child has exited";
}

TEST_F(ProcessTest, SecondProcessIsNotStartedAndTheFirstIsAdopted) {
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
  started->reset();  // has the same effect as killing urtrs-mapd
  (*adopted)->signal(SIGTERM);
  EXPECT_TRUE(gone());
  EXPECT_EQ(adopt().value(), nullptr);
  files_.remove();
  EXPECT_TRUE(sessions_with_locks(folder_.path().string()).empty());
}

TEST_F(ProcessTest, OnlyTheLockIsInherited) {
  const std::string out = folder_ / "out";
  const int ours = ::open("/dev/null", O_RDONLY);  // opened without O_CLOEXEC, as Asio opens sockets
  ASSERT_GE(ours, 3);
  auto started =
      start({"/bin/sh", "-c", "for fd in /proc/$$/fd/*; do readlink $fd; done > \"$0\"; sleep 1", out});
  ::close(ours);
  ASSERT_TRUE(started) << started.error();
  EXPECT_TRUE(gone());
  std::ifstream file(out);
  std::vector<std::string> open;
  for (std::string line; std::getline(file, line);) open.push_back(line);
  EXPECT_EQ(std::count(open.begin(), open.end(), files_.lock), 1);
  EXPECT_EQ(std::count(open.begin(), open.end(), "/dev/null"), 1) << "standard input";
}

TEST_F(ProcessTest, ProcessHasNoTerminalAndNoInput) {
  const std::string out = folder_ / "out";
  auto started = start({"/bin/sh", "-c", "cat; ps -o sid= -p $$ > \"$0\"; echo $$ >> \"$0\"; sleep 1", out});
  ASSERT_TRUE(started) << started.error();
  EXPECT_TRUE(gone());
  std::ifstream file(out);
  int session = 0;
  int pid = 0;
  file >> session >> pid;
  EXPECT_NE(session, 0);
  EXPECT_NE(session, ::getsid(0)) << "the process is in its own session";
  EXPECT_NE(pid, ::getpid());
}

TEST_F(ProcessTest, LockWithoutAProcessIdIsAnError) {
  const int holder = ::open(files_.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(holder, LOCK_EX | LOCK_NB), 0);
  for (const char* text : {"", "no number", "-1", "99999999999"}) {
    std::ofstream(files_.lock) << text;
    const auto adopted = adopt();
    ASSERT_FALSE(adopted) << text;
    EXPECT_NE(adopted.error().find("an unknown process holds the lock"), std::string::npos);
    EXPECT_FALSE(start({"/bin/true"}));
  }
  ::close(holder);
  EXPECT_EQ(adopt().value(), nullptr);
}

TEST_F(ProcessTest, SymbolicLinksAreNotFollowed) {
  std::filesystem::create_symlink(folder_.path() / "target", files_.lock);
  EXPECT_FALSE(start({"/bin/true"}));
  EXPECT_FALSE(adopt());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "target"));
}

}  // namespace
}  // namespace rtrs::mapd::process_test
