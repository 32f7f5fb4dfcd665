// Tests the functions of urtrs.h with the real server.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "conformance/c/test_c_interface.hpp"

namespace rtrs::conformance::c_interface_test {
namespace {

TEST_F(CInterfaceTest, ReadsBackWhatItWroteWithAndWithoutATimeout) {
  urtrs_device* device = open();
  std::vector<char> written(1 << 20);
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<char>(i * 31 >> 4);
  for (const int timeout : {-1, kLong}) {
    std::vector<char> read(written.size());
    EXPECT_EQ(urtrs_write(device, written.data(), written.size(), 4096, 0, timeout), 0);
    EXPECT_EQ(urtrs_flush(device, timeout), 0);
    EXPECT_EQ(urtrs_read(device, read.data(), read.size(), 4096, timeout), 0);
    EXPECT_EQ(read, written);
    EXPECT_EQ(urtrs_zero(device, 4096, 4096, URTRS_NO_UNMAP | URTRS_FUA, timeout), 0);
    EXPECT_EQ(urtrs_discard(device, 4096, 8192, 0, timeout), 0);
    EXPECT_EQ(urtrs_read(device, read.data(), 4096, 4096, timeout), 0);
    EXPECT_EQ(read[1], 0);
  }
  urtrs_device_info info{};
  EXPECT_EQ(urtrs_device_get_info(device, &info, sizeof info), 0);
  EXPECT_EQ(info.size, kDiskBytes);
  EXPECT_TRUE(info.is_open != 0 && info.writable != 0 && info.can_zero != 0 && info.write_cache != 0);
  EXPECT_EQ(urtrs_device_close(device, kLong), 0);
  EXPECT_EQ(urtrs_session_close(session_, kLong), 0);
  EXPECT_EQ(disks_["disk"].flushes, 2U + 2U);  // two more for the write zeroes with FUA
}

TEST_F(CInterfaceTest, OlderProgramMayPassASmallerStructure) {
  urtrs_device* device = open();
  urtrs_device_info info;
  std::memset(&info, 0x5a, sizeof info);
  EXPECT_EQ(urtrs_device_get_info(device, &info, sizeof info.size), 0);
  EXPECT_EQ(info.size, kDiskBytes);
  EXPECT_EQ(info.block_size, 0x5a5a5a5aU);
  EXPECT_EQ(urtrs_device_get_info(device, nullptr, sizeof info), -EINVAL);
  EXPECT_EQ(urtrs_device_get_info(device, &info, 0), -EINVAL);
}

TEST_F(CInterfaceTest, NewerProgramGetsZeroForUnknownFields) {
  struct {
    urtrs_stats known;
    std::uint64_t more;
  } younger;
  std::memset(&younger, 0x5a, sizeof younger);
  EXPECT_EQ(urtrs_session_get_stats(session_, &younger.known, sizeof younger), 0);
  EXPECT_EQ(younger.more, 0U);
}

TEST_F(CInterfaceTest, CallbacksRunOnlyInPollAndMayStartRequests) {
  urtrs_device* device = open();
  struct Chain {
    urtrs_session* session;
    urtrs_device* device;
    std::array<char, 4096> data;
    int left;
    static void on_done(void* user, int error) {
      Chain& chain = *static_cast<Chain*>(user);
      EXPECT_EQ(error, 0);
      // Inside a callback, a blocking call would wait for itself.
      EXPECT_EQ(urtrs_read(chain.device, chain.data.data(), 4096, 0, -1), -EDEADLK);
      EXPECT_EQ(urtrs_session_poll(chain.session), -EDEADLK);
      EXPECT_EQ(urtrs_session_wait(chain.session, 1), -EDEADLK);
      EXPECT_EQ(urtrs_device_close(chain.device, 1), -EDEADLK);
      EXPECT_EQ(urtrs_session_close(chain.session, 1), -EDEADLK);
      EXPECT_EQ(urtrs_session_free(chain.session), -EDEADLK);
      if (--chain.left > 0) {
        EXPECT_EQ(urtrs_read_async(chain.device, chain.data.data(), 4096, 0, on_done, user), 0);
      }
    }
  };
  Chain chain{session_, device, {}, 5};
  ASSERT_EQ(urtrs_read_async(device, chain.data.data(), 4096, 0, Chain::on_done, &chain), 0);
  EXPECT_EQ(chain.left, 5);
  EXPECT_EQ(stats().under_way, 1U);
  const Nanos end = platform::steady_now() + seconds(60);
  while (chain.left > 0 && platform::steady_now() < end) {
    pollfd news{urtrs_session_fd(session_), POLLIN, 0};
    ::poll(&news, 1, urtrs_session_prepare(session_));
    ASSERT_GE(urtrs_session_poll(session_), 0);
  }
  EXPECT_EQ(chain.left, 0);
  EXPECT_EQ(stats().under_way, 0U);
}

TEST_F(CInterfaceTest, CallbackMayStartMoreRequestsThanEverBefore) {
  struct Tree {
    urtrs_device* device;
    std::vector<char> data = std::vector<char>(512);
    unsigned begun = 0;
    unsigned ended = 0;
    bool begin() {
      ++begun;
      return urtrs_read_async(device, data.data(), data.size(), 0, on_done, this) == 0;
    }
    static void on_done(void* user, int error) {
      Tree& tree = *static_cast<Tree*>(user);
      EXPECT_EQ(error, 0);
      ++tree.ended;
      for (int i = 0; i < 4 && tree.begun < 500; ++i) EXPECT_TRUE(tree.begin());
    }
  };
  Tree tree{open()};
  ASSERT_TRUE(tree.begin());
  const Nanos end = platform::steady_now() + seconds(60);
  while (tree.ended < tree.begun && platform::steady_now() < end) urtrs_session_wait(session_, 100);
  EXPECT_EQ(tree.ended, 500U);
}

TEST_F(CInterfaceTest, MemoryBelongsToTheCallerAfterATimeout) {
  urtrs_device* device = open();
  std::vector<char> written(8192, 'w');
  answers_ = false;
  // Both buffers are freed right after the timeout; a sanitizer would report a later access by the library.
  {
    std::vector<char> copy = written;
    EXPECT_EQ(urtrs_write(device, copy.data(), copy.size(), 0, 0, 20), -ETIMEDOUT);
    std::vector<char> into(8192);
    EXPECT_EQ(urtrs_read(device, into.data(), into.size(), 16384, 20), -ETIMEDOUT);
  }
  EXPECT_NE(std::strstr(urtrs_session_message(session_), "disk: read"), nullptr);
  EXPECT_EQ(stats().under_way, 2U);
  answers_ = true;
  const Nanos end = platform::steady_now() + seconds(60);
  while (stats().under_way != 0 && platform::steady_now() < end) urtrs_session_wait(session_, 10);
  std::vector<char> read(8192);
  EXPECT_EQ(urtrs_read(device, read.data(), read.size(), 0, -1), 0);
  EXPECT_EQ(read, written);
}

TEST_F(CInterfaceTest, FreeingASessionCompletesEveryRequestOnce) {
  urtrs_device* device = open();
  answers_ = false;
  std::array<Ended, 3> ended;
  std::vector<char> data(4096);
  EXPECT_EQ(urtrs_read_async(device, data.data(), data.size(), 0, Ended::on_done, &ended[0]), 0);
  EXPECT_EQ(urtrs_flush_async(device, Ended::on_done, &ended[1]), 0);
  urtrs_device* never = nullptr;
  EXPECT_EQ(urtrs_device_open_async(session_, "other", 0, Ended::on_done, &ended[2], &never), 0);
  EXPECT_EQ(urtrs_session_close(session_, 20), -ETIMEDOUT);
  EXPECT_EQ(urtrs_session_free(session_), 0);
  session_ = nullptr;
  for (const Ended& one : ended) EXPECT_EQ(one.count, 1);
  EXPECT_EQ(ended[0].error, -ECANCELED);
}

TEST_F(CInterfaceTest, DeviceClosedBeforeItOpenedReportsAnError) {
  open();
  answers_ = false;
  Ended ended;
  urtrs_device* device = nullptr;
  ASSERT_EQ(urtrs_device_open_async(session_, "other", 0, Ended::on_done, &ended, &device), 0);
  EXPECT_EQ(urtrs_device_close(device, 20), -ETIMEDOUT);
  EXPECT_EQ(ended.count, 1);
  EXPECT_NE(ended.error, 0);
  answers_ = true;
  EXPECT_EQ(stats().devices, 1U);
}

TEST_F(CInterfaceTest, UnopenedSessionAcceptsOnlySettings) {
  urtrs_device* device = nullptr;
  EXPECT_EQ(urtrs_device_open(session_, "disk", 0, kLong, &device), -ENOTCONN);
  EXPECT_EQ(urtrs_session_wait(session_, 0), -ENOTCONN);
  EXPECT_EQ(urtrs_session_fd(session_), -1);
  EXPECT_EQ(urtrs_session_prepare(session_), -1);
  EXPECT_EQ(urtrs_session_poll(session_), 0);
  EXPECT_EQ(urtrs_session_open(session_), -EINVAL);
  EXPECT_EQ(urtrs_session_add_path(session_, nullptr, "", 1), -EINVAL);
  for (const auto& [setting, value] : {std::pair{"no_such", "1"}, std::pair{"heartbeat_missed", "0"},
                                       std::pair{"reconnect_min_ms", "1x"}, std::pair{"fabric", "pigeon"}})
    EXPECT_EQ(urtrs_session_set(session_, setting, value), -EINVAL) << setting;
  for (const auto& [setting, value] :
       {std::pair{"crc", "1"}, std::pair{"queue_timeout_ms", "-1"}, std::pair{"io_connections", "1"},
        std::pair{"heartbeat_interval_ms", "500"}, std::pair{"heartbeat_interval", "500ms"},
        std::pair{"crc", "on"}, std::pair{"connections", "1"}, std::pair{"queue_timeout", "never"}})
    EXPECT_EQ(urtrs_session_set(session_, setting, value), 0) << setting;
  EXPECT_NE(open(), nullptr);
  urtrs_path path{};
  EXPECT_EQ(urtrs_session_get_path(session_, 0, &path, sizeof path), 0);
  EXPECT_STREQ(path.state, "connected");
  EXPECT_STREQ(path.destination, "127.0.0.1");
  EXPECT_EQ(path.port, port_);
  EXPECT_EQ(urtrs_session_get_path(session_, 1, &path, sizeof path), -ENOENT);
}

TEST_F(CInterfaceTest, ReportsPathChanges) {
  struct Told {
    unsigned count = 0;
    std::uint32_t last = 99;
    static void on_path(void* told, std::uint32_t index) {
      ++static_cast<Told*>(told)->count;
      static_cast<Told*>(told)->last = index;
    }
  };
  Told told;
  EXPECT_EQ(urtrs_session_on_path(session_, Told::on_path, &told), 0);
  open();
  EXPECT_GE(told.count, 1U);
  EXPECT_EQ(told.last, 0U);
}

unsigned threads() {
  return static_cast<unsigned>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

TEST_F(CInterfaceTest, NoThreadIsStartedWithoutHostNames) {
  const unsigned before = threads();
  EXPECT_EQ(urtrs_session_set(session_, "host_names", "0"), 0);
  EXPECT_EQ(urtrs_session_add_path(session_, nullptr, "localhost", port_), 0);
  urtrs_device* device = open();
  std::vector<char> data(4096);
  EXPECT_EQ(urtrs_read(device, data.data(), data.size(), 0, -1), 0);
  EXPECT_EQ(threads(), before);
  urtrs_path path{};
  EXPECT_EQ(urtrs_session_get_path(session_, 0, &path, sizeof path), 0);
  EXPECT_STREQ(path.reason, "name_unresolved");
}

TEST(CInterface, ErrorTextsAndInvalidSessionNames) {
  EXPECT_STREQ(urtrs_strerror(0), "success");
  EXPECT_STREQ(urtrs_strerror(-ENOENT), "No such file or directory");
  EXPECT_STREQ(urtrs_strerror(-99999), "unknown error");
  urtrs_session* session = nullptr;
  for (const char* name : {"", "a/b", "a.b", "a\nb"}) EXPECT_EQ(urtrs_session_new(name, &session), -EINVAL);
  EXPECT_EQ(urtrs_session_new(std::string(255, 'n').c_str(), &session), -EINVAL);
  EXPECT_EQ(urtrs_session_new(nullptr, &session), -EINVAL);
  EXPECT_EQ(session, nullptr);
  EXPECT_EQ(urtrs_session_free(nullptr), 0);
}

}  // namespace
}  // namespace rtrs::conformance::c_interface_test
