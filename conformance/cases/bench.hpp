// What the tester stands on: how time passes, and how long it waits.
#pragma once
#include "core/fabric/fabric.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::conformance {

class Bench {
 public:
  virtual ~Bench() = default;
  virtual Nanos now() = 0;
  // Nothing is pending at `fabric`: returns when something may be, at `until` at the latest.
  virtual void rest(Fabric& fabric, Nanos until) = 0;
};

// The bounds of every wait, which the protocol gives or leaves to the peer. What a peer has to do must be
// seen within them; longer ones never make a correct peer fail.
struct Deadlines {
  Nanos connect = seconds(30);    // of one connection (protocol section 3.1)
  Nanos answer = seconds(10);     // of an INFO_REQ or a request
  Nanos refusal = seconds(10);    // from a violation to what becomes of it
  Nanos half_open = seconds(70);  // a path that never gets complete is given up
  Nanos retire = seconds(45);     // what a lost path held is free again (protocol section 3.2)
  Nanos reconnect = seconds(80);  // a client comes back (protocol section 6.3)
  Nanos heartbeat = seconds(5);   // interval (protocol section 7)
  unsigned missed_max = 5;

  // A silent peer is given up in [lower, upper] after its last sign of life.
  Nanos silence_lower() const noexcept { return (missed_max + 1) * heartbeat; }
  Nanos silence_upper() const noexcept { return (missed_max + 2) * heartbeat; }
};

// For peers whose intervals were shortened or lengthened by that factor.
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
