// The words of `urtrs map`, as the command of RNBD's makers takes them: DEVICE from SERVER [[SRC@]DST]...
// [MODE].
#pragma once
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

struct MapWords {
  std::string device;
  std::string from;                // a session that is mapped already, or a server
  std::vector<std::string> paths;  // [SRC@]DST
  std::string mode;                // ro, rw or migration; empty: not given
};

// "from" may be left out, and the mode may stand anywhere behind the server.
tl::expected<MapWords, Mistake> map_words(const std::vector<std::string>& arguments);

// What of its options no server has to be asked for.
std::optional<Mistake> wrong_map_options(const MapOptions&);

// Of `unmap` and `remap`.
struct UnmapWords {
  std::string device;
  std::string session;  // empty: the only one that has it
  bool force = false;
};
tl::expected<UnmapWords, Mistake> unmap_words(const std::string& verb,
                                              const std::vector<std::string>& arguments);

}  // namespace rtrs::admin
