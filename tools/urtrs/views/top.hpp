// IO rates of each path between two replies of a server.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Computes rates from two replies to server.show that are `seconds` apart. Counters of a new path, or a path
// whose counters were reset, start at 0.
Table rates(const nlohmann::json& before, const nlohmann::json& now, double seconds);

// Fields of the bytes that were read and written.
struct ByteFields {
  const char* read;
  const char* written;
};
// `before`, `now`: tables of paths.
Table rates(const Table& before, const Table& now, double seconds, ByteFields);

}  // namespace rtrs::admin
