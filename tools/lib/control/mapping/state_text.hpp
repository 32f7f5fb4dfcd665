// Converts the desired state to and from the JSON text of the state file, without accessing the file. The
// text is not trusted.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "tools/lib/control/mapping/desired_state.hpp"

namespace rtrs::mapping {

// Latest version of the format. Version 2 added credentials, version 3 added names at servers. state_text()
// writes the lowest version that the content needs, so that an older program can read the file.
inline constexpr int kStateVersion = 3;
inline constexpr std::size_t kMaxStateBytes = std::size_t{4} << 20;

std::string state_text(const Wishes&);

struct StateFileError {
  bool newer = false;    // a later version wrote the file, so the file may be undamaged
  std::size_t line = 0;  // line of the error, from 1; 0: the error has no line
  std::string why;       // cause, as a human-readable message
};
// Parses the text. Fails if a member is unknown, missing or of another type, or if check() refuses the
// result.
tl::expected<Wishes, StateFileError> parse_state(std::string_view text);

}  // namespace rtrs::mapping
