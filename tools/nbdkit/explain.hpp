// Messages that explain to users why a device could not be opened or why a request failed. Each message is
// one line. Names in it are escaped, because NBD clients choose them.
#pragma once
#include <boost/system/error_code.hpp>
#include <span>
#include <string>

#include "backends/bindings/asio/remote_device.hpp"
#include "core/driver/path_event.hpp"
#include "tools/lib/control/plugin/settings.hpp"

namespace rtrs::nbdkit {

// Examples: "connection refused"; with an errno from the peer, "rejected by the server: Permission denied
// (errno 13)".
std::string reason_words(Reason, std::uint16_t peer_errno);
// Example: "Permission denied (errno 13)".
std::string errno_words(int error);
// Examples: "250 ms", "15 s", "2 min", "for ever".
std::string duration_words(Nanos);
// Maps an errno to one that NBD clients can receive. An errno without a number in the NBD protocol becomes
// EIO, because nbdkit would otherwise send EINVAL, which suggests an invalid request. EOPNOTSUPP is kept only
// for requests that a server need not support (`can_be_unsupported`: discard, write-zeroes), because nbdkit
// fails an assertion if a write returns it; for other requests it becomes EIO.
int nbd_errno(int error, bool can_be_unsupported) noexcept;

// Explains why a device could not be opened and what the user should check. `paths` are in the order of
// Settings::paths. `read_only` is the option that the message suggests for read-only access.
std::string explain_map_failure(const plugin::Settings&, const std::string& device, wire::rnbd::AccessMode,
                                const boost::system::error_code&, std::span<const PathStatus> paths,
                                const char* read_only = "access_mode=ro");
// True if a path that never connected may have failed because another client uses the session name. The
// protocol has no error for that case: the server accepts the connect request and then closes the handshake.
bool is_name_refusal(Reason, std::uint16_t peer_errno);
// Explains which client may be using the session name, for how long, and what to do.
std::string taken_name_words(const plugin::Settings&);
// Explains a timeout after the time `waited`, which is connect_timeout or name_in_use_timeout().
std::string explain_timeout(const plugin::Settings&, const std::string& device, Nanos waited,
                            std::span<const PathStatus> paths);
// Explains that a signal cancelled the start. `device` may be empty.
std::string explain_early_end(const std::string& device);
// Returns "write of 4096 bytes at 512 of 'disk0' failed: ..." with the cause, if known, and advice. `error`
// is the result of BlockSession::io(). `refusal` is the errno with which the server last rejected opening the
// device, or 0.
std::string explain_failed_request(const plugin::Settings&, const std::string& device, const BlockRequest&,
                                   int error, std::span<const PathStatus> paths, int refusal = 0);
// Explains why no export has this name.
std::string explain_unknown_export(const plugin::Settings&, const std::string& name);

}  // namespace rtrs::nbdkit
