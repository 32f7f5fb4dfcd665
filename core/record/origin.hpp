// Origin of a trace, for human readers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/time.hpp"

namespace rtrs::trace {

// Texts are UTF-8 of at most 1023 bytes; a writer replaces invalid bytes and truncates. At most 256 options
// are stored.
struct Origin {
  std::string tool;                  // program name and version
  std::string role;                  // client, server or both
  std::string backend;               // fabric name
  std::uint64_t seed = 0;            // seed of the run; 0: none
  std::vector<std::string> options;  // settings of the program, each as key=value
  // Time at which the file was opened or the ring was dumped, on the clock of the records and in ns since
  // 1970 (UTC); 0: unknown.
  Nanos taken = 0;
  std::uint64_t wall = 0;
  bool operator==(const Origin&) const = default;
};

}  // namespace rtrs::trace
