// Asynchronous JSON-RPC client for programs with an event loop. All functions and callbacks run on the thread
// of the loop.
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

  // Connects without waiting. The error is a positive errno: ENOENT or ECONNREFUSED means that no process
  // listens, EAGAIN that the listen queue is full.
  static tl::expected<std::unique_ptr<AsyncClient>, int> connect(boost::asio::io_context&,
                                                                 const std::string& path);
  // Drops pending calls without calling their `then`.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // Calls `then` once, after call() has returned. `then` receives the result or the error of the server,
  // ETIMEDOUT after `patience`, or ENOTCONN if the connection ends. `then` may destroy this client.
  void call(const std::string& method, const nlohmann::json& params, std::chrono::milliseconds patience,
            Then then);
  // Returns true after the connection has ended; every further call then fails with ENOTCONN.
  bool is_over() const noexcept;

 private:
  struct State;
  explicit AsyncClient(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace rtrs::rpc
