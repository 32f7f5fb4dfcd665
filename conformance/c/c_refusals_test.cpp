// Calls that the functions of urtrs.h refuse, and their error messages, with the real server.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "conformance/c/test_c_interface.hpp"

namespace rtrs::conformance::c_refusals_test {
namespace {

TEST_F(CInterfaceTest, InvalidCallsReturnTheirErrno) {
  urtrs_device* device = open("disk", URTRS_READ_ONLY);
  std::vector<char> data(4096);
  EXPECT_EQ(urtrs_write(device, data.data(), data.size(), 0, 0, -1), -EPERM);
  EXPECT_EQ(urtrs_read(device, data.data(), 100, 0, -1), -EINVAL);
  EXPECT_EQ(urtrs_read(device, data.data(), data.size(), kDiskBytes, -1), -EIO);
  EXPECT_EQ(urtrs_read(device, nullptr, data.size(), 0, -1), -EINVAL);
  EXPECT_EQ(urtrs_write(device, data.data(), data.size(), 0, 64, -1), -EINVAL);
  EXPECT_EQ(urtrs_discard(device, 4096, 0, URTRS_NO_UNMAP, -1), -EINVAL);
  EXPECT_EQ(urtrs_read_async(device, data.data(), data.size(), 0, nullptr, nullptr), -EINVAL);
  EXPECT_EQ(urtrs_read(nullptr, data.data(), data.size(), 0, -1), -EINVAL);
  urtrs_device* none = nullptr;
  EXPECT_EQ(urtrs_device_open(session_, "no_such", 0, kLong, &none), -ENOENT);
  EXPECT_STREQ(urtrs_session_message(session_), "no_such: No such file or directory");
  EXPECT_EQ(urtrs_device_open(session_, "disk", 0, kLong, &none), -EEXIST);
  EXPECT_EQ(urtrs_device_open(session_, "other", URTRS_READ_ONLY | URTRS_MIGRATION, kLong, &none), -EINVAL);
  EXPECT_EQ(urtrs_device_open(session_, "other", URTRS_READ_ONLY, kLong, nullptr), -EINVAL);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(urtrs_session_open(session_), -EBUSY);
  EXPECT_EQ(urtrs_session_set(session_, "crc", "1"), -EBUSY);
  EXPECT_EQ(urtrs_session_close(session_, kLong), 0);
  EXPECT_EQ(urtrs_read(device, data.data(), data.size(), 0, -1), -ESHUTDOWN);
  EXPECT_STREQ(urtrs_session_message(session_), "disk: read: the session is closed");
  // The call must not block forever.
  EXPECT_EQ(urtrs_session_wait(session_, -1), -ESHUTDOWN);
}

TEST_F(CInterfaceTest, OversizedRequestsAreRefusedWithoutAllocation) {
  urtrs_device* device = open();
  char byte = 0;
  for (const std::size_t length : {SIZE_MAX & ~std::size_t{511}, std::size_t{1} << 50, kDiskBytes + 512}) {
    for (const int timeout : {-1, kLong}) {
      EXPECT_EQ(urtrs_read(device, &byte, length, 0, timeout), -EINVAL) << length;
      EXPECT_NE(std::strstr(urtrs_session_message(session_), "disk: read: "), nullptr);
      EXPECT_EQ(urtrs_write(device, &byte, length, 0, 0, timeout), -EINVAL) << length;
      EXPECT_EQ(urtrs_zero(device, length, 0, 0, timeout), -EINVAL) << length;
    }
    EXPECT_EQ(urtrs_read_async(device, &byte, length, 0, Ended::on_done, nullptr), -EINVAL);
  }
  EXPECT_EQ(urtrs_read(device, &byte, 512, UINT64_MAX - 511, kLong), -EINVAL);
  EXPECT_EQ(stats().under_way, 0U);
}

TEST_F(CInterfaceTest, ReadOnlyDeviceRefusesEveryChange) {
  urtrs_device* device = open("disk", URTRS_READ_ONLY);
  char data[512] = {};
  EXPECT_EQ(urtrs_write(device, data, sizeof data, 0, 0, -1), -EPERM);
  EXPECT_EQ(urtrs_zero(device, 4096, 0, 0, -1), -EPERM);
  EXPECT_EQ(urtrs_discard(device, 4096, 0, 0, -1), -EPERM);
}

TEST_F(CInterfaceTest, ErrorMessageNamesNoUnrelatedPaths) {
  EXPECT_EQ(urtrs_session_add_path(session_, nullptr, "127.0.0.2", port_), 0);  // no server listens there
  urtrs_device* device = open();
  urtrs_path path{};
  const Nanos end = platform::steady_now() + seconds(60);
  do {
    urtrs_session_wait(session_, 10);
    ASSERT_EQ(urtrs_session_get_path(session_, 0, &path, sizeof path), 0);
  } while (std::strcmp(path.reason, "connect_refused") != 0 && platform::steady_now() < end);
  std::array<char, 512> data{};
  EXPECT_EQ(urtrs_read(device, data.data(), 512, kDiskBytes, -1), -EIO);
  EXPECT_STREQ(urtrs_session_message(session_), "disk: read: Input/output error");
  EXPECT_EQ(urtrs_device_open(session_, "no_such", 0, kLong, &device), -ENOENT);
  EXPECT_STREQ(urtrs_session_message(session_), "no_such: No such file or directory");
}

TEST_F(CInterfaceTest, MessageIsThatOfTheLastCall) {
  urtrs_device* device = open();
  char data[512];
  EXPECT_EQ(urtrs_read(device, data, 100, 0, -1), -EINVAL);
  EXPECT_STREQ(urtrs_session_message(session_), "disk: read: Invalid argument");
  stats();
  EXPECT_STREQ(urtrs_session_message(session_), "disk: read: Invalid argument");
  EXPECT_EQ(urtrs_read(device, data, 512, 0, -1), 0);
  EXPECT_STREQ(urtrs_session_message(session_), "");
  for (const int timeout : {-1, kLong}) {
    EXPECT_EQ(urtrs_read(device, data, 512, 0, timeout), 0);
    EXPECT_EQ(urtrs_read(device, nullptr, 512, 0, timeout), -EINVAL);
    EXPECT_STREQ(urtrs_session_message(session_), "disk: read: no memory is given");
  }
}

TEST_F(CInterfaceTest, CallbacksDuringFreeCannotStartRequests) {
  struct Asking {
    urtrs_session* session;
    urtrs_device* device;
    int count = 0;
    char data[512] = {};
    static void on_done(void* user, int error) {
      Asking& self = *static_cast<Asking*>(user);
      ++self.count;
      EXPECT_EQ(error, -ECANCELED);
      urtrs_device_info info{};
      EXPECT_EQ(urtrs_device_get_info(self.device, &info, sizeof info), -ESHUTDOWN);
      urtrs_device* device = nullptr;
      EXPECT_EQ(urtrs_device_open_async(self.session, "other", 0, on_done, user, &device), -ENOTCONN);
      EXPECT_EQ(urtrs_read_async(self.device, self.data, 512, 0, on_done, user), -ESHUTDOWN);
      EXPECT_EQ(urtrs_session_open(self.session), -EBUSY);
      EXPECT_EQ(urtrs_session_free(self.session), -EDEADLK);
    }
  } asking{session_, open()};
  answers_ = false;
  EXPECT_EQ(urtrs_read_async(asking.device, asking.data, 512, 0, Asking::on_done, &asking), 0);
  EXPECT_EQ(urtrs_session_free(session_), 0);
  session_ = nullptr;
  EXPECT_EQ(asking.count, 1);
}

}  // namespace
}  // namespace rtrs::conformance::c_refusals_test
