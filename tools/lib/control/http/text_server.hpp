// HTTP server for one page of text, such as metrics, on the event loop of its program. Answers GET and HEAD
// of one path; any other request gets 404 or 405. A connection has a time limit (`patience`), and its request
// is limited to 8 KiB. If the maximum number of connections is reached, a new connection replaces the oldest
// one that has sent no request yet; if there is none, the new connection is closed.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

namespace rtrs::http {

struct TextServerOptions {
  std::string address;  // "127.0.0.1:9469", "[::1]:9469", or the path of a unix socket, which begins with '/'
  std::string path = "/metrics";
  std::string content_type = "text/plain; version=0.0.4; charset=utf-8";
  unsigned most_connections = 16;
  std::chrono::milliseconds patience = std::chrono::seconds(5);  // time limit of request and of response
};

class TextServer {
 public:
  struct ListenError {
    std::string sentence;
    int error = EINVAL;  // errno of the system; EINVAL if there is none
  };
  // Starts to listen. Calls `page` for each request, on the thread of the event loop.
  static tl::expected<std::unique_ptr<TextServer>, ListenError> listen(boost::asio::io_context&,
                                                                       const TextServerOptions&,
                                                                       std::function<std::string()> page);
  ~TextServer();
  TextServer(const TextServer&) = delete;
  TextServer& operator=(const TextServer&) = delete;

  // Returns the address of the listening socket. If the port was 0, the address has the port that the system
  // chose.
  std::string address() const;
  bool is_loopback() const;  // also true for a unix socket

 private:
  struct State;
  struct Connection;
  explicit TextServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace rtrs::http
