#include "tools/lib/control/kernel_nbd/open_export.hpp"

#include <fmt/format.h>
#include <sys/un.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <memory>
#include <utility>

namespace rtrs::kernel_nbd {

namespace {

namespace asio = boost::asio;

// Returns true if a process of this network namespace still has the socket open. /proc/net/unix lists the
// sockets and connections of a process under the name that was bound, even if the file of the socket was
// removed. A name without a folder can be relative to any folder, so it counts as a match.
bool is_socket_open(const std::string& socket) {
  const std::string name = ' ' + socket, file = ' ' + socket.substr(socket.rfind('/') + 1);
  std::ifstream sockets("/proc/self/net/unix");
  std::string line;
  bool any = false;
  for (; std::getline(sockets, line); any = true)
    if (line.ends_with(name) || line.ends_with(file)) return true;
  return !any || sockets.bad();
}

// Returns true if no process has the socket open, so that no earlier connection to it can exist.
bool proves_no_server(const boost::system::error_code& error, const std::string& socket) {
  return error == asio::error::connection_refused ||
         (error == boost::system::errc::no_such_file_or_directory && !is_socket_open(socket));
}

class Opening : public std::enable_shared_from_this<Opening> {
 public:
  Opening(asio::io_context& context, const std::string& socket, const std::string& name,
          std::function<void(OpenResult)> then)
      : socket_(context), deadline_(context), path_(socket), handshake_(name), then_(std::move(then)) {}

  void begin(std::chrono::milliseconds patience) {
    if (path_.size() >= sizeof(sockaddr_un::sun_path)) return end("the path of the socket is too long");
    deadline_.expires_after(patience);
    deadline_.async_wait([self = shared_from_this(), patience](const boost::system::error_code& stopped) {
      if (!stopped) self->end(fmt::format("no reply within {} ms", patience.count()));
    });
    socket_.async_connect(asio::local::stream_protocol::endpoint(path_),
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            if (error)
                              return self->end(error.message(), proves_no_server(error, self->path_));
                            self->read();
                          });
  }

 private:
  void read() {
    socket_.async_read_some(
        asio::buffer(room_),
        [self = shared_from_this()](const boost::system::error_code& error, std::size_t got) {
          if (error)
            return self->end(error == asio::error::eof ? "nbdkit closed the connection" : error.message());
          self->take({self->room_.data(), got});
        });
  }

  void take(std::string_view octets) {
    to_send_ = handshake_.take(octets);
    if (!handshake_.error().empty()) return end(handshake_.error());
    if (handshake_.is_done()) return done();
    if (to_send_.empty()) return read();
    asio::async_write(socket_, asio::buffer(to_send_),
                      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                        if (error) return self->end(error.message());
                        self->read();
                      });
  }

  void done() {
    if (!then_) return;
    boost::system::error_code ignored;
    deadline_.cancel();
    socket_.native_non_blocking(false, ignored);
    OpenExport open{Descriptor(socket_.release(ignored)), handshake_.result()};
    std::exchange(then_, nullptr)(std::move(open));
  }

  void end(const std::string& why, bool is_dead = false) {
    if (!then_) return;
    boost::system::error_code ignored;
    deadline_.cancel();
    socket_.close(ignored);
    asio::post(socket_.get_executor(),
               [then = std::exchange(then_, nullptr), why = fmt::format("{}: {}", path_, why), is_dead] {
                 then(tl::unexpected(NoExport{why, is_dead}));
               });
  }

  asio::local::stream_protocol::socket socket_;
  asio::steady_timer deadline_;
  std::string path_;
  Handshake handshake_;
  std::function<void(OpenResult)> then_;  // called once, then empty
  std::array<char, 1024> room_{};
  std::string to_send_;
};

}  // namespace

void open_export(asio::io_context& context, const std::string& socket, const std::string& name,
                 std::chrono::milliseconds patience, std::function<void(OpenResult)> then) {
  std::make_shared<Opening>(context, socket, name, std::move(then))->begin(patience);
}

OpenResult open_export(const std::string& socket, const std::string& name,
                       std::chrono::milliseconds patience) {
  asio::io_context context(1);
  OpenResult result = tl::unexpected(NoExport());
  open_export(context, socket, name, patience, [&result](OpenResult opened) { result = std::move(opened); });
  context.run();
  return result;
}

}  // namespace rtrs::kernel_nbd
