// Environment of the tester: how time passes, and how long the tester waits.
#pragma once
#include "core/fabric/fabric.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::conformance {

class Bench {
 public:
  virtual ~Bench() = default;
  virtual Nanos now() = 0;
  // Called when nothing is pending at `fabric`. Returns when something may be pending, at the latest at
  // `until`.
  virtual void rest(Fabric& fabric, Nanos until) = 0;
};

// Maximum wait for each reaction of the peer. A peer fails a case if its reaction takes longer. The values
// are from the protocol, or chosen where the protocol sets no limit. Longer deadlines never make a correct
// peer fail.
struct Deadlines {
  Nanos connect = seconds(30);    // time to connect once (protocol section 3.1)
  Nanos answer = seconds(10);     // time for the response to an INFO_REQ or a request
  Nanos refusal = seconds(10);    // time for the peer's reaction to a violation
  Nanos half_open = seconds(70);  // time until an incomplete path is closed
  Nanos retire = seconds(45);     // time until the resources of a lost path are free (protocol section 3.2)
  Nanos reconnect = seconds(80);  // time until a client has reconnected (protocol section 6.3)
  Nanos heartbeat = seconds(5);   // heartbeat interval (protocol section 7)
  unsigned missed_max = 5;

  // A silent peer is declared lost between `lower` and `upper` after its last message.
  Nanos silence_lower() const noexcept { return (missed_max + 1) * heartbeat; }
  Nanos silence_upper() const noexcept { return (missed_max + 2) * heartbeat; }
};

// Multiplies all deadlines by `factor`, for a peer that is configured with longer or shorter intervals.
inline Deadlines scaled(const Deadlines& all, double factor) noexcept {
  const auto by = [factor](Nanos one) { return static_cast<Nanos>(static_cast<double>(one) * factor); };
  Deadlines made = all;
  made.connect = by(all.connect);
  made.answer = by(all.answer);
  made.refusal = by(all.refusal);
  made.half_open = by(all.half_open);
  made.retire = by(all.retire);
  made.reconnect = by(all.reconnect);
  made.heartbeat = by(all.heartbeat);
  return made;
}

}  // namespace rtrs::conformance
