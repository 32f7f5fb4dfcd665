#include "tools/lib/control/rpc/client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rtrs::rpc {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// Maximum size of a response in bytes. No server sends a longer line.
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 20;

Error failure(int error, std::string message, std::string hint = {}) {
  return {Code::failed, fmt::format("{}: {}", message, std::strerror(error)), std::move(hint), error};
}

}  // namespace

tl::expected<Client, Error> Client::connect(const std::string& path, milliseconds patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return tl::unexpected(
        Error{Code::invalid_params,
              fmt::format("the name of a control socket has 1 to {} bytes, and \"{}\" has {}",
                          sizeof(sockaddr_un::sun_path) - 1, path, path.size()),
              {},
              ENAMETOOLONG});
  std::memcpy(address.sun_path, path.data(), path.size());
  Client client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (client.fd_ < 0) return tl::unexpected(failure(errno, "cannot make a socket"));
  // Timeout of connect() and of each send(). At least 1 ms, because 0 means no timeout.
  const auto time = std::max(patience, milliseconds(1)).count();
  const timeval bound{.tv_sec = time / 1000, .tv_usec = time % 1000 * 1000};
  ::setsockopt(client.fd_, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
  if (::connect(client.fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno == EAGAIN ? ETIMEDOUT : errno;
    const bool nobody = error == ENOENT || error == ECONNREFUSED;
    return tl::unexpected(failure(error, fmt::format("cannot reach the control socket \"{}\"", path),
                                  nobody ? "is urtrsd running? use --socket for another socket"
                                  : error == EACCES
                                      ? "you are not in the group of the socket; run this as root"
                                      : ""));
  }
  return client;
}

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), last_id_(other.last_id_), input_(std::move(other.input_)) {}

Client::~Client() {
  if (fd_ >= 0) ::close(fd_);
}

tl::expected<std::string, Error> Client::read_line(steady_clock::time_point until, bool bounded) {
  // Position from which to search for the newline. The bytes before it contain no newline.
  std::size_t looked = 0;
  while (true) {
    const std::size_t newline = input_.find('\n', looked);
    if (newline != std::string::npos) {
      std::string line = input_.substr(0, newline);
      input_.erase(0, newline + 1);
      return line;
    }
    looked = input_.size();
    if (looked > kMaxAnswerBytes) return tl::unexpected(failure(EMSGSIZE, "the reply is not terminated"));
    if (auto readable = wait(until, bounded); !readable) return tl::unexpected(std::move(readable.error()));
    std::array<char, 65536> room;
    const ssize_t got = ::read(fd_, room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0)
      return tl::unexpected(Error{
          Code::failed, "the other side has closed the connection",
          "it has ended, or closed this connection to make room for another; try again when it runs", EPIPE});
    if (got < 0) return tl::unexpected(failure(errno, "cannot read from the control socket"));
    input_.append(room.data(), static_cast<std::size_t>(got));
  }
}

// Waits until the socket is readable. Checks the deadline first, so that a peer that never stops sending
// times out, too.
tl::expected<void, Error> Client::wait(steady_clock::time_point until, bool bounded) const {
  const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
  const Error late = failure(ETIMEDOUT, "no answer in time", "urtrsd may be stuck; see its log");
  if (bounded && left <= 0) return tl::unexpected(late);
  pollfd waiting{fd_, POLLIN, 0};
  const int ready =
      ::poll(&waiting, 1, bounded ? static_cast<int>(std::clamp<long long>(left, 0, 1'000'000)) : -1);
  if (ready < 0) return tl::unexpected(failure(errno, "waiting for an answer"));
  if (ready == 0) return tl::unexpected(late);
  return {};
}

tl::expected<nlohmann::json, Error> Client::call(const std::string& method, const nlohmann::json& params,
                                                 milliseconds patience) {
  const nlohmann::json id = ++last_id_;
  const std::string line = request_line(id, method, params) + '\n';
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t now = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    // The server has closed the connection. Continues to read, because the server may have sent the reason
    // before.
    if (now < 0 && (errno == EPIPE || errno == ECONNRESET)) break;
    if (now < 0)
      return tl::unexpected(
          failure(errno == EAGAIN ? ETIMEDOUT : errno, "cannot send to the control socket"));
    sent += static_cast<std::size_t>(now);
  }
  const auto until = steady_clock::now() + patience;
  while (true) {
    if (steady_clock::now() > until)
      return tl::unexpected(failure(ETIMEDOUT, "no response among the received messages"));
    auto got = read_line(until, true);
    if (!got) return tl::unexpected(std::move(got.error()));
    std::optional<Answer> answer = parse_answer(*got);
    if (!answer) return tl::unexpected(failure(EPROTO, "the answer is not JSON-RPC"));
    if (answer->method || (answer->id != id && !answer->id.is_null())) continue;
    if (answer->error) return tl::unexpected(std::move(*answer->error));
    return std::move(*answer->result);
  }
}

tl::expected<Answer, Error> Client::next(milliseconds patience) {
  const bool bounded = patience >= milliseconds(0);
  const auto until = steady_clock::now() + (bounded ? patience : milliseconds(0));
  while (true) {
    auto got = read_line(until, bounded);
    if (!got) return tl::unexpected(std::move(got.error()));
    std::optional<Answer> answer = parse_answer(*got);
    if (!answer) return tl::unexpected(failure(EPROTO, "the answer is not JSON-RPC"));
    if (answer->method) return std::move(*answer);
  }
}

}  // namespace rtrs::rpc
