// Origin of a trace, for human readers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rtrs::trace {

// Texts are UTF-8 of at most 1023 bytes; a writer replaces invalid bytes and truncates. At most 256 options
// are stored.
struct Origin {
  std::string tool;                  // program name and version
  std::string role;                  // client, server or both
  std::string backend;               // fabric name
  std::uint64_t seed = 0;            // seed of the run; 0: none
  std::vector<std::string> options;  // settings of the program, each as key=value
  bool operator==(const Origin&) const = default;
};

}  // namespace rtrs::trace
