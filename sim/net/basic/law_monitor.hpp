// Checks the behaviour of a network of reliable connections against the laws of such networks. The monitor
// gets only network events and shares no code with the network, so that it detects mistakes in the network.
//
//   A1  effects at a responder are a prefix of what was posted; only the last effect may be partial
//   A2  no work request is executed twice, and no receive is consumed twice
//   A3  work requests complete in post order
//   A4  success means that the message was delivered, and retires all earlier work requests
//   A5  data that was written before an arrival is in place when the arrival is reported
//   A7  the first failure has the cause, all later ones are flushed, each outstanding one ends exactly once
//   A9  a refused access breaks both ends; exhausted retries break only the requester
//   A10 with infinite RNR retries there is no RNR error
//   A12 an outage shorter than the retry budget breaks nothing
//   A13 no message of an old queue pair reaches a new one
//   A14 access needs a valid key, and an address within its range
//   A15 local operations keep their place in the send queue
//   A16 each connection has one connect request and is established once
//   A17 nothing completes or arrives that was not posted
//   A18 an overrun completion queue stays unusable
// A6 (torn writes), A8 (unknown fate) and A11 (payload without completion) are permissions, which cannot be
// violated.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/net/basic/network_event.hpp"

namespace rtrs::sim {

// Value of Violation::law for incorrect use of the in-memory adapters (sim/net/verbs), which is not a law of
// the network.
inline constexpr unsigned kAdapterMisuse = 100;

struct Violation {
  unsigned law = 0;  // number of the law, 1..18; 0: invalid network event
  std::string text;
  Nanos time = 0;
};

class LawMonitor {
 public:
  struct Options {
    bool done_means_delivered = true;  // a completion proves delivery, see A4
    bool imm_consumes_receive = true;
    bool infinite_rnr = true;
    bool invalidation_fences = true;  // a revoked key stops even a write in progress
  };
  LawMonitor() = default;
  explicit LawMonitor(const Options& options) : options_(options) {}

  void on(const NetworkEvent&);
  // Returns the first 16 violations; violation_count() counts all.
  const std::vector<Violation>& violations() const noexcept { return violations_; }
  std::uint64_t violation_count() const noexcept { return violation_count_; }

 private:
  struct Posted {
    WorkRequest::Op op = WorkRequest::Op::write;
    bool signalled = false;
    bool local = false;
    std::uint32_t imm = 0;
    std::uint32_t length = 0;
    std::uint64_t placed = 0;  // number of bytes placed so far
    Nanos time = 0;
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;
  };
  struct Arrival {
    std::uint32_t imm = 0;
    std::uint32_t length = 0;
    WorkRequest::Op op = WorkRequest::Op::write;
  };
  struct Qp {
    bool known = false, broken = false, disconnected = false, closed = false, overrun = false;
    bool request_sent = false, answered = false;
    bool failed = false;           // a work request failed; all later ones are flushed
    bool refused_peer = false;     // responder: refused an access of the peer
    bool refused_by_peer = false;  // requester: an access was refused
    bool cut = false;              // none of its messages reaches the peer
    NodeId node = kNone;
    LinkId link = kNone;
    QpId peer = kNone;
    Ending cause = Ending::flushed;
    std::uint64_t budget = 0;
    std::uint64_t seen_at = ~std::uint64_t{0};  // crash count of the server when it saw the connect request
    std::uint64_t first = 0;                    // serial of queue[head]
    std::uint64_t acked = 0;                    // work requests with a lower serial have arrived
    std::uint64_t ended = 0;                    // work requests with a lower serial have completed or failed
    std::uint64_t executed = 0;                 // work requests with a lower serial had their effect
    std::vector<Posted> queue;
    std::size_t head = 0;
    std::uint64_t receives = 0;  // receives that are posted and not consumed
    std::vector<Arrival> arrivals;
    std::size_t first_arrival = 0;
    std::uint64_t reported = 0;
    Nanos progress = 0;  // time of the last acknowledgement

    std::uint64_t posted() const noexcept { return first + (queue.size() - head); }
    std::uint64_t done() const noexcept { return acked > ended ? acked : ended; }
  };
  struct LinkState {
    bool cut[2] = {false, false};
  };
  struct KeyRange {
    std::uint64_t address = 0;
    std::uint32_t length = 0;
  };

  Qp& qp_at(QpId id) {
    if (id == kNone) id = 0;
    if (id >= qps_.size()) qps_.resize(std::size_t{id} + 1);
    return qps_[id];
  }
  Posted* posted_of(Qp&, std::uint64_t serial);
  bool check(bool holds, unsigned law, const NetworkEvent& event, const char* text) {
    if (!holds) violated(law, event, text);
    return holds;
  }
  void violated(unsigned law, const NetworkEvent&, const char* text);
  Posted* source(const NetworkEvent&, const char* what);
  void on_created(const NetworkEvent&);
  void on_paired(const NetworkEvent&);
  void on_posted(const NetworkEvent&);
  void on_placed(const NetworkEvent&);
  void on_executed(const NetworkEvent&);
  void on_executed_locally(const NetworkEvent&);
  void on_refused(const NetworkEvent&);
  void on_acknowledged(const NetworkEvent&);
  void on_completed(const NetworkEvent&);
  void on_failed(const NetworkEvent&);
  void on_reported(const NetworkEvent&);
  void on_broken(const NetworkEvent&);
  void on_closed(const NetworkEvent&);
  void on_connection(const NetworkEvent&);
  void on_link(const NetworkEvent&);
  void on_node(const NetworkEvent&);
  bool excused(const NetworkEvent&, Qp&);
  bool key_allows(const NetworkEvent&, std::uint64_t address, std::uint64_t length) const;
  void trim(Qp&);

  Options options_;
  std::vector<Qp> qps_;
  std::vector<LinkState> links_;
  std::vector<std::uint64_t> crashes_;                // indexed by node
  std::unordered_map<std::uint64_t, KeyRange> keys_;  // node << 32 | rkey; looked up, never iterated
  std::vector<Violation> violations_;
  std::uint64_t violation_count_ = 0;
};

}  // namespace rtrs::sim
