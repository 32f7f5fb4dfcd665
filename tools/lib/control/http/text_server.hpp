// An HTTP server for one page of text, on the event loop of its program: what a scraper of metrics needs.
// GET and HEAD of one path are answered, everything else is 404 or 405. Each connection has a few seconds and
// a few kilobytes, and there are few at a time: for one more, the oldest that has not asked yet is closed, or
// the new one where all have.
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
  std::chrono::milliseconds patience = std::chrono::seconds(5);  // for a request, and for its answer
};

class TextServer {
 public:
  struct ListenError {
    std::string sentence;
    int error = EINVAL;  // an errno, as far as the system gave one
  };
  // `page` is called for each request, in the thread of the event loop.
  static tl::expected<std::unique_ptr<TextServer>, ListenError> listen(boost::asio::io_context&,
                                                                       const TextServerOptions&,
                                                                       std::function<std::string()> page);
  ~TextServer();
  TextServer(const TextServer&) = delete;
  TextServer& operator=(const TextServer&) = delete;

  // Where it listens: with the port that the system chose for port 0.
  std::string address() const;
  bool is_loopback() const;  // a unix socket too

 private:
  struct State;
  struct Connection;
  explicit TextServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace rtrs::http
