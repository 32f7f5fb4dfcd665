#include "tools/nbdkit/explain.hpp"

#include <cerrno>
#include <cstring>

#include "backends/asio/error.hpp"

namespace rtrs::nbdkit {
namespace {

// What a user can do about it; empty when the reason says it all.
std::string advice(Reason reason, std::uint16_t peer_errno, const Settings& settings) {
  const std::string port = std::to_string(settings.port);
  switch (reason) {
    case Reason::connect_refused:
      return "nobody listens on port " + port + " there: is the server running, is the port right?";
    case Reason::address_unresolved:
      return "the address does not resolve or has no route: check path=, and that the source address is ours";
    case Reason::connect_timeout:
      return "no answer: check the address, and that a firewall lets port " + port + " through";
    case Reason::rejected:
      return peer_errno == EEXIST || peer_errno == EPERM
                 ? "is another client using the session name '" + settings.session + "'?"
                 : "the server refuses the connection; its log says why";
    case Reason::info_timeout:
    case Reason::peer_closed:
      return "the server ended the handshake: is the session name '" + settings.session +
             "' in use by another client?";
    default:
      return {};
  }
}

std::string per_path(const Settings& settings, std::span<const PathStatus> paths) {
  std::string text;
  for (std::size_t i = 0; i < settings.paths.size(); ++i) {
    text += (i == 0 ? "" : "; ") + std::string("path ") + settings.paths[i] + ": ";
    if (i >= paths.size() || paths[i].reason == Reason::none) {
      text += i < paths.size() ? to_string(paths[i].state) : "not tried";
      continue;
    }
    text += reason_words(paths[i].reason, paths[i].peer_errno);
    const std::string hint = advice(paths[i].reason, paths[i].peer_errno, settings);
    if (!hint.empty()) text += " (" + hint + ")";
  }
  return text;
}

}  // namespace

std::string reason_words(Reason reason, std::uint16_t peer_errno) {
  const std::string words = to_string(reason);
  return peer_errno == 0 ? words : words + ": " + std::strerror(peer_errno);
}

std::string explain_map_failure(const Settings& settings, const boost::system::error_code& error,
                                std::span<const PathStatus> paths) {
  const std::string device = "'" + settings.device + "'";
  if (error.category() != boost::system::generic_category())
    return "cannot reach the server: " + error.message() + "; " + per_path(settings, paths);
  const std::string code = " (" + std::string(std::strerror(error.value())) + ")";
  switch (error.value()) {
    case ENOENT:
      return "the server exports no device named " + device + code +
             ": check device=, and the exports and dev_search_path of the server";
    case EPERM:
      return "the server does not let us open " + device + " for writing" + code +
             ": another client writes to it; use access_mode=ro, or end the other client";
    case EACCES:
    case EROFS:
      return "the server may only read " + device + code + ": use access_mode=ro";
    case ENOTBLK:
      return device + " is neither a file nor a block device at the server" + code;
    default:
      return "the server cannot open " + device + code + "; its log says why";
  }
}

std::string explain_timeout(const Settings& settings, std::span<const PathStatus> paths) {
  for (const PathStatus& path : paths) {
    if (path.state == PathState::connected)
      return "the server is connected but did not open '" + settings.device +
             "' within connect_timeout=" + std::to_string(settings.connect_timeout / milliseconds(1)) + "ms";
  }
  return "no path came up within connect_timeout=" +
         std::to_string(settings.connect_timeout / milliseconds(1)) + "ms: " + per_path(settings, paths);
}

}  // namespace rtrs::nbdkit
