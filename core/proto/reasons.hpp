// What people are told of each Reason: one table for logs, events, metrics, traces and the API.
// docs/reasons.md shows it.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/proto/errc.hpp"

namespace rtrs {

enum class ReasonKind : std::uint8_t {
  wanted,    // somebody asked for it: an operator, or a client that ends
  ordinary,  // a step of connecting again; the next one follows by itself
  refused,   // one side does not take the other: a configuration has to change
  broken,    // network, peer, device or memory failed
};

const char* to_string(ReasonKind) noexcept;

struct ReasonText {
  const char* code;      // as to_string(Reason); never changes its meaning
  const char* sentence;  // without a capital and a full stop, for the end of a line
  const char* hint;      // what to do, likewise; empty only for Reason::none
  // Linux errno that stands for it. Where a peer sent or is sent one, that one is told instead: a server may
  // reject for one reason with several.
  std::uint16_t linux_errno;
  ReasonKind kind;
};

// Of a number that is no Reason: a text that says so.
const ReasonText& text_of(Reason) noexcept;
// What a client is told of a path: as text_of(), except that a server that rejects with EEXIST has one thing
// to say (protocol section 3.2, row 8), which are sentence and hint then, and that hints of keys name the
// server, whose log says more. Code, errno and kind stay those of the reason.
ReasonText words_of(Reason, std::uint16_t peer_errno) noexcept;
// The reason that has this code; null: none has.
const ReasonText* text_of(std::string_view code) noexcept;

}  // namespace rtrs
