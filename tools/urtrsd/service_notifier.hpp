// Tells the service manager that started urtrsd how it is: the protocol of sd_notify(3), one datagram for
// each message. Does nothing where NOTIFY_SOCKET is not set.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

struct ServiceEnvironment {
  std::string socket;                     // a path, or "@name" of the abstract namespace; empty: none
  std::chrono::microseconds watchdog{0};  // ends a service that is silent for so long; 0: no watchdog
};

// Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment.
ServiceEnvironment take_service_environment();

class ServiceNotifier {
 public:
  // A socket that cannot be used is a line of the log.
  ServiceNotifier(boost::asio::io_context&, const ServiceEnvironment&);

  // `status` is one line for the user: systemctl status shows it. Begins to answer the watchdog, by a timer
  // of the event loop and twice in each period; a loop that stands still is silent.
  void ready(std::string_view status);
  void status(std::string_view status);
  void stopping(std::string_view status);

 private:
  void send(const std::string& message);
  void answer_watchdog();

  std::string socket_;
  UniqueFd fd_;  // closed: there is nobody to tell
  std::chrono::microseconds interval_;
  boost::asio::steady_timer timer_;
  bool refused_ = false;  // the last message; told once
};

}  // namespace rtrs::daemon
