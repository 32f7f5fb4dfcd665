// Tests the messages to a service manager over real sockets.
#include "tools/urtrsd/service_notifier.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::daemon::service_notifier_test {
namespace {

class Manager {
 public:
  explicit Manager(const std::string& name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  }

  // Returns the next message; empty if none is waiting.
  std::string next() {
    std::array<char, 256> text{};
    const auto size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(size));
  }

 private:
  UniqueFd fd_;
};

class ServiceNotifierTest : public testing::TestWithParam<bool> {
 protected:
  // Name of the socket: a path, or a name in the abstract namespace.
  std::string name() const {
    return GetParam() ? folder_ / "notify" : "@urtrs-notify-test-" + std::to_string(::getpid());
  }

  tools::ScratchFolder folder_;
  boost::asio::io_context context_{1};
};

TEST_P(ServiceNotifierTest, EachMessageIsOneDatagram) {
  Manager manager(name());
  ServiceNotifier notifier(context_, {name(), {}});
  EXPECT_EQ(manager.next(), "");
  notifier.ready("2 exports");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=2 exports\n");
  notifier.status("1 session");
  EXPECT_EQ(manager.next(), "STATUS=1 session\n");
  notifier.stopping("SIGTERM");
  EXPECT_EQ(manager.next(), "STOPPING=1\nSTATUS=SIGTERM\n");
  EXPECT_EQ(manager.next(), "");
}

TEST_P(ServiceNotifierTest, WithoutAWatchdogNoWorkIsScheduled) {
  Manager manager(name());
  ServiceNotifier notifier(context_, {name(), {}});
  notifier.ready("");
  EXPECT_EQ(context_.run(), 0U);
}

TEST_P(ServiceNotifierTest, WatchdogMessagesAreSentByTheEventLoop) {
  Manager manager(name());
  ServiceNotifier notifier(context_, {name(), std::chrono::milliseconds(2)});
  notifier.ready("");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=\n");
  EXPECT_EQ(manager.next(), "WATCHDOG=1\n");
  EXPECT_EQ(manager.next(), "");  // the event loop does not run, so no message is sent
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(context_.run_one(), 1U);
    EXPECT_EQ(manager.next(), "WATCHDOG=1\n");
  }
}

TEST_P(ServiceNotifierTest, AManagerThatDoesNotReadBlocksNothing) {
  Manager manager(name());
  ServiceNotifier notifier(context_, {name(), {}});
  for (int i = 0; i < 10000; ++i) notifier.status(std::string(200, 's'));
  EXPECT_EQ(manager.next(), "STATUS=" + std::string(200, 's') + "\n");
}

INSTANTIATE_TEST_SUITE_P(Sockets, ServiceNotifierTest, testing::Bool());

TEST(ServiceNotifier, WithoutASocketNothingIsSent) {
  boost::asio::io_context context(1);
  const std::string long_name = "/" + std::string(200, 'n');
  for (const char* socket : {"", "/nonexistent/notify", "relative", long_name.c_str()}) {
    ServiceNotifier notifier(context, {socket, std::chrono::milliseconds(2)});
    notifier.ready("");
    notifier.stopping("");
  }
  EXPECT_EQ(context.run(), 0U);
}

TEST(ServiceNotifier, TheEnvironmentIsReadAndRemoved) {
  ::setenv("NOTIFY_SOCKET", "@there", 1);
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  const ServiceEnvironment taken = take_service_environment();
  EXPECT_EQ(taken.socket, "@there");
  EXPECT_EQ(taken.watchdog, std::chrono::seconds(3));
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  EXPECT_EQ(take_service_environment().socket, "");
}

TEST(ServiceNotifier, InvalidAndForeignWatchdogsAreIgnored) {
  for (const auto& [period, process] : {std::pair{"3000000", "1"}, {"-1", ""}, {"soon", ""}, {"0", ""}}) {
    ::setenv("WATCHDOG_USEC", period, 1);
    if (*process != '\0') ::setenv("WATCHDOG_PID", process, 1);
    EXPECT_EQ(take_service_environment().watchdog.count(), 0) << period << ' ' << process;
  }
}

}  // namespace
}  // namespace rtrs::daemon::service_notifier_test
