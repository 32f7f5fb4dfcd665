// User-visible text of each Reason: one table for logs, events, metrics, traces and the API.
// `docs/reasons.md` lists it.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/proto/errc.hpp"

namespace rtrs {

enum class ReasonKind : std::uint8_t {
  wanted,    // requested by an operator, or by a client that exits
  ordinary,  // a step of reconnecting; the next step follows automatically
  refused,   // one side rejects the other: a configuration must change
  broken,    // a failure of the network, a peer, a device or memory
};

const char* to_string(ReasonKind) noexcept;

struct ReasonText {
  const char* code;      // text of to_string(Reason); never changes its meaning
  const char* sentence;  // sentence for the end of a line: no initial capital, no full stop
  const char* hint;      // advice what to do, in the same form; empty only for Reason::none
  // Linux errno for this reason. If an errno is sent to or received from a peer, that errno is reported
  // instead, because a server may use different errnos for one reason.
  std::uint16_t linux_errno;
  ReasonKind kind;
};

// Returns the text of a reason; for a number that is not a Reason, a text that says so.
const ReasonText& text_of(Reason) noexcept;
// Returns the text of a path's reason on the client, like text_of() with two differences: a rejection with
// EEXIST has its own sentence and hint (protocol section 3.2, check 8), and hints about keys name the server,
// whose log has details. Code, errno and kind are those of the reason. `fabric` is the fabric of the path,
// such as "tcp", or empty if unknown: it selects the credentials that a hint names.
ReasonText words_of(Reason, std::uint16_t peer_errno, std::string_view fabric = {}) noexcept;
// Returns the reason with this code, or null.
const ReasonText* text_of(std::string_view code) noexcept;

}  // namespace rtrs
