// JSON-RPC server on a unix socket, on the event loop of its program. Every process that can open the socket
// may send requests. Whether it may change anything depends on its credentials (SO_PEERCRED).
//
// The number of connections, the length of a line, and the bytes queued for a client that does not read are
// limited. If one connection exceeds a limit, it is closed or refused; the other connections continue. If the
// maximum number of connections is reached, an idle connection is closed for a new one
// (tools/lib/control/rpc/places.hpp).
#pragma once
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::rpc {

struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  // True for root, the user of this process, and members of the socket's group.
  bool may_change = false;
};

// Sends the response to one request, immediately or later, on the thread of the event loop. A client that
// gets no response keeps waiting. A response to a closed connection is dropped.
class Reply {
 public:
  void result(const nlohmann::json&) const;
  void error(const Error&) const;
  // Subscribes the connection to the notifications of broadcast().
  void subscribe() const;

  struct Connection;

 private:
  friend struct Connection;
  std::weak_ptr<Connection> connection_;
  nlohmann::json id_;
  bool wanted_ = false;  // false: the request is a notification, which gets no response
};

struct ServerOptions {
  std::string path;
  std::string group;  // group of the socket; its members may open the socket; empty: the group of the process
  unsigned most_connections = 32;
  std::size_t most_unsent = std::size_t{1} << 20;  // maximum number of bytes queued for one connection
  // Called with a human-readable message when accept() fails, for example because no descriptor is free. Not
  // called again before a client could connect. Runs on the thread of the event loop. May be empty.
  std::function<void(const std::string&)> trouble{};
};

class Server {
 public:
  struct State;
  using Handler = std::function<void(const Caller&, const Request&, const Reply&)>;

  // Creates the socket (mode 0660) and replaces a socket on which no process listens. The folder must exist.
  // The error is a human-readable message.
  static tl::expected<std::unique_ptr<Server>, std::string> listen(boost::asio::io_context&, ServerOptions,
                                                                   Handler);
  // Closes all connections and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Sends a notification to all subscribers. Closes a subscriber with more than `most_unsent` unread bytes.
  void broadcast(const std::string& method, const nlohmann::json& params);
  bool has_subscribers() const noexcept;

 private:
  explicit Server(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace rtrs::rpc
