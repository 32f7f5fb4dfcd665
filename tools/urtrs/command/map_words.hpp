// Arguments of `urtrs map`. The same as in the command `rnbd` of the RNBD developers: DEVICE from SERVER
// [[SRC@]DST]... [MODE].
#pragma once
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

struct MapWords {
  std::string device;
  std::string from;                // name of a mapped session, or a server
  std::vector<std::string> paths;  // [SRC@]DST
  std::string mode;                // ro, rw or migration; empty: not given
};

// Parses the arguments. "from" may be omitted, and the mode may be at any position after the server.
tl::expected<MapWords, Mistake> map_words(const std::vector<std::string>& arguments);

// Returns an error in the options if it can be detected without a server.
std::optional<Mistake> wrong_map_options(const MapOptions&);

// Arguments of `unmap` and `remap`.
struct UnmapWords {
  std::string device;
  std::string session;  // empty: the only session with this device
  bool force = false;
};
tl::expected<UnmapWords, Mistake> unmap_words(const std::string& verb,
                                              const std::vector<std::string>& arguments);

}  // namespace rtrs::admin
