#include "tools/nbdkit/status_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <vector>

#include "tools/nbdkit/status.hpp"

namespace rtrs::nbdkit::status_file_test {
namespace {

namespace fs = std::filesystem;

class StatusFileTest : public ::testing::Test {
 protected:
  StatusFileTest() {
    std::string made = ::testing::TempDir() + "status_file.XXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    folder = made;
  }
  ~StatusFileTest() override { fs::remove_all(folder); }

  std::string file(const std::string& name) const { return folder / name; }
  std::string file_with(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  fs::path folder;
};

TEST_F(StatusFileTest, MissingEmptyAndStatusFilesAreAccepted) {
  EXPECT_EQ(check_status_file(file("missing")), "");
  EXPECT_EQ(check_status_file(file_with("empty", "")), "");
  plugin::Settings settings;
  settings.paths = {"10.0.0.2"};
  const Status status(settings, [](bool, const std::string&) {});
  EXPECT_EQ(check_status_file(file_with("status", status.render(asio::steady_now(), {}, {}))), "");
}

TEST_F(StatusFileTest, ModeFollowsTheUmaskOfTheUser) {
  const auto mode_with = [this](const char* mask) {
    ::setenv(kMaskVariable, mask, 1);
    const std::string path = file(std::string("masked") + mask);
    EXPECT_EQ(replace_file(path, "x"), 0);
    ::unsetenv(kMaskVariable);
    struct stat is {};
    EXPECT_EQ(::stat(path.c_str(), &is), 0);
    return is.st_mode & 0777U;
  };
  const mode_t before = ::umask(022);
  EXPECT_EQ(mode_with("0077"), 0600U);
  EXPECT_EQ(mode_with("0027"), 0640U);
  EXPECT_EQ(mode_with("0"), 0644U) << "no more permissions than nbdkit's umask allows";
  EXPECT_EQ(mode_with("odd"), 0644U);
  ::umask(before);
}

TEST_F(StatusFileTest, ForeignContentIsRejected) {
  for (const char* text : {"precious", "{}", "[1]", R"({"format":1,"pid":2})", "\n"}) {
    const std::string path = file_with("other", text);
    EXPECT_EQ(
        check_status_file(path),
        "status=" + path + ": exists and is not a status file of this plugin; remove it or use another file");
  }
}

TEST_F(StatusFileTest, NonRegularFilesAreRejected) {
  ASSERT_EQ(::mkfifo(file("fifo").c_str(), 0600), 0);
  fs::create_directory(file("folder"));
  fs::create_symlink("/dev/null", file("link"));
  for (const std::string& path : {std::string("/dev/null"), file("fifo"), file("folder"), file("link")})
    EXPECT_EQ(
        check_status_file(path),
        "status=" + path + ": exists and is not a regular file; choose a file that the plugin may replace");
}

TEST_F(StatusFileTest, ReplacingKeepsNonRegularFiles) {
  for (const char* const name : {"place", "place.new"}) {
    ASSERT_EQ(::mkfifo(file(name).c_str(), 0600), 0);
    EXPECT_EQ(replace_file(file("place"), "x"), EEXIST);
    EXPECT_TRUE(fs::is_fifo(file("place")) || name == std::string("place.new"));
    fs::remove(file("place"));
    fs::remove(file("place.new"));
  }
  const std::string target = file_with("target", "precious");
  fs::create_symlink(target, file("place.new"));
  EXPECT_EQ(replace_file(file("place"), "x"), EEXIST);
  EXPECT_EQ(text_of(target), "precious");
}

TEST_F(StatusFileTest, ReplacingRemovesLeftoverFiles) {
  file_with("place.new", "left by a process that was killed");
  file_with("place", "earlier");
  EXPECT_EQ(replace_file(file("place"), "x"), 0);
  EXPECT_EQ(text_of(file("place")), "x");
  EXPECT_FALSE(fs::exists(file("place.new")));
}

// A file system that hangs until let_go() is called.
class Sink {
 public:
  int write(const std::string& content) {
    std::unique_lock lock(mutex_);
    began_.push_back(content);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
    return static_cast<int>(began_.size());
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return began_.size() >= count; });
    return began_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> began_;
  bool hangs_ = true;
};

LatestWriter::Write into(const std::shared_ptr<Sink>& sink) {
  return [sink](const std::string& content) { return sink->write(content); };
}

TEST(LatestWriterTest, PutDoesNotBlockAndOnlyTheLatestContentIsWritten) {
  const auto sink = std::make_shared<Sink>();
  LatestWriter writer(into(sink));
  writer.put("first");
  sink->wait_for(1);
  for (int i = 0; i < 1000; ++i) writer.put(std::to_string(i));
  EXPECT_EQ(writer.last_error(), 0) << "no write has completed";
  sink->let_go();
  EXPECT_EQ(sink->wait_for(2), (std::vector<std::string>{"first", "999"}));
}

TEST(LatestWriterTest, DestructorWaitsForTheLastContent) {
  const auto sink = std::make_shared<Sink>();
  sink->let_go();
  {
    LatestWriter writer(into(sink), std::chrono::hours(1));
    writer.put("last");
  }
  EXPECT_EQ(sink->wait_for(0), std::vector<std::string>{"last"});
}

TEST(LatestWriterTest, DestructorDoesNotWaitForAHangingWrite) {
  const auto sink = std::make_shared<Sink>();
  {
    LatestWriter writer(into(sink), std::chrono::milliseconds(1));
    writer.put("first");
    sink->wait_for(1);
  }
  sink->let_go();
}

}  // namespace
}  // namespace rtrs::nbdkit::status_file_test
