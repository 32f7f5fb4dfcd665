// Small identifiers shared by every layer. All are values: compare, hash and copy them freely.
#pragma once
#include <compare>
#include <cstdint>

#include "core/base/direction.hpp"
#include "core/base/reflect.hpp"

namespace rtrs {

// Monotonic time in nanoseconds since an origin that the caller chooses. Never wall-clock time.
using Nanos = std::uint64_t;
inline constexpr Nanos kNever = ~Nanos{0};
constexpr Nanos microseconds(std::uint64_t n) {
  return n * 1'000;
}
constexpr Nanos milliseconds(std::uint64_t n) {
  return n * 1'000'000;
}
constexpr Nanos seconds(std::uint64_t n) {
  return n * 1'000'000'000;
}
// The time `delay` after `start`; kNever where the sum is beyond the range, so that a delay of kNever never
// ends.
constexpr Nanos later(Nanos start, Nanos delay) {
  return delay > kNever - start ? kNever : start + delay;
}

// One incarnation of one connection (queue pair). `epoch` is never reused by the side that issued the key, so
// a late event of an older incarnation can always be told from a current one.
//   client: path = index in the session, con = cid, epoch = number of the connection attempt of that path
//   (from 1) server: path = session index * kMaxPaths + index in the session, con = cid, epoch = counter of
//   the whole server
struct ConKey {
  std::uint16_t path = 0;
  std::uint16_t con = 0;
  std::uint32_t epoch = 0;
  auto operator<=>(const ConKey&) const = default;
  RTRS_FIELDS(path, con, epoch)
};

// Who a client is, as its fabric found out: a digest of the name in its certificate or of its key, which is
// the same for the same name alone. All zero: nobody asked.
struct PeerIdentity {
  static constexpr bool kDefaultIsNotHashed = true;  // Fingerprint
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const PeerIdentity&) const = default;
  RTRS_FIELDS(low, high)
};

// A request that the server has not answered yet.
struct OldestRequest {
  Nanos since = 0;  // when it was sent, by the clock of the inputs
  std::uint16_t path = 0;
  std::uint16_t con = 0;
};

}  // namespace rtrs
