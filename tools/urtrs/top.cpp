#include "tools/urtrs/top.hpp"

#include <map>
#include <utility>

#include "tools/urtrs/views.hpp"

namespace rtrs::admin {

using nlohmann::json;
using Kind = Field::Kind;

namespace {

// The same path of the same session.
std::pair<std::string, std::string> key_of(const json& row) {
  return {row.value("sessname", ""), row.value("peer", "")};
}

}  // namespace

Table rates(const json& before, const json& now, double seconds) {
  std::map<std::pair<std::string, std::string>, json> earlier;
  for (Row& row : paths(before, {}).rows) earlier.emplace(key_of(row.values), std::move(row.values));
  Table table{"paths",
              {{"sessname", "Session", "name of the session"},
               {"pathname", "Path", "both ends"},
               {"state", "State", "of the path"},
               {"read_iops", "Reads/s", "requests to read a second", Kind::number, true, true},
               {"read_bytes_s", "Read/s", "bytes a second", Kind::bytes, true, true},
               {"write_iops", "Writes/s", "requests to write a second", Kind::number, true, true},
               {"write_bytes_s", "Write/s", "bytes a second", Kind::bytes, true, true},
               {"inflights", "Inflight", "requests that are not answered", Kind::number, true, true}},
              {}};
  for (const Row& row : paths(now, {}).rows) {
    const auto found = earlier.find(key_of(row.values));
    const auto rate = [&](const char* key) -> std::uint64_t {
      const std::uint64_t value = number(row.values, key);
      const std::uint64_t was = found == earlier.end() ? 0 : number(found->second, key);
      return static_cast<std::uint64_t>(static_cast<double>(value < was ? value : value - was) / seconds +
                                        0.5);
    };
    table.rows.push_back({{{"sessname", row.values.value("sessname", "")},
                           {"pathname", row.values.value("pathname", "")},
                           {"state", row.values.value("state", "")},
                           {"read_iops", rate("reads")},
                           {"read_bytes_s", rate("read_bytes")},
                           {"write_iops", rate("writes")},
                           {"write_bytes_s", rate("write_bytes")},
                           {"inflights", number(row.values, "inflights")}},
                          {}});
  }
  return table;
}

}  // namespace rtrs::admin
