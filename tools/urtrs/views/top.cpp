#include "tools/urtrs/views/top.hpp"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "core/driver/service_times.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;
using Kind = Field::Kind;

namespace {

// Returns the key by which the same path is found in both replies.
std::pair<std::string, std::string> key_of(const json& row) {
  return {row.value("sessname", ""), row.value("peer", row.value("pathname", ""))};
}

using Times = ServiceTimes::Times;

// Adds the histogram of the service times of reads or of writes.
void add_times(Times& to, const json& row, const char* direction) {
  for (const json& bucket : row.value(std::string(direction) + "_buckets", json::array()))
    if (bucket.is_array() && bucket.size() == 2 && bucket[0].is_number_unsigned() &&
        bucket[1].is_number_unsigned())
      to.add(Times::bucket_of(bucket[0].get<std::uint64_t>()), bucket[1].get<std::uint64_t>());
}

// Returns the requests that are in `now` but not in `before`. If the counters were reset in between, returns
// all requests in `now`.
Times newer(const Times& now, const Times& before) {
  Times difference;
  for (std::size_t i = 0; i < Times::kBuckets; ++i) {
    if (now.count(i) < before.count(i)) return now;
    difference.add(i, now.count(i) - before.count(i));
  }
  return difference;
}

double micros(std::uint64_t nanos) {
  return std::round(static_cast<double>(nanos) / 100) / 10;
}

// Adds "p50_us" and "p99_us" of the requests between the two replies. The requests of all given directions
// are combined.
void add_percentiles(json& values, const std::string& prefix, const json& before, const json& now,
                     const std::vector<const char*>& directions) {
  Times old;
  Times all;
  for (const char* direction : directions) {
    add_times(old, before, direction);
    add_times(all, now, direction);
  }
  const Times times = newer(all, old);
  values[prefix + "p50_us"] = micros(times.percentile(50));
  values[prefix + "p99_us"] = micros(times.percentile(99));
}

}  // namespace

Table rates(const json& before, const json& now, double seconds) {
  return rates(paths(before, {}), paths(now, {}), seconds, {"tx_bytes", "rx_bytes"});
}

Table rates(const Table& before, const Table& now, double seconds, ByteFields bytes) {
  std::map<std::pair<std::string, std::string>, json> earlier;
  for (const Row& row : before.rows) earlier.emplace(key_of(row.values), row.values);
  Table table{"paths",
              {{"sessname", "Session", "name of the session"},
               {"pathname", "Path", "both ends"},
               {"state", "State", "of the path"},
               {"read_iops", "Reads/s", "requests to read a second", Kind::number, true, true},
               {"read_bytes_s", "Read/s", "bytes a second", Kind::bytes, true, true},
               {"write_iops", "Writes/s", "requests to write a second", Kind::number, true, true},
               {"write_bytes_s", "Write/s", "bytes a second", Kind::bytes, true, true},
               {"inflights", "Inflight", "requests that are not answered", Kind::number, true, true},
               {"p50_us", "p50/us", "microseconds from request to answer: half of all", Kind::number},
               {"p99_us", "p99/us", "99 of 100", Kind::number},
               {"read_p50_us", "Read p50/us", "half of the reads", Kind::number, false},
               {"read_p99_us", "Read p99/us", "99 of 100 reads", Kind::number, false},
               {"write_p50_us", "Write p50/us", "half of the writes", Kind::number, false},
               {"write_p99_us", "Write p99/us", "99 of 100 writes", Kind::number, false}},
              {},
              {"state", "inflights", "p50_us", "read_iops", "write_iops"}};
  for (const Row& row : now.rows) {
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
                           {"read_bytes_s", rate(bytes.read)},
                           {"write_iops", rate("writes")},
                           {"write_bytes_s", rate(bytes.written)},
                           {"inflights", number(row.values, "inflights")}},
                          {}});
    const json was = found == earlier.end() ? json::object() : found->second;
    json& values = table.rows.back().values;
    add_percentiles(values, "", was, row.values, {"read", "write"});
    add_percentiles(values, "read_", was, row.values, {"read"});
    add_percentiles(values, "write_", was, row.values, {"write"});
  }
  return table;
}

}  // namespace rtrs::admin
