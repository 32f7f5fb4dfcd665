#include "tools/dev/netns-faults.d/load/orders.hpp"

#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <csignal>
#include <utility>

namespace rtrs::real {

using Error = boost::system::error_code;

Orders::Orders(boost::asio::io_context& context, std::function<void(const std::string&)> execute_command)
    : input_(context), signals_(context, SIGINT, SIGTERM), execute_command_(std::move(execute_command)) {
  Error error;
  input_.assign(::dup(STDIN_FILENO), error);
  signals_.async_wait([this](const Error& failed, int) {
    if (!failed) execute_command_("finish");
  });
  if (!error) read();
}

void Orders::stop() {
  Error error;
  input_.close(error);
  signals_.cancel(error);
}

void Orders::read() {
  boost::asio::async_read_until(input_, boost::asio::dynamic_buffer(text_, 4096), '\n',
                                [this](const Error& error, std::size_t length) {
                                  if (error == boost::asio::error::operation_aborted) return;
                                  if (error) return execute_command_("finish");
                                  const std::string line = text_.substr(0, length - 1);
                                  text_.erase(0, length);
                                  execute_command_(line);
                                  if (input_.is_open()) read();
                                });
}

}  // namespace rtrs::real
