// O5: the resources of the fabric that a node holds, counted at the interface. When nothing is in flight,
// they are exactly what the connected paths need; after the close, there are none.
#pragma once
#include <cstdint>
#include <string>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

struct Holdings {
  std::int64_t connections = 0;  // ConKeys passed to connect() or accept() without ConnectionClosed
  std::int64_t regions = 0;
  std::int64_t remote_keys = 0;
  bool operator==(const Holdings&) const = default;
};

inline std::string to_string(const Holdings& holdings) {
  return std::to_string(holdings.connections) + " connections, " + std::to_string(holdings.regions) +
         " regions, " + std::to_string(holdings.remote_keys) + " remote keys";
}

inline void check_holdings(Judge& judge, Nanos now, const std::string& who, const Holdings& holds,
                           const Holdings& expected) {
  if (holds != expected)
    judge.fail(Oracle::ledger, now,
               who + " holds " + to_string(holds) + " and should hold " + to_string(expected));
}

// Checks a number that must return to its initial value.
inline void check_balance(Judge& judge, Nanos now, const std::string& what, std::uint64_t value,
                          std::uint64_t expected) {
  if (value != expected)
    judge.fail(Oracle::ledger, now,
               what + ": " + std::to_string(value) + " instead of " + std::to_string(expected));
}

}  // namespace rtrs::sim
