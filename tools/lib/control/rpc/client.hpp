// Blocking JSON-RPC client for command-line programs. Every wait has a time limit, except next() without
// `patience`.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::rpc {

class Client {
 public:
  // Time limit for a server that hangs, that is, one that neither accepts connections nor reads.
  static constexpr std::chrono::milliseconds kPatience{3000};

  // Connects within `patience`. Error::error is ENOENT or ECONNREFUSED if no process listens, and ETIMEDOUT
  // if the server hangs.
  static tl::expected<Client, Error> connect(const std::string& path,
                                             std::chrono::milliseconds patience = kPatience);
  ~Client();
  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;

  // Sends a request and waits for its response. Drops notifications that arrive before the response. Error
  // ETIMEDOUT: no response within `patience`.
  tl::expected<nlohmann::json, Error> call(const std::string& method, const nlohmann::json& params,
                                           std::chrono::milliseconds patience = std::chrono::seconds(30));
  // Returns the next notification. A negative `patience` means no time limit. Errors: ETIMEDOUT; EPIPE if the
  // server has closed the connection; EINTR if a signal arrived.
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
