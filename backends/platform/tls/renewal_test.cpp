#include "backends/platform/tls/renewal.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

namespace rtrs::tls::renewal_test {
namespace {

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Fixture with two files. Reading them returns their concatenated text as the credentials, and fails if the
// text contains "broken".
class RenewalTest : public ::testing::Test {
 protected:
  RenewalTest() {
    std::string folder = std::filesystem::temp_directory_path() / "urtrs-renewal-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    write("cert", "1");
    write("key", "1");
    marks_ = mark_files(files());
  }
  ~RenewalTest() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> files() const { return {folder_ + "/cert", folder_ + "/key"}; }
  // Replaces the file by rename(2), as administrators are advised to.
  void write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  tl::expected<Renewal::Set, std::string> read() {
    {
      std::unique_lock lock(mutex_);
      ++reads_;
      released_.wait(lock, [this] { return !hangs_; });
    }
    std::string all;
    for (const std::string& file : files()) {
      if (!std::filesystem::exists(file)) return tl::unexpected(file + ": gone");
      all += text_of(file);
    }
    if (during_read_) during_read_();
    if (all.find("broken") != std::string::npos) return tl::unexpected("the files are " + all);
    return std::make_shared<const std::string>(all);
  }
  // Returns the text of the new credentials; empty if the credentials in use stay.
  std::string look(Renewal& renewal) {
    const auto set = std::static_pointer_cast<const std::string>(renewal.look());
    return set == nullptr ? "" : *set;
  }
  // Calls look() until it returns new credentials, because reading may take longer than kPatienceMs.
  std::string look_until_found(Renewal& renewal) {
    std::string found;
    for (unsigned i = 0; i < 10'000'000 && found.empty(); ++i, std::this_thread::yield())
      found = look(renewal);
    return found;
  }
  std::unique_ptr<Renewal> make() {
    return std::make_unique<Renewal>(
        files(), marks_, [this] { return read(); },
        [this](bool warning, const std::string& sentence) {
          (warning ? warnings_ : news_).push_back(sentence);
        });
  }
  unsigned reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

  std::string folder_;
  FileMarks marks_;
  std::mutex mutex_;
  std::condition_variable released_;
  bool hangs_ = false;
  unsigned reads_ = 0;
  std::function<void()> during_read_;
  std::vector<std::string> warnings_;
  std::vector<std::string> news_;
};

TEST_F(RenewalTest, WithoutThreadsLookReadsTheFiles) {
  const auto caller = std::this_thread::get_id();
  bool by_caller = false;
  during_read_ = [&] { by_caller = std::this_thread::get_id() == caller; };
  Renewal renewal(
      files(), marks_, [this] { return read(); }, {}, false);
  write("key", "2");
  EXPECT_EQ(look(renewal), "12");
  EXPECT_TRUE(by_caller);
  EXPECT_EQ(look(renewal), "");
}

TEST_F(RenewalTest, UnchangedFilesAreNotRead) {
  const auto renewal = make();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(look(*renewal), "");
  EXPECT_EQ(reads(), 0U);
  EXPECT_TRUE(news_.empty() && warnings_.empty());
}

TEST_F(RenewalTest, AChangedFileIsReadOnce) {
  const auto renewal = make();
  write("key", "2");
  EXPECT_EQ(look_until_found(*renewal), "12");
  EXPECT_EQ(look(*renewal), "");
  EXPECT_EQ(reads(), 1U);
  EXPECT_EQ(news_.size(), 1U);
  EXPECT_TRUE(warnings_.empty());
}

// Writes a text of the same length into the existing file, without rename(2).
TEST_F(RenewalTest, FilesWrittenInPlaceAreRead) {
  const auto renewal = make();
  const FileMarks before = mark_files(files());
  // Writes repeatedly, because file systems store times with a limited resolution.
  for (int i = 0; i < 1'000'000 && mark_files(files()) == before; ++i) std::ofstream(files()[0]) << "7";
  EXPECT_EQ(look_until_found(*renewal), "71");
}

TEST_F(RenewalTest, InvalidFilesCauseOneWarning) {
  const auto renewal = make();
  write("cert", "broken");
  for (int i = 0; i < 5 || warnings_.empty(); ++i) EXPECT_EQ(look(*renewal), "");
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0].find("the files are broken1; the previous content stays in use"), 0U)
      << warnings_[0];
  std::filesystem::remove(files()[0]);
  while (warnings_.size() < 2) EXPECT_EQ(look(*renewal), "");
  EXPECT_EQ(warnings_[1].find(files()[0] + ": gone"), 0U);
  write("cert", "3");
  EXPECT_EQ(look_until_found(*renewal), "31");
  write("cert", "broken");
  while (warnings_.size() < 3) EXPECT_EQ(look(*renewal), "");
  EXPECT_EQ(news_.size(), 1U);
}

// Reading can fail for a reason outside the files, such as a lack of descriptors. So files that could not be
// used must be read again, although they have not changed.
TEST_F(RenewalTest, RejectedSetIsReadAtEachAttempt) {
  const auto renewal = make();
  bool refused = true;
  during_read_ = [&] {
    if (refused) write("key", "broken");
  };
  write("key", "broken");
  while (reads() < 3) EXPECT_EQ(look(*renewal), "");
  refused = false;
  write("key", "4");
  EXPECT_EQ(look_until_found(*renewal), "14");
}

// Replaces the key while the files are read: the new certificate must not be used with the old key.
TEST_F(RenewalTest, FilesThatChangeDuringTheReadAreReadAgain) {
  const auto renewal = make();
  bool changed = false;
  during_read_ = [&] {
    if (!std::exchange(changed, true)) write("key", "2");
  };
  write("cert", "2");
  EXPECT_EQ(look_until_found(*renewal), "22");
  EXPECT_EQ(reads(), 2U);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RenewalTest, HangingFileSystemDelaysOnlyItsOwnResult) {
  const auto renewal = make();
  hangs_ = true;
  write("key", "2");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(look(*renewal), "");
  EXPECT_EQ(reads(), 1U);
  {
    const std::lock_guard lock(mutex_);
    hangs_ = false;
  }
  released_.notify_all();
  EXPECT_EQ(look_until_found(*renewal), "12");
}

}  // namespace
}  // namespace rtrs::tls::renewal_test
