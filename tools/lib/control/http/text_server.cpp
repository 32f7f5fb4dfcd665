#include "tools/lib/control/http/text_server.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <cstring>
#include <deque>

#include "tools/lib/control/http/text_address.hpp"

namespace rtrs::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace web = boost::beast::http;
using Protocol = asio::generic::stream_protocol;

namespace {

constexpr std::uint32_t kMostHeaderBytes = 8192;

}  // namespace

struct TextServer::State : std::enable_shared_from_this<TextServer::State> {
  State(asio::io_context& context_, const TextServerOptions& options_, std::function<std::string()> page_)
      : options(options_), page(std::move(page_)), acceptor(context_), pause(context_) {}

  void accept();
  web::response<web::string_body> answer(const web::request<web::empty_body>& request) const;

  TextServerOptions options;
  std::function<std::string()> page;
  asio::basic_socket_acceptor<Protocol> acceptor;
  asio::steady_timer pause;  // delays the retry after a failed accept()
  bool make_place();
  unsigned connections = 0;
  std::deque<std::weak_ptr<Connection>> silent;  // connections without a request so far, oldest first
};

namespace {

using Stream = beast::basic_stream<Protocol>;

}  // namespace

struct TextServer::Connection : std::enable_shared_from_this<Connection> {
  Connection(std::shared_ptr<TextServer::State> server_, Protocol::socket socket)
      : server(std::move(server_)), stream(std::move(socket)) {
    ++server->connections;
    parser.header_limit(kMostHeaderBytes);
  }
  ~Connection() { leave(); }
  void leave() noexcept {
    if (std::exchange(counted, false)) --server->connections;
  }

  void read() {
    stream.expires_after(server->options.patience);
    web::async_read(stream, buffer, parser, [self = shared_from_this()](const auto& error, std::size_t) {
      self->asked = true;
      if (!error) self->write();
    });
  }
  void write() {
    response = server->answer(parser.get());
    stream.expires_after(server->options.patience);
    // Ends the connection after one response. This is enough, because a scraper polls only every few seconds.
    web::async_write(stream, response, [self = shared_from_this()](const auto&, std::size_t) {
      boost::system::error_code ignored;
      self->stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    });
  }

  std::shared_ptr<TextServer::State> server;
  Stream stream;
  beast::flat_buffer buffer{kMostHeaderBytes};
  web::request_parser<web::empty_body> parser;
  web::response<web::string_body> response;
  bool asked = false;   // the request has arrived, or reading failed
  bool counted = true;  // counted in State::connections
};

// Closes the oldest connection that has sent no request; returns false if there is none.
bool TextServer::State::make_place() {
  while (!silent.empty()) {
    const std::shared_ptr<Connection> oldest = silent.front().lock();
    silent.pop_front();
    if (oldest == nullptr || oldest->asked) continue;
    oldest->leave();
    oldest->stream.close();
    return true;
  }
  return false;
}

void TextServer::State::accept() {
  acceptor.async_accept(
      [self = shared_from_this()](const boost::system::error_code& error, Protocol::socket socket) {
        if (!self->acceptor.is_open()) return;
        if (error) {
          // No file descriptor or memory is free. Retry later.
          self->pause.expires_after(std::chrono::milliseconds(100));
          return self->pause.async_wait([self](const boost::system::error_code& stopped) {
            if (!stopped) self->accept();
          });
        }
        if (self->connections < self->options.most_connections || self->make_place()) {
          const auto connection = std::make_shared<Connection>(self, std::move(socket));
          std::erase_if(self->silent, [](const auto& one) { return one.expired(); });
          self->silent.push_back(connection);
          connection->read();
        }
        self->accept();
      });
}

web::response<web::string_body> TextServer::State::answer(
    const web::request<web::empty_body>& request) const {
  web::response<web::string_body> response{web::status::ok, 11};
  response.set(web::field::server, "urtrs");
  response.set(web::field::content_type, "text/plain; charset=utf-8");
  response.keep_alive(false);
  const bool head = request.method() == web::verb::head;
  const auto target = request.target().substr(0, request.target().find('?'));
  if (request.method() != web::verb::get && !head) {
    response.result(web::status::method_not_allowed);
    response.set(web::field::allow, "GET, HEAD");
    response.body() = "only GET and HEAD\n";
  } else if (target != options.path) {
    response.result(web::status::not_found);
    response.body() = fmt::format("there is only {}\n", options.path);
  } else {
    response.set(web::field::content_type, options.content_type);
    response.body() = page();
  }
  response.prepare_payload();
  if (head) response.body().clear();
  return response;
}

namespace {

tl::expected<Protocol::endpoint, std::string> endpoint_of(const std::string& text) {
  const auto address = parse_text_address(text);
  if (!address) return tl::unexpected(address.error());
  if (!address->socket.empty())
    return Protocol::endpoint(asio::local::stream_protocol::endpoint(address->socket));
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(address->host, error);
  if (error) return tl::unexpected(fmt::format("\"{}\" is not an address of this host", address->host));
  return Protocol::endpoint(asio::ip::tcp::endpoint(ip, address->port));
}

// Removes a socket that a killed process left behind. Returns an empty string, or why the name cannot be
// used.
std::string make_room(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) return "the file exists and is not a socket; choose another name";
  asio::io_context own;
  asio::local::stream_protocol::socket probe(own);
  boost::system::error_code error;
  probe.open({}, error);
  if (!error) probe.non_blocking(true, error);
  if (!error) probe.connect({path}, error);
  if (error != asio::error::connection_refused) return "another process listens on it; use another name";
  ::unlink(path.c_str());
  return {};
}

asio::ip::tcp::endpoint as_tcp(const Protocol::endpoint& endpoint) {
  asio::ip::tcp::endpoint tcp;
  tcp.resize(endpoint.size());
  std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
  return tcp;
}

}  // namespace

tl::expected<std::unique_ptr<TextServer>, TextServer::ListenError> TextServer::listen(
    asio::io_context& context, const TextServerOptions& options, std::function<std::string()> page) {
  const auto refuse = [&options](const std::string& why, int number = EINVAL) {
    return tl::unexpected(ListenError{
        fmt::format("cannot serve {} at \"{}\": {}", options.path, options.address, why), number});
  };
  const auto endpoint = endpoint_of(options.address);
  if (!endpoint) return refuse(endpoint.error());
  const bool local = options.address.front() == '/';
  if (const std::string problem = local ? make_room(options.address) : ""; !problem.empty())
    return refuse(problem);
  auto state = std::make_shared<State>(context, options, std::move(page));
  boost::system::error_code error;
  state->acceptor.open(endpoint->protocol(), error);
  if (!error && !local) state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state->acceptor.bind(*endpoint, error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return refuse(error.message(), error.value());
  state->accept();
  return std::unique_ptr<TextServer>(new TextServer(std::move(state)));
}

TextServer::~TextServer() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  if (state_->options.address.front() == '/') ::unlink(state_->options.address.c_str());
}

std::string TextServer::address() const {
  if (state_->options.address.front() == '/') return state_->options.address;
  boost::system::error_code error;
  const auto tcp = as_tcp(state_->acceptor.local_endpoint(error));
  const std::string host = tcp.address().to_string();
  return tcp.address().is_v6() ? fmt::format("[{}]:{}", host, tcp.port())
                               : fmt::format("{}:{}", host, tcp.port());
}

bool TextServer::is_loopback() const {
  if (state_->options.address.front() == '/') return true;
  boost::system::error_code error;
  return as_tcp(state_->acceptor.local_endpoint(error)).address().is_loopback();
}

}  // namespace rtrs::http
