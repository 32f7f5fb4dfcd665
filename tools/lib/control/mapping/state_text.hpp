// Wishes as the text of the state file: JSON. Pure; the text is hostile.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "tools/lib/control/mapping/wishes.hpp"

namespace rtrs::mapping {

// Version 1 has neither credentials nor names at servers, version 2 has no names. state_text() writes the
// lowest version that the wishes need, so that an older program can read it.
inline constexpr int kStateVersion = 3;
inline constexpr std::size_t kMostStateBytes = std::size_t{4} << 20;

std::string state_text(const Wishes&);

struct BadState {
  bool newer = false;    // written by a later version: nothing is wrong with it
  std::size_t line = 0;  // from 1 on; 0: none by itself
  std::string why;       // a sentence
};
// Takes the whole text or nothing: unknown members, members that are missing or of another type, and what
// check() refuses are mistakes.
tl::expected<Wishes, BadState> parse_state(std::string_view text);

}  // namespace rtrs::mapping
