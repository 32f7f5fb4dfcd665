// Lines of standard input as orders to a program with an event loop.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <string>

namespace rtrs::real {

class Orders {
 public:
  // `obey` gets every line without its line feed; "finish" also for the end of the input, SIGINT and SIGTERM.
  Orders(boost::asio::io_context&, std::function<void(const std::string&)> obey);
  void stop();

 private:
  void read();
  boost::asio::posix::stream_descriptor input_;
  boost::asio::signal_set signals_;
  std::function<void(const std::string&)> obey_;
  std::string text_;
};

}  // namespace rtrs::real
