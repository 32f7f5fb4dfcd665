// Reason why a device cannot be opened: an errno for the peer and a sentence for the log.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace rtrs::daemon {

struct OpenError {
  int error = 0;         // positive errno, sent (negated) to the peer
  std::string sentence;  // for the log; every name that came from a peer is quoted and escaped
};

inline tl::unexpected<OpenError> refuse(int error, std::string sentence) {
  return tl::unexpected(OpenError{error, std::move(sentence)});
}

// Returns at most 200 bytes of `text`, escaped by printable(), in double quotes, so that a peer cannot forge
// log lines with a device name. Quotes and backslashes in the text are escaped with a backslash.
std::string in_quotes(std::string_view text);

// Example: "No such file or directory (2)" for ENOENT.
std::string errno_text(int error);

// Maps the errno of a failed IO to the one sent to the peer. An errno that a block device can report is kept
// (protocol section 9.3, and EPERM), EDQUOT becomes ENOSPC, any other becomes EIO. Takes and returns positive
// numbers.
int peer_errno(int error) noexcept;

}  // namespace rtrs::daemon
