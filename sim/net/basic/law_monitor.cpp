#include "sim/net/basic/law_monitor.hpp"

#include <algorithm>

namespace rtrs::sim {
namespace {

constexpr std::size_t kKept = 16;

std::uint64_t key_of(NodeId node, std::uint32_t rkey) noexcept {
  return std::uint64_t{node} << 32 | rkey;
}

bool writes(WorkRequest::Op op) noexcept {
  return op == WorkRequest::Op::write || op == WorkRequest::Op::write_imm;
}

}  // namespace

void LawMonitor::on(const NetworkEvent& h) {
  using Kind = NetworkEvent::Kind;
  switch (h.kind) {
    case Kind::qp_created:
      return on_created(h);
    case Kind::qp_paired:
      return on_paired(h);
    case Kind::posted:
      return on_posted(h);
    case Kind::receives_posted:
      qp_at(h.qp).receives += h.length;
      return;
    case Kind::placed:
      return on_placed(h);
    case Kind::executed:
      return h.local ? on_executed_locally(h) : on_executed(h);
    case Kind::refused:
      return on_refused(h);
    case Kind::acknowledged:
      return on_acknowledged(h);
    case Kind::completed:
      return h.ending == Ending::success ? on_completed(h) : on_failed(h);
    case Kind::receive_flushed:
      check(qp_at(h.qp).receives >= h.length, 17, h, "more receives flushed than were posted");
      qp_at(h.qp).receives -= std::min<std::uint64_t>(qp_at(h.qp).receives, h.length);
      return;
    case Kind::reported:
      return on_reported(h);
    case Kind::key_granted:
      keys_[key_of(h.node, h.rkey)] = KeyRange{h.value, h.length};
      return;
    case Kind::key_revoked:
      keys_.erase(key_of(h.node, h.rkey));
      return;
    case Kind::link_cut:
    case Kind::link_healed:
    case Kind::connection_cut:
    case Kind::connection_healed:
      return on_link(h);
    case Kind::qp_broken:
      return on_broken(h);
    case Kind::qp_disconnected:
      qp_at(h.qp).disconnected = true;
      return;
    case Kind::qp_closed:
      return on_closed(h);
    case Kind::request_sent:
    case Kind::request_seen:
    case Kind::established:
    case Kind::connect_failed:
      return on_connection(h);
    case Kind::node_crashed:
    case Kind::node_restarted:
      return on_node(h);
    case Kind::overrun:
      qp_at(h.qp).overrun = true;
      return;
  }
}

void LawMonitor::violated(unsigned law, const NetworkEvent& h, const char* text) {
  ++violation_count_;
  if (violations_.size() < kKept) {
    std::string what = std::string(text) + " (queue pair " + std::to_string(h.qp);
    if (h.peer != kNone) what += ", from " + std::to_string(h.peer);
    what += ", work request " + std::to_string(h.wr) + ")";
    violations_.push_back(Violation{law, std::move(what), h.time});
  }
}

LawMonitor::Posted* LawMonitor::posted_of(Qp& qp, std::uint64_t serial) {
  if (serial < qp.first || serial >= qp.posted()) return nullptr;
  return &qp.queue[qp.head + static_cast<std::size_t>(serial - qp.first)];
}

// Drops work requests that were executed and have ended.
void LawMonitor::trim(Qp& qp) {
  while (qp.first < qp.executed) {
    const bool silent = qp.first < qp.acked && !qp.queue[qp.head].signalled;
    if (qp.first >= qp.ended && !silent) break;
    ++qp.first;
    ++qp.head;
  }
  if (qp.head == qp.queue.size()) {
    qp.queue.clear();
    qp.head = 0;
  } else if (qp.head >= 1024 && qp.head * 2 >= qp.queue.size()) {
    qp.queue.erase(qp.queue.begin(), qp.queue.begin() + static_cast<std::ptrdiff_t>(qp.head));
    qp.head = 0;
  }
}

void LawMonitor::on_created(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(!qp.known, 13, h, "a queue pair number was used again");
  qp.known = true;
  qp.node = h.node;
  qp.link = h.link;
  qp.budget = h.value;
}

void LawMonitor::on_paired(const NetworkEvent& h) {
  qp_at(std::max(h.qp, h.peer));
  Qp& client = qp_at(h.qp);
  Qp& server = qp_at(h.peer);
  const bool is_free = client.peer == kNone || qp_at(client.peer).closed;
  check(is_free && server.peer == kNone, 13, h, "a queue pair was connected twice");
  // An established client keeps its first peer when a restarted server accepts its repeated request.
  if (!client.answered) client.peer = h.peer;
  server.peer = h.qp;
}

void LawMonitor::on_posted(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(qp.known && !qp.broken && !qp.disconnected && !qp.closed, 0, h, "posted on a dead queue pair");
  check(h.wr == qp.posted(), 0, h, "work requests are not numbered in post order");
  Posted& posted = qp.queue.emplace_back();
  posted.op = h.op;
  posted.signalled = h.flag;
  posted.local = h.local;
  posted.imm = h.imm;
  posted.length = h.length;
  posted.rkey = h.rkey;
  posted.address = h.value;
  posted.time = h.time;
}

// Returns the peer's work request that has this effect, which must be the next unexecuted one; nullptr if the
// effect is illegal.
LawMonitor::Posted* LawMonitor::source(const NetworkEvent& h, const char* what) {
  if (!check(h.qp != kNone && h.peer != kNone, 17, h, "an effect without a sender")) return nullptr;
  qp_at(std::max(h.qp, h.peer));
  Qp& responder = qp_at(h.qp);
  Qp& requester = qp_at(h.peer);
  const bool paired = responder.peer == h.peer && requester.peer == h.qp;
  if (!check(paired, 13, h, "a message reached a queue pair that is not its peer")) return nullptr;
  if (!check(h.wr < requester.posted(), 17, h, "an effect of a work request that was never posted"))
    return nullptr;
  while (true) {
    const Posted* next = posted_of(requester, requester.executed);
    if (next == nullptr || !next->local || requester.executed >= h.wr) break;
    ++requester.executed;
  }
  if (!check(h.wr >= requester.executed, 2, h, what)) return nullptr;
  if (!check(h.wr == requester.executed, 1, h, "an effect came before that of an earlier work request")) {
    return nullptr;
  }
  return posted_of(requester, h.wr);
}

bool LawMonitor::key_allows(const NetworkEvent& h, std::uint64_t address, std::uint64_t length) const {
  const auto found = keys_.find(key_of(qps_[h.qp].node, h.rkey));
  if (found == keys_.end()) return false;
  const KeyRange& range = found->second;
  if (address < range.address) return false;
  const std::uint64_t begin = address - range.address;
  return begin <= range.length && length <= range.length - begin;
}

void LawMonitor::on_placed(const NetworkEvent& h) {
  Posted* posted = source(h, "payload was placed again after its work request was executed");
  if (posted == nullptr) return;
  check(!qp_at(h.qp).closed, 13, h, "payload was placed for a closed connection");
  check(writes(posted->op), 17, h, "payload was placed for something that is not a write");
  const bool in_message = h.value >= posted->address && h.rkey == posted->rkey &&
                          h.value - posted->address + h.length <= posted->length;
  check(in_message, 17, h, "payload was placed where the write does not go");
  const bool in_progress = !options_.invalidation_fences && posted->placed != 0;
  check(in_progress || key_allows(h, h.value, h.length), 14, h, "payload was placed with a bad key");
  posted->placed += h.length;
}

void LawMonitor::on_executed(const NetworkEvent& h) {
  Posted* posted = source(h, "a work request was executed twice");
  if (posted == nullptr) return;
  Qp& responder = qp_at(h.qp);
  const bool alive = !responder.broken && !responder.disconnected && !responder.closed;
  check(alive, 13, h, "a dead queue pair executed a message");
  check(h.op == posted->op && h.length == posted->length && h.imm == posted->imm, 17, h,
        "a message arrived changed");
  if (writes(posted->op)) {
    check(posted->placed >= posted->length, 5, h, "a write was executed before its payload was in place");
  }
  const bool imm_only = posted->op == WorkRequest::Op::write_imm && !options_.imm_consumes_receive;
  const bool takes = posted->op != WorkRequest::Op::write && !imm_only;
  check(takes == h.flag, 17, h, "a receive was taken wrongly, or not taken");
  if (h.flag && check(responder.receives != 0, 17, h, "a receive was taken that nobody posted")) {
    --responder.receives;
  }
  if (posted->op != WorkRequest::Op::write) {
    responder.arrivals.push_back(Arrival{posted->imm, posted->length, posted->op});
  }
  Qp& requester = qp_at(h.peer);
  ++requester.executed;
  if (!options_.done_means_delivered) requester.progress = h.time;
  trim(requester);
}

void LawMonitor::on_executed_locally(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  const Posted* posted = posted_of(qp, h.wr);
  if (!check(posted != nullptr && posted->local, 17, h, "a local operation that was never posted")) return;
  if (!check(h.wr == qp.executed, 15, h, "a local operation left its place in the send queue")) return;
  ++qp.executed;
  trim(qp);
}

void LawMonitor::on_refused(const NetworkEvent& h) {
  const Posted* posted = source(h, "a work request was refused after it was executed");
  if (posted == nullptr) return;
  if (writes(posted->op)) {
    NetworkEvent asked = h;
    asked.rkey = posted->rkey;
    check(!key_allows(asked, posted->address, posted->length), 14, h,
          "an access with a good key was refused");
  }
  qp_at(h.qp).refused_peer = true;
  qp_at(h.peer).refused_by_peer = true;
}

void LawMonitor::on_acknowledged(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(h.wr <= qp.posted(), 17, h, "more was acknowledged than posted");
  check(h.wr >= qp.acked, 3, h, "the acknowledged serial decreased");
  if (options_.done_means_delivered) {
    check(h.wr <= qp.executed, 4, h, "acknowledged without effect at the peer");
  }
  qp.acked = std::max(qp.acked, h.wr);
  if (options_.done_means_delivered) qp.progress = h.time;
  trim(qp);
}

void LawMonitor::on_completed(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(!qp.overrun, 18, h, "a completion on an overrun completion queue");
  check(!qp.failed, 7, h, "a success after a failure");
  if (!check(h.wr < qp.posted(), 17, h, "a completion of something that was never posted")) return;
  if (!check(h.wr >= qp.ended, 3, h, "a work request completed twice or out of order")) return;
  if (options_.done_means_delivered) {
    check(h.wr < qp.executed, 4, h, "success without effect at the peer");
  }
  for (std::uint64_t serial = qp.ended; serial < h.wr; ++serial) {
    const Posted* skipped = posted_of(qp, serial);
    if (skipped == nullptr || !skipped->signalled) continue;
    check(false, 3, h, "a signalled completion was left out");
    break;
  }
  qp.ended = h.wr + 1;
  trim(qp);
}

void LawMonitor::on_failed(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(!qp.overrun, 18, h, "a completion on an overrun completion queue");
  check(h.ending != Ending::rnr_exceeded || !options_.infinite_rnr, 10, h,
        "an RNR error with infinite retries");
  check(qp.broken || qp.disconnected, 7, h, "a failure on a working queue pair");
  if (!check(h.wr < qp.posted(), 17, h, "a completion of something that was never posted")) return;
  check(h.wr == qp.done(), 7, h, "a failed work request was left out or reported twice");
  if (!qp.failed && qp.broken) {
    check(h.ending == qp.cause, 7, h, "the first failure does not have the cause");
  } else {
    check(h.ending == Ending::flushed, 7, h, "a later failure was not flushed");
  }
  qp.failed = true;
  qp.ended = std::max(qp.ended, h.wr + 1);
}

void LawMonitor::on_reported(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(!qp.overrun, 18, h, "a completion on an overrun completion queue");
  if (!check(h.wr >= qp.reported, 2, h, "an arrival was reported twice")) return;
  check(h.wr == qp.reported, 3, h, "an arrival was left out");
  if (!check(qp.first_arrival < qp.arrivals.size(), 17, h, "an arrival that never happened was reported"))
    return;
  const Arrival& arrival = qp.arrivals[qp.first_arrival];
  check(arrival.op == h.op && arrival.imm == h.imm && arrival.length == h.length, 17, h,
        "an arrival was reported other than it came");
  ++qp.reported;
  if (++qp.first_arrival == qp.arrivals.size()) {
    qp.arrivals.clear();
    qp.first_arrival = 0;
  }
}

// True if the retries of this queue pair may be exhausted: nothing was acknowledged for its whole retry
// budget, and the connection is still cut or its peer is unusable.
bool LawMonitor::excused(const NetworkEvent& h, Qp& qp) {
  const Posted* oldest = posted_of(qp, options_.done_means_delivered ? qp.done() : qp.executed);
  if (oldest == nullptr) return false;
  const Nanos since = std::max(qp.progress, oldest->time);
  if (h.time - since < qp.budget) return false;
  if (qp.cut) return true;
  if (qp.link < links_.size() && (links_[qp.link].cut[0] || links_[qp.link].cut[1])) return true;
  if (qp.peer == kNone) return true;
  const Qp& peer = qp_at(qp.peer);
  return peer.broken || peer.disconnected || peer.closed || peer.peer != h.qp ||
         !(peer.answered || qp.answered);
}

void LawMonitor::on_broken(const NetworkEvent& h) {
  if (h.qp < qps_.size() && qps_[h.qp].peer != kNone) qp_at(qps_[h.qp].peer);
  Qp& qp = qp_at(h.qp);
  check(qp.known && !qp.broken && !qp.closed, 7, h, "a dead queue pair broke");
  qp.broken = true;
  qp.cause = h.ending;
  if (h.ending == Ending::retry_exceeded) {
    check(excused(h, qp), 12, h, "retries ran out below their budget");
  } else if (h.ending == Ending::rnr_exceeded) {
    check(!options_.infinite_rnr, 10, h, "an RNR error with infinite retries");
  } else if (h.ending == Ending::remote_access) {
    check(qp.refused_peer || qp.refused_by_peer, 9, h, "broken by a refusal that never happened");
    if (qp.refused_peer || qp.peer == kNone) return;
    // The responder breaks first; its refusal then breaks the requester.
    const Qp& peer = qp_at(qp.peer);
    check(peer.broken || peer.closed, 9, h, "a refusal left the responder alive");
  }
}

void LawMonitor::on_closed(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  check(!qp.closed, 0, h, "a connection was closed twice");
  check(qp.disconnected, 0, h, "a connection was closed that nobody disconnected");
  check(qp.done() == qp.posted(), 7, h, "a connection was closed with work requests outstanding");
  check(qp.receives == 0, 7, h, "a connection was closed with receives outstanding");
  qp.closed = true;
}

void LawMonitor::on_connection(const NetworkEvent& h) {
  Qp& qp = qp_at(h.qp);
  switch (h.kind) {
    case NetworkEvent::Kind::request_sent:
      check(!qp.request_sent, 16, h, "a second connect request of one connection");
      qp.request_sent = true;
      return;
    case NetworkEvent::Kind::request_seen: {
      const std::uint64_t start = h.node < crashes_.size() ? crashes_[h.node] : 0;
      check(qp.request_sent, 16, h, "a connect request that was never sent");
      check(qp.seen_at != start, 16, h, "a connect request was seen twice");
      qp.seen_at = start;
      return;
    }
    case NetworkEvent::Kind::established:
      check(qp.peer != kNone, 16, h, "established without having been accepted");
      check(!qp.answered, 16, h, "a connect request was answered twice");
      qp.answered = true;
      // The peer may differ from the paired one: a restarted server may have accepted a repeated request too.
      if (h.peer != kNone) qp.peer = h.peer;
      return;
    default:
      check(!qp.answered, 16, h, "a connect request was answered twice");
      qp.answered = true;
      return;
  }
}

void LawMonitor::on_link(const NetworkEvent& h) {
  const bool cut = h.kind == NetworkEvent::Kind::link_cut || h.kind == NetworkEvent::Kind::connection_cut;
  if (h.link == kNone) return void(qp_at(h.qp).cut = cut);
  if (h.link >= links_.size()) links_.resize(std::size_t{h.link} + 1);
  links_[h.link].cut[static_cast<unsigned>(h.way)] = cut;
}

void LawMonitor::on_node(const NetworkEvent& h) {
  if (h.kind != NetworkEvent::Kind::node_crashed) return;
  if (h.node >= crashes_.size()) crashes_.resize(std::size_t{h.node} + 1, 0);
  ++crashes_[h.node];
  for (Qp& qp : qps_) {
    if (qp.node == h.node) qp.closed = true;
  }
}

}  // namespace rtrs::sim
