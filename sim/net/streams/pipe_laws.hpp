// What a fabric over streams promises, checked from outside: by what is posted on one end and reported at the
// other, by the memory that keys lead to, and by what the sockets do. It shares nothing with the fabric.
//
//   A1  arrivals are a prefix of what was posted, in order
//   A2  nothing arrives twice, no receive is taken twice
//   A5  what was written before an arrival is in place when the arrival is reported
//   A14 access needs a valid key: nothing lands under one that is dead
//   A17 nothing arrives that was not posted
//   A19 a wait for a peer has a bound: a client that says nothing, a socket that takes nothing
//   A20 what is held for connections ends with them
//   A22 nobody sleeps over what he has to send or to report
//   A21 an honest peer is never accused, unless octets were changed on the way
//   A23 after disconnect() a connection reports only its end, and that of keys of this side
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/fabric/work.hpp"
#include "sim/net/basic/law_monitor.hpp"
#include "sim/net/basic/network_event.hpp"

namespace rtrs::sim {

class PipeLaws {
 public:
  // One work request as it was posted.
  struct Posted {
    WorkRequest::Op op = WorkRequest::Op::write;
    std::uint32_t imm = 0;
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;
    std::vector<std::byte> bytes;  // of a SEND, or what a write reads
    bool dead = false;             // the key of a write was dead when it was posted
  };

  void violated(unsigned law, Nanos now, std::string text);
  void posted(QpId from, Posted);
  // The end of the sender is over: what it posted may be changed by its process from now on.
  void over(QpId from) { of(from).over = true; }
  // disconnect() was called.
  void left(QpId at) { of(at).over = of(at).left = true; }
  void told(QpId at, const FabricEvent&, Nanos now);
  // `at` reported `event`, posted by `from`. What was written with it and before it is appended to `written`.
  void arrived(QpId at, QpId from, const FabricEvent&, Nanos now, std::vector<Posted>& written);
  // Something that was posted and did not arrive writes under this key.
  bool writes_to(std::uint32_t rkey) const noexcept;
  bool is_over(QpId from) const noexcept { return from < ends_.size() && ends_[from].over; }
  std::uint64_t receives(QpId at) const noexcept { return at < ends_.size() ? ends_[at].receives : 0; }
  void receives_posted(QpId at, unsigned count) { of(at).receives += count; }

  bool withholds(QpId) const noexcept;
  std::uint32_t withheld_messages(QpId) const noexcept;
  // Something that its arrival is reported of was posted, and was not reported: not a write alone.
  bool is_awaited(QpId) const noexcept;
  const std::vector<Violation>& violations() const noexcept { return violations_; }

 private:
  struct Ledger {
    std::deque<Posted> queue;  // posted here, and not arrived
    std::uint64_t receives = 0;
    bool over = false;
    bool left = false;
  };
  Ledger& of(QpId id) {
    if (id >= ends_.size()) ends_.resize(std::size_t{id} + 1);
    return ends_[id];
  }
  void take_receive(QpId at, Nanos now);

  std::vector<Ledger> ends_;
  std::vector<Violation> violations_;
};

}  // namespace rtrs::sim
