// Table of all limits that a user can reach, built from the constants that the code enforces. `urtrs limits`
// prints it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rtrs::tools {

struct Limit {
  const char* name;        // stable name; server.show of urtrsd uses it, too
  const char* what;        // what the limit applies to
  std::uint64_t value;     // default; 0: depends on the host
  std::uint64_t most;      // largest value that can be set; equal to `value` if it cannot be set
  const char* unit;        // unit of `value` and `most`; empty: a count
  std::uint64_t protocol;  // limit in docs/protocol.md; 0: none
  const char* setting;     // setting that raises the limit; empty: none
  const char* beyond;      // effect of exceeding the limit
};

std::span<const Limit> limits();
const Limit* find_limit(std::string_view name);  // returns nullptr if no limit has this name

}  // namespace rtrs::tools
