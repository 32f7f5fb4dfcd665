#include "tools/nbdkit/explain.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/bindings/asio/error.hpp"
#include "backends/bindings/asio/path_syntax.hpp"
#include "core/proto/reasons.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "core/rnbd/geometry.hpp"
#include "tools/lib/text/printable.hpp"

namespace rtrs::nbdkit {
namespace {

// Quotes, escapes and shortens a name that an NBD client chose.
std::string quoted(const std::string& name) {
  return "'" + tools::printable(tools::shortened(name)) + "'";
}

// Advice for the user about a failed path; may contain the address of the path. `text` is the value of path=.
std::string advice(Reason reason, std::uint16_t peer_errno, const plugin::Settings& settings,
                   const std::string& text) {
  const auto path = asio::parse_path(text, settings.port);
  const std::string endpoint = path ? asio::endpoint_text(*path) : text;
  const std::string hint = words_of(reason, peer_errno, settings.fabric.fabric).hint;
  switch (reason) {
    case Reason::connect_refused:
      return "no server listens at " + endpoint + ": " + hint;
    case Reason::connect_timeout:
      return "no reply from " + endpoint + ": " + hint;
    case Reason::rejected:
      if (is_name_refusal(reason, peer_errno)) return taken_name_words(settings);
      return hint;
    case Reason::name_refused:
      return taken_name_words(settings);
    case Reason::info_timeout:
    case Reason::peer_closed:
      return "the server closed the connection during the handshake: unless its log names a limit, " +
             taken_name_words(settings);
    default:
      return hint;
  }
}

// Describes a path whose first connection attempt is pending.
std::string unanswered(const plugin::Settings& settings, const std::string& text, const std::string& within) {
  return "no answer to the connect request" + within + " (" +
         advice(Reason::connect_timeout, 0, settings, text) + ")";
}

// Describes every path. `within` is a time limit, such as " within 2 s", or empty.
std::string per_path(const plugin::Settings& settings, std::span<const PathStatus> paths,
                     const std::string& within = {}) {
  std::string text;
  for (std::size_t i = 0; i < settings.paths.size(); ++i) {
    if (i < paths.size() && paths[i].state == PathState::absent && paths[i].reason == Reason::path_removed)
      continue;
    text += (text.empty() ? "" : "; ") + std::string("path ") + settings.paths[i] + ": ";
    if (i >= paths.size()) {
      text += "not tried";
      continue;
    }
    if (paths[i].reason == Reason::none) {
      text += paths[i].state == PathState::connecting ? unanswered(settings, settings.paths[i], within)
                                                      : to_string(paths[i].state);
      continue;
    }
    text += reason_words(paths[i].reason, paths[i].peer_errno);
    if (paths[i].last_cause != Reason::none)
      text += std::string(", the last of them: ") + words_of(paths[i].last_cause, 0).sentence;
    const std::string hint = advice(paths[i].reason, paths[i].peer_errno, settings, settings.paths[i]);
    if (!hint.empty()) text += " (" + hint + ")";
  }
  return text;
}

}  // namespace

bool is_name_refusal(Reason reason, std::uint16_t peer_errno) {
  return reason == Reason::info_timeout || reason == Reason::peer_closed || reason == Reason::name_refused ||
         (reason == Reason::rejected && peer_errno == EPERM);
}

std::string taken_name_words(const plugin::Settings& settings) {
  const Nanos dead = std::max(dead_peer_time(settings.protocol.heartbeat), dead_peer_time(HeartbeatConfig{}));
  return "another client probably holds the session name '" + settings.session +
         "'; a client that disappeared keeps it for the server's dead-peer time, " + duration_words(dead) +
         " with the default heartbeat. Stop that client, or set session= to another name; allow_sessions of "
         "the server may also exclude this name";
}

std::string errno_words(int error) {
  return std::string(std::strerror(error)) + " (errno " + std::to_string(error) + ")";
}

int nbd_errno(int error, bool can_be_unsupported) noexcept {
  switch (error) {
    case EOPNOTSUPP:
      return can_be_unsupported ? error : EIO;
    case EPERM:
    case EROFS:
    case ENOMEM:
    case EINVAL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EOVERFLOW:
    case ESHUTDOWN:
      return error;
    default:
      return EIO;
  }
}

std::string reason_words(Reason reason, std::uint16_t peer_errno) {
  const std::string words = words_of(reason, peer_errno).sentence;
  return peer_errno == 0 ? words : words + ": " + errno_words(peer_errno);
}

std::string duration_words(Nanos duration) {
  if (duration == kNever) return "for ever";
  const auto whole = [duration](Nanos unit, const char* name) {
    return std::to_string(duration / unit) + name;
  };
  if (duration >= seconds(60) && duration % seconds(60) == 0) return whole(seconds(60), " min");
  if (duration >= seconds(1) && duration % seconds(1) == 0) return whole(seconds(1), " s");
  return whole(milliseconds(1), " ms");
}

std::string explain_map_failure(const plugin::Settings& settings, const std::string& name,
                                wire::rnbd::AccessMode mode, const boost::system::error_code& error,
                                std::span<const PathStatus> paths, const char* read_only) {
  const std::string device = quoted(name);
  if (error.category() != boost::system::generic_category())
    return "cannot reach the server: " + error.message() + "; " + per_path(settings, paths);
  const std::string code = ": " + errno_words(error.value());
  const bool writable = rnbd::is_writable(mode);
  switch (error.value()) {
    case ENOENT:
      return "the server exports no device named " + device + code +
             ". Check the name, and the exports and dev_search_path of the server";
    case EPERM:
      if (!writable)
        return "the server refuses to open " + device + code + ". See the server's log for the reason";
      return "the server refuses to open " + device + " for writing" + code +
             ". A device has one writer at a time: if another client writes to it, end that client or use " +
             read_only;
    case EACCES:
    case EROFS:
      if (!writable)
        return "the server may not read " + device + code +
               ", or this client may not open it. Check the permissions of the file, that it is not a link "
               "to a place outside dev_search_path, and the allow lists of the export; see the server's log";
      if (error.value() == EROFS)
        return "the server exports " + device + " read-only" + code + ". Use " + read_only;
      return "the server refuses to open " + device + " for writing" + code +
             "; its allow lists exclude this client, or the export is read-only (then use " + read_only +
             "); the server's log says which";
    case ENOSPC:
      return "cannot open " + device + ": a session has at most " + std::to_string(rnbd::kMaxClientDevices) +
             " devices" + code + ". Start another nbdkit with a different session";
    case ENOTBLK:
      return device + " is neither a file nor a block device at the server" + code;
    case EINVAL:
      // Either the server returned EINVAL, or this client rejected the geometry in the response.
      return "the server cannot open " + device + ", or reports an unsupported size or block size" + code +
             ". See the server's log for details";
    default:
      return "the server cannot open " + device + code + ". See the server's log for the reason";
  }
}

std::string explain_timeout(const plugin::Settings& settings, const std::string& device, Nanos waited,
                            std::span<const PathStatus> paths) {
  const std::string within =
      " within " + duration_words(waited) + (waited == settings.connect_timeout ? " (connect_timeout)" : "");
  for (const PathStatus& path : paths) {
    if (path.state == PathState::connected)
      return "the server is connected but did not open " + quoted(device) + within;
  }
  return "no path came up" + within + ": " + per_path(settings, paths, " within " + duration_words(waited));
}

std::string explain_early_end(const std::string& device) {
  return "asked to exit before " +
         (device.empty() ? "the session was connected" : quoted(device) + " was open");
}

namespace {

std::string unanswered_words(const ClientConfig& config) {
  const std::string late = ", or the server did not answer within " + duration_words(config.request_timeout) +
                           " (request_timeout)";
  if (config.queue_timeout == kNever) return late;
  return late + ", or the request lost its path each time that it was sent, for " +
         duration_words(config.request_timeout + config.queue_timeout) + " (both together)";
}

std::string refusal_words(const plugin::Settings& settings, int error) {
  const rnbd::DeviceReasonText& text =
      rnbd::text_of(rnbd::reason_of_refusal(static_cast<std::uint16_t>(error)));
  const std::string held =
      text.may_pass
          ? ", and IO is held for " + duration_words(settings.protocol.queue_timeout) + " (queue_timeout)"
          : "";
  return std::string("the server does not open the device") + held + ": " + text.sentence + "; " + text.hint;
}

}  // namespace

std::string explain_failed_request(const plugin::Settings& settings, const std::string& device,
                                   const BlockRequest& io, int error, std::span<const PathStatus> paths,
                                   int refusal) {
  const std::string what =
      std::string(wire::rnbd::to_string(io.opcode)) +
      (io.opcode == wire::rnbd::Opcode::flush
           ? ""
           : " of " + std::to_string(io.length) + " bytes at " + std::to_string(io.offset)) +
      " of " + quoted(device) + " failed: " + errno_words(error) + "; ";
  const bool connected =
      std::ranges::any_of(paths, [](const PathStatus& path) { return path.state == PathState::connected; });
  const bool unanswered = error == ETIMEDOUT && settings.protocol.request_timeout != kNever;
  if (!connected && !unanswered)
    return what + "no path is connected, and IO is held for " +
           duration_words(settings.protocol.queue_timeout) + " (queue_timeout): " + per_path(settings, paths);
  if (refusal != 0 && error == refusal) return what + refusal_words(settings, error);
  switch (error) {
    case EINVAL:
      return what +
             "the device rejects the request: check offset, length and alignment against its size and blocks";
    case EPERM:
    case EROFS:
      return what + "the device may only be read";
    case ENOSPC:
      return what + "the server's storage is full";
    case ETIMEDOUT:
      return what + "the device was not open for " + duration_words(settings.protocol.queue_timeout) +
             " (queue_timeout)" + (unanswered ? unanswered_words(settings.protocol) : "");
    default:
      return what + "see the server's log for the reason, unless a line above gives it";
  }
}

std::string explain_unknown_export(const plugin::Settings& settings, const std::string& name) {
  if (settings.only_mapped)
    return name.empty() ? "no export is named: name a mapped device, as in nbd+unix:///DEVICE?socket=PATH"
                        : "the device " + quoted(name) + " is not mapped; \"urtrs map\" maps it";
  if (settings.devices.empty())
    return "no export is named: name a device of the server, as in nbd+unix:///DEVICE?socket=PATH, or give "
           "device=";
  std::string known;
  for (const std::string& one : settings.devices) known += (known.empty() ? "" : ", ") + one;
  return "no export named " + quoted(name) + "; device= gives " + known;
}

}  // namespace rtrs::nbdkit
