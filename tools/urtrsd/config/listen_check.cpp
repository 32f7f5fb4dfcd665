#include "tools/urtrsd/config/listen_check.hpp"

#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "backends/platform/address/socket_address.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

namespace {

bool is_ipv6_text(const std::string& address) {
  return address.find(':') != std::string::npos;
}

// True if a socket bound to :: also receives IPv4 (IPV6_V6ONLY is 0 by default).
bool is_dual_stack() {
  const UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int only = 0;
  socklen_t size = sizeof only;
  return fd && ::getsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, &size) == 0 && only == 0;
}

bool includes(const std::string& any, const std::string& other) {
  if (any == "0.0.0.0") return !is_ipv6_text(other);
  return any == "::" && (is_ipv6_text(other) || is_dual_stack());
}

// Returns the first address listed before `address` that conflicts with it: one of the two is a wildcard that
// includes the other. Returns nullptr if no address conflicts.
const std::string* in_the_way(const std::vector<std::string>& listen, const std::string& address) {
  for (const std::string& other : listen) {
    if (other == address) break;
    const std::string one = plain_address(other);
    const std::string two = plain_address(address);
    if (includes(one, two) || includes(two, one)) return &other;
  }
  return nullptr;
}

std::string remedy(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another urtrsd or program uses the port ('ss -ltnp' shows which); stop it first";
    case EADDRNOTAVAIL:
      return "this host does not have this address; 'ip address' lists its addresses";
    case EACCES:
      return "this user may not use ports below 1024; choose a higher one";
    default:
      return errno_text(error);
  }
}

}  // namespace

int try_address(const net::SocketAddress& address) {
  const UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  // Allows the port although connections of an earlier server are in TIME_WAIT.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), address.get(), address.length) == 0 ? 0 : errno;
}

std::vector<AddressProblem> try_addresses(const DaemonConfig& config) {
  std::vector<AddressProblem> problems;
  const auto port = static_cast<std::uint16_t>(config.fabric == "verbs" ? 0 : config.port);
  for (const std::string& address : config.listen) {
    const std::string what = "cannot listen on " + address + " port " + std::to_string(config.port) + ": ";
    // Port 0 cannot conflict: the system chooses a different port for each address.
    if (const std::string* const other = port == 0 ? nullptr : in_the_way(config.listen, address)) {
      problems.push_back({what + *other +
                          " is to be listened on too, and 0.0.0.0 and :: include other addresses; "
                          "leave one of the two out"});
      continue;
    }
    if (address.rfind("gid:", 0) == 0) continue;
    std::string why;
    const std::vector<net::SocketAddress> found = net::resolve(address, port, &why);
    if (found.empty()) problems.push_back({what + why});
    for (const net::SocketAddress& one : found) {
      const int error = try_address(one);
      if (error == 0) continue;
      const std::string which = is_ip_address(address) ? "" : net::to_text(one) + ": ";
      problems.push_back({what + which + remedy(error), error == EADDRINUSE});
    }
  }
  return problems;
}

std::vector<std::string> control_warnings(const DaemonConfig& config) {
  std::vector<std::string> warnings;
  if (config.control.empty()) return warnings;
  const std::string& group = config.control_group;
  if (!group.empty() && ::getgrnam(group.c_str()) == nullptr)
    warnings.push_back("control_group: no group named " + in_quotes(group) +
                       ", so urtrs will not reach this urtrsd; \"getent group\" lists them");
  if (config.control == "auto") return warnings;
  const std::string folder = std::filesystem::absolute(config.control).parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    warnings.push_back("control: no socket can be made in " + in_quotes(folder) + ": " + errno_text(errno) +
                       ", so urtrs cannot reach this urtrsd until this is fixed");
  return warnings;
}

}  // namespace rtrs::daemon
