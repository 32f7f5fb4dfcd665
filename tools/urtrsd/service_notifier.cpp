#include "tools/urtrsd/service_notifier.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/storage/open_error.hpp"

namespace rtrs::daemon {
namespace {

std::string take(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

// Returns 0 or an errno.
int connect_to(int fd, const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
  if (socket.front() != '/' && socket.front() != '@') return EAFNOSUPPORT;
  std::memcpy(address.sun_path, socket.data(), socket.size());
  std::size_t length = offsetof(sockaddr_un, sun_path) + socket.size();
  if (socket.front() == '@')
    address.sun_path[0] = '\0';
  else
    ++length;  // a path includes its NUL
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(fd, plain, static_cast<socklen_t>(length)) == 0 ? 0 : errno;
}

}  // namespace

ServiceEnvironment take_service_environment() {
  ServiceEnvironment environment;
  environment.socket = take("NOTIFY_SOCKET");
  const auto period = parse_integer(take("WATCHDOG_USEC"));
  const std::string process = take("WATCHDOG_PID");
  const bool ours = process.empty() || process == std::to_string(::getpid());
  if (period && *period > 0 && ours) environment.watchdog = std::chrono::microseconds(*period);
  return environment;
}

ServiceNotifier::ServiceNotifier(boost::asio::io_context& context, const ServiceEnvironment& environment)
    : socket_(environment.socket), interval_(environment.watchdog / 2), timer_(context) {
  if (socket_.empty()) return;
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int error = fd.get() < 0 ? errno : connect_to(fd.get(), socket_);
  if (error == 0)
    fd_ = std::move(fd);
  else
    spdlog::warn("cannot send messages to the service manager at NOTIFY_SOCKET={}: {}", in_quotes(socket_),
                 errno_text(error));
}

void ServiceNotifier::ready(std::string_view status) {
  send("READY=1\nSTATUS=" + std::string(status) + "\n");
  if (fd_.get() >= 0 && interval_.count() > 0) answer_watchdog();
}

void ServiceNotifier::status(std::string_view status) {
  send("STATUS=" + std::string(status) + "\n");
}

void ServiceNotifier::stopping(std::string_view status) {
  send("STOPPING=1\nSTATUS=" + std::string(status) + "\n");
}

void ServiceNotifier::answer_watchdog() {
  send("WATCHDOG=1\n");
  timer_.expires_after(interval_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) answer_watchdog();
  });
}

void ServiceNotifier::send(const std::string& message) {
  if (fd_.get() < 0) return;
  // Does not block, because a service manager that does not read its socket must not stop IO. If READY=1 is
  // lost in this way, the manager stops urtrsd after the start timeout.
  const bool sent = ::send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  if (std::exchange(refused_, !sent) || sent) return;
  spdlog::warn("cannot notify the service manager at NOTIFY_SOCKET={} {}: {}", in_quotes(socket_),
               in_quotes(message.substr(0, message.find('\n'))), errno_text(errno));
}

}  // namespace rtrs::daemon
