// Why a device cannot be opened: a number for the peer, a sentence for the log.
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

// At most 200 bytes of `text`, printable() and in double quotes, so that a peer cannot forge log lines with
// the name of a device. Quotes and backslashes of the text get a backslash in front.
std::string in_quotes(std::string_view text);

// "No such file or directory (2)" for ENOENT.
std::string errno_text(int error);

// The errno a peer is told for a failed IO: kept where a block device could report it (protocol section 9.3,
// and EPERM), EDQUOT becomes ENOSPC, everything else EIO. Takes and returns positive numbers.
int peer_errno(int error) noexcept;

}  // namespace rtrs::daemon
