// Environment of the tester: how time passes, and how long the tester waits.
#pragma once
#include "core/fabric/fabric.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::conformance {

class Bench {
 public:
  virtual ~Bench() = default;
  virtual Nanos now() = 0;
  // Called if nothing is pending at `fabric`: returns when something may be pending, or at `until`.
  virtual void rest(Fabric& fabric, Nanos until) = 0;
};

// Maximum wait for each reaction of the peer, from the protocol or chosen where the protocol sets no limit. A
// peer fails a case if its reaction takes longer. Longer deadlines never make a correct peer fail.
struct Deadlines {
  Nanos connect = seconds(30);    // time to connect once (protocol section 3.1)
  Nanos answer = seconds(10);     // response to an INFO_REQ or a request
  Nanos refusal = seconds(10);    // reaction of the peer to a violation
  Nanos half_open = seconds(70);  // until an incomplete path is closed
  Nanos retire = seconds(45);     // until the resources of a lost path are free (protocol section 3.2)
  Nanos reconnect = seconds(80);  // until a client has reconnected (protocol section 6.3)
  Nanos heartbeat = seconds(5);   // heartbeat interval (protocol section 7)
  unsigned missed_max = 5;

  // A silent peer is declared lost between `lower` and `upper` after its last message.
  Nanos silence_lower() const noexcept { return (missed_max + 1) * heartbeat; }
  Nanos silence_upper() const noexcept { return (missed_max + 2) * heartbeat; }
};

// Multiplies all deadlines by `factor`, for a peer whose intervals are configured so.
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
