#include "backends/platform/tls/keys_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "backends/platform/address/unique_fd.hpp"
#include "backends/platform/tls/identity.hpp"

namespace rtrs::tls::keys_file_test {
namespace {

const std::string kHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";

std::string error_of(std::string_view text) {
  const auto keys = parse_keys(text);
  return keys ? "" : keys.error();
}

class KeysFile : public ::testing::Test {
 protected:
  KeysFile() {
    std::string folder = std::filesystem::temp_directory_path() / "urtrs-keys-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~KeysFile() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& text, unsigned mode) {
    const std::string path = folder_ + "/keys";
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string folder_;
};

TEST(Keys, a_line_is_an_identity_and_a_key) {
  const auto keys = parse_keys("# ours\n\n  alice:" + kHex + "  \r\nspace:station@x-1_2.y:" + kHex + "\n");
  ASSERT_TRUE(keys) << keys.error();
  ASSERT_EQ(keys->size(), 2U);
  const Key& key = keys->at("alice");
  for (std::size_t i = 0; i + 1 < key.size(); ++i) EXPECT_EQ(key[i], i);
  EXPECT_EQ(key.back(), 0xff);
  EXPECT_EQ(keys->count("space:station@x-1_2.y"), 1U);
}

TEST(Keys, uppercase_digits_and_a_missing_last_newline_are_accepted) {
  const auto keys = parse_keys("a:" + std::string(62, '0') + "aF");
  ASSERT_TRUE(keys) << keys.error();
  EXPECT_EQ(keys->at("a").back(), 0xaf);
}

TEST(Keys, an_error_names_the_line_but_not_the_key) {
  EXPECT_EQ(error_of("\nalice\n"), "line 2: not IDENTITY:KEY");
  EXPECT_NE(error_of(":" + kHex).find("line 1: an identity is"), std::string::npos);
  EXPECT_NE(error_of("a b:" + kHex).find("an identity is"), std::string::npos);
  EXPECT_NE(error_of(std::string(129, 'a') + ":" + kHex).find("an identity is"), std::string::npos);
  for (const std::string& bad : {kHex.substr(1), kHex + "0", std::string(63, '0') + "g", std::string()}) {
    const std::string error = error_of("a:" + bad);
    EXPECT_NE(error.find("64 hexadecimal digits"), std::string::npos) << bad;
    EXPECT_EQ(error.find("0a0b0c"), std::string::npos);
  }
  EXPECT_EQ(error_of("a:" + kHex + "\na:" + kHex), "line 2: duplicate key of a");
}

TEST(Keys, the_number_of_keys_is_limited) {
  std::string text;
  for (std::size_t i = 0; i < kMaxKeys; ++i) text += "n" + std::to_string(i) + ":" + kHex + "\n";
  ASSERT_TRUE(parse_keys(text));
  EXPECT_NE(error_of(text + "one-more:" + kHex).find("more than"), std::string::npos);
}

TEST(Keys, arbitrary_bytes_are_handled) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_FALSE(parse_keys(all));
  EXPECT_FALSE(parse_keys(std::string("a\0b:", 4) + kHex));
  EXPECT_TRUE(parse_keys(""));
}

TEST(Keys, written_lines_can_be_parsed) {
  Key key{};
  ASSERT_TRUE(make_key(key));
  Key other{};
  ASSERT_TRUE(make_key(other));
  EXPECT_NE(key, other);
  const auto keys = parse_keys(key_line("alice", key) + key_line("bob", other));
  ASSERT_TRUE(keys) << keys.error();
  EXPECT_EQ(keys->at("alice"), key);
  EXPECT_EQ(keys->at("bob"), other);
}

TEST_F(KeysFile, only_the_owner_and_its_group_may_have_read_access) {
  const std::string text = "alice:" + kHex + "\n";
  for (const unsigned mode : {0600U, 0400U, 0640U, 0440U}) EXPECT_TRUE(read_keys(write(text, mode))) << mode;
  for (const unsigned mode : {0660U, 0644U, 0444U, 0604U, 0620U, 0602U, 0610U, 0601U, 0666U}) {
    const auto keys = read_keys(write(text, mode));
    ASSERT_FALSE(keys) << mode;
    EXPECT_NE(keys.error().find("chmod 600 " + folder_ + "/keys"), std::string::npos) << keys.error();
  }
}

TEST_F(KeysFile, read_access_for_another_group_is_rejected) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = write("alice:" + kHex + "\n", 0640);
  ASSERT_EQ(::chown(path.c_str(), 0, 4242), 0);
  const auto keys = read_keys(path);
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().find("this process is not in the group 4242"), std::string::npos) << keys.error();
  EXPECT_TRUE(list_keys(path)) << "root manages the files of others";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(read_keys(path)) << "the group does not matter if it has no read access";
}

TEST_F(KeysFile, a_file_of_another_user_is_rejected) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = write("alice:" + kHex + "\n", 0600);
  ASSERT_EQ(::chown(path.c_str(), 4242, 4242), 0);
  const auto keys = read_keys(path);
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().find("belongs to user 4242"), std::string::npos) << keys.error();
}

TEST_F(KeysFile, a_check_for_another_user_accepts_its_files) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = write("alice:" + kHex + "\n", 0600);
  ASSERT_EQ(::chown(path.c_str(), 4242, 4242), 0);
  EXPECT_TRUE(read_keys(path, 4242));
  const auto of_another = read_keys(path, 4243);
  ASSERT_FALSE(of_another);
  EXPECT_NE(
      of_another.error().find("user 4242, who could change it; chown it to the user 4243 of the service"),
      std::string::npos)
      << of_another.error();
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const auto open = read_keys(path, 4242);
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().find("its mode is 0644"), std::string::npos) << open.error();
}

// Root appends to the file of a service; the service stays the owner.
TEST_F(KeysFile, root_adds_to_the_file_of_another_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = write("alice:" + kHex + "\n", 0600);
  ASSERT_EQ(::chown(path.c_str(), 4242, 4242), 0);
  const auto added = add_key(path, "bob", Key{});
  ASSERT_TRUE(added) << added.error();
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_uid, 4242U);
  const auto keys = list_keys(path);
  ASSERT_TRUE(keys) << keys.error();
  EXPECT_EQ(keys->size(), 2U);
  EXPECT_FALSE(read_keys(path));
}

TEST_F(KeysFile, a_pipe_is_rejected_without_blocking) {
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto text = read_secret_file(path, 100);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().find("not a regular file"), std::string::npos) << text.error();
  EXPECT_FALSE(read_secret_file(folder_, 100));
  EXPECT_NE(read_file(folder_ + "/none", 100).error().find("No such file"), std::string::npos);
}

TEST_F(KeysFile, a_long_file_is_rejected) {
  EXPECT_TRUE(read_file(write(std::string(5000, '#'), 0600), 5000));
  EXPECT_FALSE(read_file(write(std::string(5001, '#'), 0600), 5000));
}

TEST_F(KeysFile, a_file_without_keys_is_rejected) {
  const auto keys = read_keys(write("# none\n", 0600));
  ASSERT_FALSE(keys);
  EXPECT_NE(keys.error().find("urtrs key new"), std::string::npos);
}

TEST_F(KeysFile, adding_a_second_key_for_an_identity_is_rejected) {
  const std::string path = folder_ + "/keys";
  Key first{};
  Key second{};
  ASSERT_TRUE(make_key(first));
  ASSERT_TRUE(make_key(second));
  ASSERT_TRUE(add_key(path, "alice", first));
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777U, 0600U);
  const auto again = add_key(path, "alice", second);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().find("a key of alice already exists"), std::string::npos) << again.error();
  ASSERT_TRUE(add_key(path, "bob", second));
  const auto keys = read_keys(path);
  ASSERT_TRUE(keys) << keys.error();
  EXPECT_EQ(keys->at("alice"), first);
  EXPECT_EQ(keys->at("bob"), second);
}

// /proc/locks marks a waiting process with an arrow.
bool has_lock_waiter(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return false;
  const std::string inode = ":" + std::to_string(about.st_ino) + " ";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find("->") != std::string::npos && line.find(inode) != std::string::npos) return true;
  }
  return false;
}

TEST_F(KeysFile, concurrent_additions_wait_for_the_lock) {
  const std::string path = write("", 0600);
  const net::UniqueFd mine(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  ASSERT_EQ(::flock(mine.get(), LOCK_EX), 0);
  std::promise<bool> answer;
  std::future<bool> added = answer.get_future();
  std::thread other([&] { answer.set_value(add_key(path, "alice", Key{}).has_value()); });
  const auto is_over = [&added] {
    return added.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
  };
  for (int i = 0; i < 10'000 && !is_over() && !has_lock_waiter(path); ++i) continue;
  EXPECT_FALSE(is_over());
  const std::string line = key_line("alice", Key{});
  EXPECT_EQ(::write(mine.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  ::flock(mine.get(), LOCK_UN);
  EXPECT_FALSE(added.get()) << "the other process added this key first";
  other.join();
  EXPECT_TRUE(read_keys(path));
}

TEST_F(KeysFile, a_key_is_added_only_to_a_valid_keys_file) {
  const Key key{};
  EXPECT_FALSE(add_key(folder_ + "/keys", "not good", key));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/keys"));
  EXPECT_FALSE(add_key(write("something else", 0600), "alice", key));
  EXPECT_FALSE(add_key(write("", 0644), "alice", key));
  // The last line of the file has no newline.
  const std::string path = write("bob:" + kHex, 0600);
  ASSERT_TRUE(add_key(path, "alice", key));
  EXPECT_EQ(read_keys(path)->size(), 2U);
}

TEST(Identity, valid_and_invalid_identities) {
  for (const char* good : {"a", "host-1.example.org", "user@host:1", "A_9"})
    EXPECT_TRUE(is_identity(good)) << good;
  EXPECT_TRUE(is_identity(std::string(128, 'x')));
  for (const char* bad : {"", "a b", "a/b", "a\nb", "a%b", "\xc3\xa4", "a\"b"})
    EXPECT_FALSE(is_identity(bad)) << bad;
  EXPECT_FALSE(is_identity(std::string(129, 'x')));
  EXPECT_FALSE(is_identity(std::string_view("a\0b", 3)));
}

TEST(Identity, control_characters_are_escaped) {
  EXPECT_EQ(shown_identity("a\x1b[1m\n"), "a\\x1b\\x5b1m\\x0a");
  EXPECT_EQ(shown_identity(std::string(200, 'x')), std::string(128, 'x') + "...");
}

}  // namespace
}  // namespace rtrs::tls::keys_file_test
