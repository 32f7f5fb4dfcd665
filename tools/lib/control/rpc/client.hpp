// A JSON-RPC client for commands: connects, asks, waits. Blocks; every wait has a bound.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::rpc {

class Client {
 public:
  // For a process that stands still, and so neither takes a connection from its queue nor reads.
  static constexpr std::chrono::milliseconds kPatience{3000};

  // Connects within `patience` or not at all. The error has an errno: ENOENT and ECONNREFUSED mean that
  // nobody listens, ETIMEDOUT that who does stands still.
  static tl::expected<Client, Error> connect(const std::string& path,
                                             std::chrono::milliseconds patience = kPatience);
  ~Client();
  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;

  // Notifications that come before the answer are dropped. Error ETIMEDOUT: no answer within `patience`.
  tl::expected<nlohmann::json, Error> call(const std::string& method, const nlohmann::json& params,
                                           std::chrono::milliseconds patience = std::chrono::seconds(30));
  // The next notification; waits for as long as it takes (negative `patience`) or ETIMEDOUT. EPIPE: the
  // other side has closed. EINTR: a signal came.
  tl::expected<Answer, Error> next(std::chrono::milliseconds patience);

 private:
  explicit Client(int fd) : fd_(fd) {}
  tl::expected<std::string, Error> read_line(std::chrono::steady_clock::time_point until, bool bounded);
  tl::expected<void, Error> wait(std::chrono::steady_clock::time_point until, bool bounded) const;
  int fd_;
  int last_id_ = 0;
  std::string input_;
};

}  // namespace rtrs::rpc
