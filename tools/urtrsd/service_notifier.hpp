// Reports the state of urtrsd to the service manager that started it. The protocol is that of sd_notify(3):
// one datagram per message. Does nothing if NOTIFY_SOCKET is not set.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

struct ServiceEnvironment {
  std::string socket;                     // path, or "@name" in the abstract namespace; empty: none
  std::chrono::microseconds watchdog{0};  // period from WATCHDOG_USEC; 0: no watchdog
};

// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment. A watchdog for
// another process (WATCHDOG_PID) is ignored.
ServiceEnvironment take_service_environment();

class ServiceNotifier {
 public:
  // Logs a warning if the socket cannot be used; all messages are then dropped.
  ServiceNotifier(boost::asio::io_context&, const ServiceEnvironment&);

  // Reports that the start is complete. `status` is one line, which `systemctl status` shows. Also starts the
  // watchdog messages: a timer of the event loop sends two per period, so they stop if the event loop hangs.
  void ready(std::string_view status);
  void status(std::string_view status);
  void stopping(std::string_view status);

 private:
  void send(const std::string& message);
  void answer_watchdog();

  std::string socket_;
  UniqueFd fd_;  // messages are dropped while this is not open
  std::chrono::microseconds interval_;
  boost::asio::steady_timer timer_;
  bool refused_ = false;  // the last message could not be sent; only the first such failure is logged
};

}  // namespace rtrs::daemon
