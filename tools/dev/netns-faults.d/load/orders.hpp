// Reads lines from standard input in an event loop and passes them to a function as commands.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <string>

namespace rtrs::real {

class Orders {
 public:
  // Calls `execute_command` with each line, without the line feed. At the end of the input, and after SIGINT
  // or SIGTERM, calls it with "finish".
  Orders(boost::asio::io_context&, std::function<void(const std::string&)> execute_command);
  void stop();

 private:
  void read();
  boost::asio::posix::stream_descriptor input_;
  boost::asio::signal_set signals_;
  std::function<void(const std::string&)> execute_command_;
  std::string text_;
};

}  // namespace rtrs::real
