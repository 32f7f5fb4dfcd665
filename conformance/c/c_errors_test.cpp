// Errors of the functions in urtrs.h that need no server: settings, paths, missing descriptors, and waiting
// for an unreachable server.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "backends/bindings/c/urtrs.h"
#include "backends/platform/tls/tls.hpp"

namespace rtrs::conformance::c_errors_test {
namespace {

class CErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(urtrs_session_new("c", &session_), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ASSERT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    ASSERT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  void TearDown() override {
    EXPECT_EQ(urtrs_session_free(session_), 0);
    ::close(socket_);
  }

  std::string message() const { return urtrs_session_message(session_); }
  void set(const char* setting, const char* value) {
    EXPECT_EQ(urtrs_session_set(session_, setting, value), 0) << message();
  }
  std::string refused_setting(const char* setting, const char* value) {
    EXPECT_EQ(urtrs_session_set(session_, setting, value), -EINVAL);
    return message();
  }
  int add(const char* destination, const char* source = nullptr) {
    return urtrs_session_add_path(session_, source, destination, port_);
  }
  // Opens a session to a port where nobody listens.
  void open() {
    EXPECT_EQ(add("127.0.0.1"), 0);
    EXPECT_EQ(urtrs_session_open(session_), 0) << message();
  }
  bool message_contains(const char* words) const { return message().find(words) != std::string::npos; }

  urtrs_session* session_ = nullptr;
  int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // bound, but not listening
  std::uint16_t port_ = 0;
};

TEST_F(CErrors, MissingDescriptorsAreNotReportedAsMissingMemory) {
  EXPECT_EQ(add("127.0.0.1"), 0);
  urtrs_session* before = nullptr;  // opened while enough descriptors are free
  ASSERT_EQ(urtrs_session_new("before", &before), 0);
  EXPECT_EQ(urtrs_session_add_path(before, nullptr, "127.0.0.1", port_), 0);
  EXPECT_EQ(urtrs_session_open(before), 0);
  EXPECT_EQ(urtrs_session_free(before), 0);
  std::vector<int> taken;
  for (int one = ::dup(socket_); one >= 0; one = ::dup(socket_)) taken.push_back(one);
  ASSERT_EQ(errno, EMFILE);
  // Two descriptors are free; a session needs more.
  for (int left = 0; left < 2; ++left, taken.pop_back()) ::close(taken.back());
  const int error = urtrs_session_open(session_);
  for (const int one : taken) ::close(one);
  EXPECT_EQ(error, -EMFILE);
  EXPECT_TRUE(message_contains("no file descriptor is left")) << message();
}

TEST_F(CErrors, DeviceOpenWaitsAtMostQueueTimeout) {
  set("queue_timeout_ms", "200");
  EXPECT_EQ(add("127.0.0.1", "127.0.0.1"), 0);
  EXPECT_EQ(urtrs_session_open(session_), 0);
  urtrs_device* device = nullptr;
  EXPECT_EQ(urtrs_device_open(session_, "disk", 0, -1, &device), -ETIMEDOUT);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(message(), "disk: Connection timed out (127.0.0.1@127.0.0.1: connect_refused)");
  struct Ended {
    int count = 0;
    int error = 0;
  } ended;
  const auto on_done = [](void* user, int error) {
    ++static_cast<Ended*>(user)->count;
    static_cast<Ended*>(user)->error = error;
  };
  ASSERT_EQ(urtrs_device_open_async(session_, "disk", 0, on_done, &ended, &device), 0);
  while (ended.count == 0) ASSERT_GE(urtrs_session_wait(session_, 60'000), 0);
  EXPECT_EQ(ended.error, -ETIMEDOUT);
  EXPECT_EQ(urtrs_device_close(device, 0), 0);
  EXPECT_EQ(ended.count, 1);
}

TEST_F(CErrors, ExhaustedAttemptsReportTheLastReason) {
  set("max_reconnect_attempts", "1");
  set("reconnect_min_ms", "1");
  open();
  urtrs_device* device = nullptr;
  EXPECT_EQ(urtrs_device_open(session_, "disk", 0, -1, &device), -EIO);
  EXPECT_EQ(message(),
            "disk: Input/output error (127.0.0.1: attempts_exhausted, the last with connect_refused)");
  // The path makes no further attempts, so a second open must fail in the same way.
  EXPECT_EQ(urtrs_device_open(session_, "disk", 0, -1, &device), -EIO);
  urtrs_path path{};
  EXPECT_EQ(urtrs_session_get_path(session_, 0, &path, sizeof path), 0);
  EXPECT_STREQ(path.reason, "attempts_exhausted");
  EXPECT_STREQ(path.last_cause, "connect_refused");
}

TEST_F(CErrors, SettingErrorsNameTheValidValues) {
  EXPECT_EQ(refused_setting("crc", "maybe"), "crc=maybe: expected on or off");
  EXPECT_EQ(refused_setting("fabric", "pigeon"), "fabric=pigeon: expected tcp or verbs");
  EXPECT_EQ(refused_setting("io_connections", "0"),
            "io_connections: connections=0: expected a whole number from 1 to 4095");
  EXPECT_EQ(
      refused_setting("queue_timeout_ms", "soon"),
      "queue_timeout_ms=soon: expected a whole number from -1 to 2147483647 milliseconds, -1 for never");
  EXPECT_EQ(refused_setting("reconnect_min_ms", "-1"),
            "reconnect_min_ms=-1: expected a whole number from 1 to 2147483647 milliseconds");
  EXPECT_EQ(refused_setting("max_reconnect_attempts", "x"),
            "max_reconnect_attempts=x: expected a whole number from -1 to 2147483647");
  // An empty file name must not silently disable TLS.
  EXPECT_EQ(refused_setting("tls_keys", ""), "tls_keys=: is empty");
  const std::string unknown = refused_setting("no_such", "1");
  EXPECT_EQ(unknown.find("unknown setting no_such; the settings are host_names, "), 0U) << unknown;
  EXPECT_NE(unknown.find("tls_keys"), std::string::npos);
}

TEST_F(CErrors, InvalidPathsAreRefusedAtOnce) {
  for (const char* wrong : {"", "10.0.0.256", "a@b", "10.0.0.1,10.0.0.2", "127.0.0.1:70000", "fd00::zz",
                            "[::1", "two words", "a/b"}) {
    EXPECT_EQ(add(wrong), -EINVAL) << wrong;
    EXPECT_TRUE(message_contains("path '")) << message();
  }
  EXPECT_EQ(add("127.0.0.1", "127.0.0.1:7"), -EINVAL);
  EXPECT_EQ(add("127.0.0.1", "a@b"), -EINVAL);
  EXPECT_EQ(urtrs_session_add_path(session_, nullptr, nullptr, 0), -EINVAL);
  EXPECT_EQ(add("gid:fe80::1"), 0);
  EXPECT_EQ(urtrs_session_open(session_), -EINVAL);
  EXPECT_EQ(message(), "gid:fe80::1: gid: is an address of the fabric verbs");
}

TEST_F(CErrors, ExistingPathIsRefusedInAnySpelling) {
  const auto refuses = [this] {
    EXPECT_EQ(add("[FD00:0::1]", "FD00::2"), -EEXIST);
    EXPECT_TRUE(message_contains("already")) << message();
    EXPECT_EQ(add("ip:fd00::1", "fd00::2"), -EEXIST);
  };
  EXPECT_EQ(add("fd00::1", "fd00::2"), 0);
  refuses();
  open();
  refuses();
  EXPECT_EQ(urtrs_session_add_path(session_, nullptr, "127.0.0.1", static_cast<std::uint16_t>(port_ ^ 1U)),
            0);
}

TEST_F(CErrors, SessionHasAtMost128Paths) {
  for (unsigned path = 2; path < 128; ++path) EXPECT_EQ(add(("127.0.0." + std::to_string(path)).c_str()), 0);
  open();
  EXPECT_EQ(add("127.0.0.128"), 0);
  EXPECT_EQ(add("127.0.0.129"), -ENOSPC);
  EXPECT_EQ(message(), "a session has 128 paths at most");
}

TEST_F(CErrors, TlsFilesAreReadWhenTheSessionIsOpened) {
  if (!tls::available()) GTEST_SKIP() << "a build without TLS";
  EXPECT_EQ(add("127.0.0.1"), 0);
  set("tls_keys", "/no/such/file");
  EXPECT_EQ(urtrs_session_open(session_), -ENOENT);
  EXPECT_TRUE(message_contains("/no/such/file")) << message();
  const std::string file = ::testing::TempDir() + "c_errors_test.keys";
  const std::string key(64, 'a');
  std::ofstream(file) << "alice:" << key << "\nbob:" << key << "\n";
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  set("tls_keys", file.c_str());
  EXPECT_EQ(urtrs_session_open(session_), -EINVAL);
  EXPECT_EQ(message(), file + ": it has several keys; tls_identity has to name one of them: alice, bob");
  set("tls_identity", "bob");
  EXPECT_EQ(urtrs_session_open(session_), 0) << message();
  ::unlink(file.c_str());
}

TEST_F(CErrors, ForkedChildCannotUseTheSession) {
  open();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = urtrs_session_poll(session_) == -EBADF && urtrs_session_close(session_, 0) == -EBADF &&
                      message().find("fork(2)") != std::string::npos && urtrs_session_free(session_) == 0;
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GE(urtrs_session_poll(session_), 0);
}

TEST_F(CErrors, MissingArgumentsAreRefused) {
  EXPECT_EQ(urtrs_session_set(session_, nullptr, "1"), -EINVAL);
  EXPECT_EQ(urtrs_session_set(session_, "crc", nullptr), -EINVAL);
  open();
  urtrs_device* device = nullptr;
  EXPECT_EQ(urtrs_device_open(session_, nullptr, 0, 0, &device), -EINVAL);
  EXPECT_TRUE(message_contains("is missing")) << message();
  EXPECT_EQ(urtrs_device_open(session_, "", 0, 0, &device), -EINVAL);
  EXPECT_EQ(urtrs_device_open_async(session_, "disk", 0, nullptr, nullptr, &device), -EINVAL);
  EXPECT_EQ(urtrs_device_open(session_, "disk", 8, 0, &device), -EINVAL);
}

}  // namespace
}  // namespace rtrs::conformance::c_errors_test
