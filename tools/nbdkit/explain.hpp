// Sentences for people about why there is no device, or why a request failed. Each is one line: the names in
// them are chosen by NBD clients.
#pragma once
#include <boost/system/error_code.hpp>
#include <span>
#include <string>

#include "backends/bindings/asio/remote_device.hpp"
#include "core/driver/path_event.hpp"
#include "tools/lib/control/plugin/settings.hpp"

namespace rtrs::nbdkit {

// The sentence of the reason: "connection refused"; with the peer's errno, "rejected by the server:
// Permission denied (errno 13)".
std::string reason_words(Reason, std::uint16_t peer_errno);
// "Permission denied (errno 13)".
std::string errno_words(int error);
// "250 ms", "15 s", "2 min", "for ever".
std::string duration_words(Nanos);
// The errno for an NBD client. The NBD protocol has no number for most of them, and nbdkit sends EINVAL for
// those, which blames the request; they become EIO. So does EOPNOTSUPP, but of what a server may be without
// (`can_be_unsupported`: a discard, write-zeroes): nbdkit ends with an assertion when a write is answered so.
int nbd_errno(int error, bool can_be_unsupported) noexcept;

// Why opening the device failed, with what to check. `paths`: in the order of settings.paths. `read_only`:
// what whoever asked for it can use instead of writing.
std::string explain_map_failure(const Settings&, const std::string& device, wire::rnbd::AccessMode,
                                const boost::system::error_code&, std::span<const PathStatus> paths,
                                const char* read_only = "access_mode=ro");
// Whether a path that was never connected fails as it does where another client holds the session name. The
// protocol has no answer that says so: the server answers the connect request and ends the handshake then.
bool is_name_refusal(Reason, std::uint16_t peer_errno);
// Who may hold the name, for how long, and what to do.
std::string taken_name_words(const Settings&);
// Why it did not come to an end within `waited`: connect_timeout or taken_name_timeout().
std::string explain_timeout(const Settings&, const std::string& device, Nanos waited,
                            std::span<const PathStatus> paths);
// Why a program that was asked to end did not start. `device` may be empty: any.
std::string explain_early_end(const std::string& device);
// "write of 4096 bytes at 512 of 'disk0' failed: ...": what, why as far as it is known here, and what to do.
// `error`: of BlockSession::io(). `refusal`: errno with which the server refuses to open the device; 0: it
// does not.
std::string explain_failed_request(const Settings&, const std::string& device, const asio::DeviceIo&,
                                   int error, std::span<const PathStatus> paths, int refusal = 0);
// Why there is no export of this name, where device= does not give it.
std::string explain_unknown_export(const Settings&, const std::string& name);

}  // namespace rtrs::nbdkit
