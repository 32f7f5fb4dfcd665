// Measures the minimum cost of an IO over TCP: two messages through one socket, without a protocol, checks or
// storage. Only the kernel's copies and TCP processing remain. Used by `tools/dev/fabric-bench --beside
// floor`.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kSmall = 64;  // size in bytes of the message that carries no data

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// One end of the connection. For each received message of one size, it sends a message of another size.
class End {
 public:
  End(int fd, std::size_t in, std::size_t out) : fd_(fd), in_(in), out_(out) {
    const int on = 1;
    if (::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("TCP_NODELAY");
    if (::fcntl(fd_, F_SETFL, O_NONBLOCK) != 0) fail("O_NONBLOCK");
  }
  // Polls without sleeping, as `urtrs-perf --raw` does. Returns false if the connection failed or was closed.
  bool turn() {
    while (owed_ > 0) {
      const ssize_t sent = ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno == EAGAIN) break;
        return false;
      }
      sent_ += static_cast<std::size_t>(sent);
      if (sent_ < out_.size()) break;
      sent_ = 0;
      --owed_;
    }
    const ssize_t got = ::recv(fd_, in_.data() + got_, in_.size() - got_, 0);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN;
    got_ += static_cast<std::size_t>(got);
    if (got_ == in_.size()) {
      got_ = 0;
      ++taken_;
      ++owed_;
    }
    return true;
  }
  void owe(unsigned messages) { owed_ += messages; }
  std::uint64_t taken() const { return taken_; }

 private:
  int fd_;
  std::vector<char> in_;
  std::vector<char> out_;
  std::size_t got_ = 0;
  std::size_t sent_ = 0;
  std::uint64_t owed_ = 0;
  std::uint64_t taken_ = 0;
};

struct Load {
  std::uint64_t to_server;
  std::uint64_t to_client;
};

int serve() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("listen");
  std::printf("port %u\n", ntohs(address.sin_port));
  std::fflush(stdout);
  const int fd = ::accept(listener, nullptr, nullptr);
  Load load{};
  if (fd < 0 || ::recv(fd, &load, sizeof load, MSG_WAITALL) != sizeof load) fail("accept");
  End end(fd, load.to_server, load.to_client);
  while (end.turn()) {
  }
  return 0;
}

int run(std::uint16_t port, const std::string& rw, std::size_t bytes, unsigned in_flight, double seconds) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  const Load load = rw == "write" ? Load{bytes + kSmall, kSmall} : Load{kSmall, bytes + kSmall};
  if (::send(fd, &load, sizeof load, MSG_NOSIGNAL) != sizeof load) fail("send");
  End end(fd, load.to_client, load.to_server);
  end.owe(in_flight);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double past = 0;
  while (past < seconds) {
    if (!end.turn()) fail("connection");
    past = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::printf("{\"results\": [{\"iops\": %.0f}]}\n", static_cast<double>(end.taken()) / past);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "listen") == 0) return serve();
  if (count == 6)
    return run(static_cast<std::uint16_t>(std::atoi(words[1])), words[2], std::strtoul(words[3], nullptr, 10),
               static_cast<unsigned>(std::atoi(words[4])), std::atof(words[5]));
  std::fprintf(stderr, "usage: tcp_floor listen\n       tcp_floor PORT read|write BYTES IN_FLIGHT SECONDS\n");
  return 2;
}
