// A JSON-RPC client for programs with an event loop: asks, and is told later. Everything is on the thread of
// the loop.
#pragma once
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::rpc {

class AsyncClient {
 public:
  using Then = std::function<void(tl::expected<nlohmann::json, Error>)>;

  // Connects at once or not at all. The error is an errno: ENOENT and ECONNREFUSED mean that nobody listens,
  // EAGAIN that too many wait.
  static tl::expected<std::unique_ptr<AsyncClient>, int> connect(boost::asio::io_context&,
                                                                 const std::string& path);
  // Who still waits for an answer is told nothing.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // `then` is called once, never from within call(): with the result, the error of the other side, ETIMEDOUT
  // after `patience`, or ENOTCONN where the connection ends. It may destroy this client.
  void call(const std::string& method, const nlohmann::json& params, std::chrono::milliseconds patience,
            Then then);
  // No call will be answered any more.
  bool is_over() const noexcept;

 private:
  struct State;
  explicit AsyncClient(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace rtrs::rpc
