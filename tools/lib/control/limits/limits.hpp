// Every limit that a user can meet, from the constants that the code refuses by. docs/limits.md has the same
// table, and `urtrs limits` prints it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rtrs::tools {

struct Limit {
  const char* name;        // never changes its meaning; server.show of urtrsd has the same names
  const char* what;        // is counted
  std::uint64_t value;     // as it is unless something is set; 0: depends on the host
  std::uint64_t most;      // that can be set; `value` where nothing can
  const char* unit;        // of both; empty: a number of things
  std::uint64_t protocol;  // what docs/protocol.md allows; 0: it says nothing
  const char* setting;     // what raises it; empty: nothing does
  const char* beyond;      // what happens then
};

std::span<const Limit> limits();
const Limit* find_limit(std::string_view name);  // nullptr: there is none
// A row of the table in docs/limits.md.
std::string markdown_row(const Limit&);

}  // namespace rtrs::tools
