#include "tools/lib/control/rpc/server.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>
#include <vector>

#include "tools/lib/control/rpc/places.hpp"

namespace rtrs::rpc {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

struct Server::State : std::enable_shared_from_this<Server::State> {
  State(asio::io_context& context_, ServerOptions options_, Handler handler_)
      : context(context_),
        options(std::move(options_)),
        handler(std::move(handler_)),
        acceptor(context_),
        pause(context_) {}

  void accept();
  void welcome(Protocol::socket socket);
  bool make_place_for(const Caller& newcomer);
  Caller caller_at(int fd) const;
  void close() noexcept;

  asio::io_context& context;
  ServerOptions options;
  Handler handler;
  Protocol::acceptor acceptor;
  asio::steady_timer pause;  // delays the retry after a failed accept()
  bool told = false;         // options.trouble was already called for this failure
  gid_t group = 0;
  std::uint64_t uses = 0;  // counts connections and requests
  std::set<std::shared_ptr<Reply::Connection>> connections;
};

// Connection of one client. State::connections and pending asio handlers share the ownership of the
// connection until it ends. The connection has only a weak pointer to State.
struct Reply::Connection : std::enable_shared_from_this<Reply::Connection> {
  Connection(std::shared_ptr<Server::State> server_, Protocol::socket socket_, const Caller& caller_)
      : server(server_),
        socket(std::move(socket_)),
        caller(caller_),
        most_unsent(server_->options.most_unsent),
        last_use(++server_->uses) {}

  void read();
  void take_line();
  void answer(std::string line);
  void send(std::string line);
  void write();
  void end() noexcept;
  void end_when_sent();

  std::weak_ptr<Server::State> server;
  Protocol::socket socket;
  Caller caller;
  std::size_t most_unsent;
  std::array<char, 4096> room{};
  std::string input;  // received bytes that are not processed yet
  std::deque<std::string> output;
  std::size_t unsent = 0;   // number of bytes in `output`
  std::uint64_t last_use;   // value of State::uses at the last request
  unsigned unanswered = 0;  // requests without a response
  bool subscribed = false;
  bool ending = false;  // the connection is ending; no further input is read
};

void Reply::Connection::read() {
  socket.async_read_some(asio::buffer(room), [self = shared_from_this()](const auto& error, std::size_t got) {
    if (error || self->ending) return self->end();
    self->input.append(self->room.data(), got);
    self->take_line();
  });
}

// Handles one line per turn of the event loop, so that a client with many requests does not block the
// program.
void Reply::Connection::take_line() {
  const std::size_t newline = input.find('\n');
  if (newline == std::string::npos && input.size() <= kMaxLineBytes) return read();
  if (newline == std::string::npos || newline > kMaxLineBytes) {
    send(error_line(
        nullptr, {Code::invalid_request, fmt::format("a line has at most {} bytes", kMaxLineBytes), {}, 0}));
    return end_when_sent();
  }
  std::string line = input.substr(0, newline);
  input.erase(0, newline + 1);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  const auto owner = server.lock();
  if (owner == nullptr) return end();
  last_use = ++owner->uses;
  if (!line.empty()) {
    Received received = parse_request(line);
    if (received.answer) {
      send(std::move(*received.answer));
    } else {
      Reply reply;
      reply.connection_ = weak_from_this();
      reply.id_ = received.request->id;
      reply.wanted_ = received.request->wants_answer();
      if (reply.wanted_) ++unanswered;
      owner->handler(caller, *received.request, reply);
    }
  }
  if (ending) return;
  asio::post(socket.get_executor(), [self = shared_from_this()] {
    if (!self->ending) self->take_line();
  });
}

void Reply::Connection::answer(std::string line) {
  if (unanswered > 0) --unanswered;
  send(std::move(line));
}

void Reply::Connection::send(std::string line) {
  if (ending) return;
  line += '\n';
  unsent += line.size();
  // Closes the connection, because the client does not read its responses.
  if (unsent > most_unsent && !output.empty()) return end();
  output.push_back(std::move(line));
  if (output.size() == 1) write();
}

void Reply::Connection::write() {
  asio::async_write(socket, asio::buffer(output.front()),
                    [self = shared_from_this()](const auto& error, std::size_t) {
                      if (error) return self->end();
                      self->unsent -= self->output.front().size();
                      self->output.pop_front();
                      if (!self->output.empty()) return self->write();
                      if (self->ending) self->end();
                    });
}

void Reply::Connection::end_when_sent() {
  ending = true;
  if (output.empty()) end();
}

void Reply::Connection::end() noexcept {
  ending = true;
  boost::system::error_code ignored;
  socket.close(ignored);
  if (const auto owner = server.lock()) owner->connections.erase(shared_from_this());
}

void Reply::result(const nlohmann::json& value) const {
  const auto connection = connection_.lock();
  if (connection != nullptr && wanted_) connection->answer(result_line(id_, value));
}

void Reply::error(const Error& error) const {
  const auto connection = connection_.lock();
  if (connection != nullptr && wanted_) connection->answer(error_line(id_, error));
}

void Reply::subscribe() const {
  if (const auto connection = connection_.lock()) connection->subscribed = true;
}

void Server::State::accept() {
  acceptor.async_accept([self = shared_from_this()](const boost::system::error_code& error,
                                                    Protocol::socket socket) {
    if (!self->acceptor.is_open()) return;
    if (!error) {
      self->told = false;
      self->welcome(std::move(socket));
      return self->accept();
    }
    if (self->options.trouble && !std::exchange(self->told, true))
      self->options.trouble(fmt::format("control socket \"{}\": accepting connections failed: {}{}",
                                        self->options.path, error.message(),
                                        error == asio::error::no_descriptors
                                            ? "; raise the limit with ulimit -n, or LimitNOFILE= of systemd"
                                            : ""));
    // No file descriptor or memory is free. Retry later.
    self->pause.expires_after(std::chrono::milliseconds(100));
    self->pause.async_wait([self](const boost::system::error_code& stopped) {
      if (!stopped) self->accept();
    });
  });
}

void Server::State::welcome(Protocol::socket socket) {
  const Caller caller = caller_at(socket.native_handle());
  const bool room = connections.size() < options.most_connections || make_place_for(caller);
  auto connection = std::make_shared<Reply::Connection>(shared_from_this(), std::move(socket), caller);
  connections.insert(connection);
  if (!room) {
    connection->send(error_line(
        nullptr,
        {Code::busy, fmt::format("{} connections are open, which is the limit", connections.size() - 1),
         "close one of them, or try again later", 0}));
    return connection->end_when_sent();
  }
  connection->read();
}

// Closes a connection to make room for the new client. Returns false if no connection can be closed.
bool Server::State::make_place_for(const Caller& newcomer) {
  const auto rank = [](const Caller& caller) {
    return caller.uid == 0 || caller.uid == ::geteuid() ? Rank::owner
           : caller.may_change                          ? Rank::member
                                                        : Rank::stranger;
  };
  std::vector<std::shared_ptr<Reply::Connection>> all(connections.begin(), connections.end());
  std::vector<Place> places;
  for (const auto& one : all)
    places.push_back({rank(one->caller), one->unanswered != 0 || one->subscribed, one->last_use});
  const auto chosen = gives_way(places, rank(newcomer));
  if (chosen) all[*chosen]->end();
  return chosen.has_value();
}

Caller Server::State::caller_at(int fd) const {
  Caller caller;
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return caller;
  caller.uid = credentials.uid;
  caller.gid = credentials.gid;
  caller.pid = credentials.pid;
  std::array<gid_t, 1024> groups{};
  length = sizeof(groups);
  std::size_t count = 0;
#ifdef SO_PEERGROUPS
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) == 0)
    count = length / sizeof(gid_t);
#endif
  const bool member = caller.gid == group ||
                      std::find(groups.begin(), groups.begin() + count, group) != groups.begin() + count;
  caller.may_change = caller.uid == 0 || caller.uid == ::geteuid() || member;
  return caller;
}

void Server::State::close() noexcept {
  boost::system::error_code ignored;
  acceptor.close(ignored);
  pause.cancel();
  for (const auto& connection : std::exchange(connections, {})) connection->end();
  ::unlink(options.path.c_str());
}

namespace {

std::string failed(const std::string& path, const char* what, int error) {
  return fmt::format("the control socket \"{}\": {}: {} ({})", path, what, std::strerror(error), error);
}

// Removes a socket that a killed process left behind. Returns an empty string, or why the path cannot be
// used.
std::string make_room(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode))
    return failed(path, "the file exists and is not a socket; choose another name", EEXIST);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool dead =
      ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  if (!dead) return failed(path, "another process listens on it; use another name", EADDRINUSE);
  return ::unlink(path.c_str()) == 0 ? std::string() : failed(path, "cannot remove the old one", errno);
}

}  // namespace

tl::expected<std::unique_ptr<Server>, std::string> Server::listen(asio::io_context& context,
                                                                  ServerOptions options, Handler handler) {
  const std::string path = options.path;
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path))
    return tl::unexpected(fmt::format("the control socket \"{}\": a name has 1 to {} bytes", path,
                                      sizeof(sockaddr_un::sun_path) - 1));
  gid_t group = ::getegid();
  if (!options.group.empty()) {
    const struct group* found = ::getgrnam(options.group.c_str());
    if (found == nullptr)
      return tl::unexpected(
          fmt::format("the control socket \"{}\": no group named \"{}\"; \"getent group\" lists them, and "
                      "\"groupadd --system {}\" creates it",
                      path, options.group, options.group));
    group = found->gr_gid;
  }
  std::string problem = make_room(path);
  if (!problem.empty()) return tl::unexpected(std::move(problem));
  auto state = std::make_shared<State>(context, std::move(options), std::move(handler));
  state->group = group;
  boost::system::error_code error;
  state->acceptor.open(Protocol(), error);
  // Until the mode and the group are set, no client may connect.
  const mode_t before = ::umask(0177);
  if (!error) state->acceptor.bind(Protocol::endpoint(path), error);
  ::umask(before);
  if (error) return tl::unexpected(failed(path, "cannot create it", error.value()));
  auto server = std::unique_ptr<Server>(new Server(state));
  if (group != ::getegid() && ::chown(path.c_str(), static_cast<uid_t>(-1), group) != 0)
    return tl::unexpected(failed(path, "cannot change its group", errno) +
                          "; without root, only groups of this user are possible: use SupplementaryGroups= "
                          "of systemd, or usermod -aG");
  if (::chmod(path.c_str(), 0660) != 0) return tl::unexpected(failed(path, "cannot set its mode", errno));
  state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return tl::unexpected(failed(path, "cannot listen", error.value()));
  state->accept();
  return server;
}

Server::~Server() {
  state_->close();
}

void Server::broadcast(const std::string& method, const nlohmann::json& params) {
  if (!has_subscribers()) return;
  const std::string line = notification_line(method, params);
  // Iterates over a copy, because send() can remove a connection from the set.
  for (const auto& connection : std::vector(state_->connections.begin(), state_->connections.end()))
    if (connection->subscribed) connection->send(line);
}

bool Server::has_subscribers() const noexcept {
  return std::any_of(state_->connections.begin(), state_->connections.end(),
                     [](const auto& connection) { return connection->subscribed; });
}

}  // namespace rtrs::rpc
