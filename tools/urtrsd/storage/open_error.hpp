// Reason why a device cannot be opened: an errno for the peer and a message for the log.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace rtrs::daemon {

struct OpenError {
  int error = 0;         // positive errno; the peer receives it negated
  std::string sentence;  // message for the log; names that came from a peer are quoted and escaped
  bool by_rule = false;  // an access rule excludes the client (Reason::not_allowed)
};

inline tl::unexpected<OpenError> refuse(int error, std::string sentence) {
  return tl::unexpected(OpenError{error, std::move(sentence)});
}

// Returns at most 200 bytes of `text`, escaped by printable(), in double quotes. Quotes and backslashes in
// the text are escaped too, so that a peer cannot forge log lines with a device name.
std::string in_quotes(std::string_view text);

// Returns for example "No such file or directory (2)" for ENOENT.
std::string errno_text(int error);

// Maps the errno of a failed IO to the errno that the peer receives. The errnos that a block device can
// report (protocol section 9.3) and EPERM are kept, EDQUOT becomes ENOSPC, and all others become EIO.
// Arguments and results are positive.
int peer_errno(int error) noexcept;

}  // namespace rtrs::daemon
