// Computes the IO rates of each path from two replies of a server.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// `before` and `now` are replies to server.show, `seconds` apart. For a path that is new or whose counters
// were reset, the counters in `before` are taken as 0.
Table rates(const nlohmann::json& before, const nlohmann::json& now, double seconds);

// Names of the fields that count the bytes read and written.
struct ByteFields {
  const char* read;
  const char* written;
};
// `before` and `now` are tables of paths.
Table rates(const Table& before, const Table& now, double seconds, ByteFields);

}  // namespace rtrs::admin
