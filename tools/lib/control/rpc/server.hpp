// A JSON-RPC server on a unix socket, on the event loop of its program. Whoever can open the socket may ask;
// whoever may change things is decided by the credentials that the kernel tells (SO_PEERCRED).
//
// Bounds: connections, bytes of a line, bytes that wait to be sent to somebody who does not read. Beyond a
// bound one connection ends or is refused, and the others go on. Where all places are taken, one that is idle
// gives way (tools/lib/control/rpc/places.hpp).
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
  // The superuser, the user of this process, or a member of the socket's group.
  bool may_change = false;
};

// Answers one request, at once or later, from the thread of the event loop. Without an answer the caller
// waits. An answer to a connection that is gone is dropped.
class Reply {
 public:
  void result(const nlohmann::json&) const;
  void error(const Error&) const;
  // From now on the connection also gets what broadcast() sends.
  void subscribe() const;

  struct Connection;

 private:
  friend struct Connection;
  std::weak_ptr<Connection> connection_;
  nlohmann::json id_;
  bool wanted_ = false;  // by the caller: it was no notification
};

struct ServerOptions {
  std::string path;
  std::string group;  // that may open the socket; empty: that of the process
  unsigned most_connections = 32;
  std::size_t most_unsent = std::size_t{1} << 20;  // bytes, a connection
  // Told a sentence when nobody can connect any more, as where no descriptor is left; once, until somebody
  // can. From the thread of the event loop; may be empty.
  std::function<void(const std::string&)> trouble{};
};

class Server {
 public:
  struct State;
  using Handler = std::function<void(const Caller&, const Request&, const Reply&)>;

  // Makes the socket (mode 0660), in place of one that nobody listens at. The error is a sentence. The
  // folder has to be there.
  static tl::expected<std::unique_ptr<Server>, std::string> listen(boost::asio::io_context&, ServerOptions,
                                                                   Handler);
  // Ends all connections and removes the socket.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // To all that subscribed. One that has not read `most_unsent` bytes of what came before is cut off.
  void broadcast(const std::string& method, const nlohmann::json& params);
  bool has_subscribers() const noexcept;

 private:
  explicit Server(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace rtrs::rpc
