// Formats counts for messages.
#pragma once
#include <cstdint>
#include <string>

namespace rtrs {

// Returns for example "1 client" or "2 clients".
inline std::string counted(std::uint64_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace rtrs
