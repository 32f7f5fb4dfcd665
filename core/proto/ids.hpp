// Small identifiers shared by every layer. All are values: compare, hash and copy them freely.
#pragma once
#include <compare>
#include <cstdint>
#include <type_traits>

#include "core/base/direction.hpp"
#include "core/base/reflect.hpp"
#include "core/base/time.hpp"
#include "core/proto/limits.hpp"

namespace rtrs {

// One incarnation of one connection (queue pair). `epoch` is never reused by the side that issued the key, so
// a late event of an older incarnation can always be distinguished from a current event.
//   client: path = index in the session, con = cid, epoch = number of the connection attempt of that path
//   (from 1), session = 0
//   server: path = index in the session, con = cid, epoch = counter of the whole server, session = its index
struct ConKey {
  std::uint16_t path = 0;
  std::uint16_t con = 0;
  std::uint32_t epoch = 0;
  std::uint16_t session = 0;

  // Returns a dense number that identifies session and path. If the session is 0, the number is below
  // kMaxPaths.
  constexpr std::uint32_t place() const noexcept { return session * kMaxPaths + path; }
  // Number in traces, texts and hashes. In older versions a session had at most 8 paths, numbered session * 8
  // + path. The first 8 paths of each session keep these numbers; further paths have higher numbers.
  constexpr std::uint32_t number() const noexcept {
    return path % 8U + session * 8U + path / 8U * (kMaxSessions * 8U);
  }
  constexpr void set_number(std::uint32_t number) noexcept {
    path = static_cast<std::uint16_t>(number % 8 + number / (kMaxSessions * 8) % (kMaxPaths / 8) * 8);
    session = static_cast<std::uint16_t>(number / 8 % kMaxSessions);
  }

  bool operator==(const ConKey&) const = default;
  constexpr std::strong_ordering operator<=>(const ConKey& other) const noexcept {
    if (place() != other.place()) return place() <=> other.place();
    return con != other.con ? con <=> other.con : epoch <=> other.epoch;
  }
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self& self, Visitor&& visit) {
    if constexpr (std::is_const_v<Self>) {
      const std::uint32_t number = self.number();
      visit("path", number);
    } else {
      std::uint32_t number = self.number();
      visit("path", number);
      self.set_number(number);
    }
    visit("con", self.con);
    visit("epoch", self.epoch);
  }
};

// Progress of an operation on all connections of a path. Each step handles at most kConsPerStep connections.
struct ConBatch {
  static constexpr bool kDefaultIsNotHashed = true;  // keeps fingerprints of older traces valid
  std::uint16_t next = 0;                            // next connection to handle; 0: the operation is done
  bool operator==(const ConBatch&) const = default;
  RTRS_FIELDS(next)
};

// Identity of a client as determined by its fabric: a digest of the name in its certificate or of its key.
// Different names have different digests. All zero: the fabric did not authenticate the client.
struct PeerIdentity {
  static constexpr bool kDefaultIsNotHashed = true;  // keeps fingerprints of older traces valid
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const PeerIdentity&) const = default;
  RTRS_FIELDS(low, high)
};

// A request that the server has not answered yet.
struct OldestRequest {
  Nanos since = 0;  // send time, on the clock of the inputs
  std::uint16_t path = 0;
  std::uint16_t con = 0;
};

}  // namespace rtrs
