// Checks a fabric's promises from outside: compares what is posted on one end with what is reported at
// the other, watches the memory behind keys, and watches the sockets. Shares no code with the fabric.
//
//   A1  arrivals are a prefix of what was posted, in order
//   A2  nothing arrives twice, no receive is consumed twice
//   A5  what was written before an arrival is in place when the arrival is reported
//   A14 access needs a valid key: no data is written under a revoked key
//   A17 nothing arrives that was not posted
//   A19 waiting for a peer has a time limit: for a silent client, and for a socket that accepts no data
//   A20 resources held for a connection are freed when the connection ends
//   A22 no process sleeps while it has something to send or to report
//   A21 no fault is reported for a correct peer, unless bytes were changed in transit
//   A23 after disconnect() a connection reports only its end, and the end of local keys
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
  // A posted work request.
  struct Posted {
    WorkRequest::Op op = WorkRequest::Op::write;
    std::uint32_t imm = 0;
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;
    std::vector<std::byte> bytes;  // payload of a SEND, or data of a write
    bool dead = false;             // the key of this write had already been revoked when it was posted
  };

  void violated(unsigned law, Nanos now, std::string text);
  void posted(QpId from, Posted);
  // Called when the sender has closed. From then on, its process may change the memory of posted work.
  void over(QpId from) { of(from).over = true; }
  // Called after disconnect().
  void left(QpId at) { of(at).over = of(at).left = true; }
  void told(QpId at, const FabricEvent&, Nanos now);
  // Called when `at` has reported `event` as the arrival of what `from` posted. Appends the write of this
  // event and the writes before it to `written`.
  void arrived(QpId at, QpId from, const FabricEvent&, Nanos now, std::vector<Posted>& written);
  // True if a posted write that has not arrived uses this key.
  bool writes_to(std::uint32_t rkey) const noexcept;
  bool is_over(QpId from) const noexcept { return from < ends_.size() && ends_[from].over; }
  std::uint64_t receives(QpId at) const noexcept { return at < ends_.size() ? ends_[at].receives : 0; }
  void receives_posted(QpId at, unsigned count) { of(at).receives += count; }

  bool has_undelivered(QpId) const noexcept;
  std::uint32_t undelivered_messages(QpId) const noexcept;
  // True if a posted work request of this end has not been reported at the peer. Plain writes do not count:
  // they are never reported.
  bool is_awaited(QpId) const noexcept;
  const std::vector<Violation>& violations() const noexcept { return violations_; }

 private:
  struct Ledger {
    std::deque<Posted> queue;  // posted by this end and not arrived
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
