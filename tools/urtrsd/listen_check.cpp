#include "tools/urtrsd/listen_check.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "tools/urtrsd/unique_fd.hpp"

namespace rtrs::daemon {

namespace {

// 0, or why not.
int bind_once(const std::string& address, std::uint16_t port) {
  sockaddr_in six_or_four{};
  sockaddr_in6 six{};
  const bool is_four = ::inet_pton(AF_INET, address.c_str(), &six_or_four.sin_addr) == 1;
  if (!is_four && ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) != 1) return 0;
  const UniqueFd fd(::socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  // Connections of a server that has ended do not hold the port.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!is_four) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  six_or_four.sin_family = AF_INET;
  six_or_four.sin_port = six.sin6_port = htons(port);
  six.sin6_family = AF_INET6;
  const int done = is_four ? ::bind(fd.get(), reinterpret_cast<sockaddr*>(&six_or_four), sizeof six_or_four)
                           : ::bind(fd.get(), reinterpret_cast<sockaddr*>(&six), sizeof six);
  return done == 0 ? 0 : errno;
}

std::string remedy(int error) {
  switch (error) {
    case EADDRINUSE:
      return "an urtrsd that runs has it, or another program, which has to end first ('ss -ltnp' names it)";
    case EADDRNOTAVAIL:
      return "this host does not have this address; 'ip address' lists what it has";
    case EACCES:
      return "this user may not use ports below 1024; choose a higher one";
    default:
      return errno_text(error);
  }
}

}  // namespace

std::vector<AddressProblem> try_addresses(const DaemonConfig& config) {
  std::vector<AddressProblem> problems;
  const auto port = static_cast<std::uint16_t>(config.fabric == "verbs" ? 0 : config.port);
  for (const std::string& address : config.listen) {
    const int error = bind_once(address, port);
    if (error == 0) continue;
    problems.push_back(
        {"cannot listen on " + address + " port " + std::to_string(config.port) + ": " + remedy(error),
         error == EADDRINUSE});
  }
  return problems;
}

}  // namespace rtrs::daemon
