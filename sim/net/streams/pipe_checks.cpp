// Checks of a PipeFabric that run after each poll.
#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/net/streams/pipe_fabric.hpp"

namespace rtrs::sim {
namespace {

// The engine combines deadlines that are close together, and may therefore miss one by this time.
constexpr Nanos kSlack = milliseconds(50);
// The engine must have checked its deadlines within this number of polls, even after a process pause.
constexpr unsigned kLatePolls = 40;

// Hash of the memory. In large memory it covers every eighth word only, because a stray write would be
// longer.
std::uint64_t digest_of(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kLarge = 512;
  const std::size_t step = bytes.size() > kLarge ? 64 : 8;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += step) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = (hash ^ word) * 0x100000001b3ULL;
  }
  return hash;
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

// True if another live key covers the memory.
bool PipeFabric::is_open(const Dead& dead) const noexcept {
  return std::any_of(keys_.begin(), keys_.end(), [&dead](const auto& one) {
    return one.second.rkey != 0 && overlap(one.second.bytes, dead.bytes);
  });
}

void PipeFabric::before_poll() {
  const bool changed = std::exchange(keys_changed_, false);
  for (Dead& one : dead_) {
    if (changed) one.watched = !is_open(one);
    if (one.watched) one.digest = digest_of(one.bytes);
  }
}

// The process does not run during a poll, so that only the fabric can have changed the memory.
void PipeFabric::check_dead_keys() {
  for (const Dead& one : dead_) {
    if (one.watched && digest_of(one.bytes) != one.digest)
      network_.laws_.violated(14, network_.now(), "data is written under a revoked key");
  }
}

void PipeFabric::check_arrival(const FabricEvent& event, std::vector<PipeLaws::Posted>& written) {
  const ConKey* const key = event::key_of(event);
  if (key == nullptr) return;
  const QpId id = network_.find_qp(node_, *key);
  if (id != kNone) network_.laws_.told(id, event, network_.now());
  if (std::holds_alternative<event::ConnectionClosed>(event)) {
    network_.nodes_[node_].by_key.erase(PipeNetwork::packed(*key));
    return;
  }
  if (const auto* ended = std::get_if<event::KeyInvalidated>(&event)) {
    const auto found = std::find_if(keys_.begin(), keys_.end(),
                                    [&](const auto& one) { return one.second.rkey == ended->rkey; });
    // The key is not added to `dead_` yet, because earlier writes under it may land in this poll.
    if (found != keys_.end()) found->second.rkey = 0, keys_changed_ = true;
  }
  if (id == kNone || network_.ends_[id].peer == kNone) return;
  const QpId peer = network_.ends_[id].peer;
  // A sender that has closed may change its memory before the bytes are read, so that its writes cannot be
  // compared.
  std::vector<PipeLaws::Posted> now_written;
  network_.laws_.arrived(id, peer, event, network_.now(), now_written);
  if (network_.laws_.is_over(peer)) return;
  std::move(now_written.begin(), now_written.end(), std::back_inserter(written));
}

void PipeFabric::check_writes(const std::vector<PipeLaws::Posted>& written) {
  for (std::size_t at = 0; at < written.size(); ++at) {
    const PipeLaws::Posted& one = written[at];
    const auto key =
        std::find_if(keys_.begin(), keys_.end(), [&](const auto& it) { return it.second.rkey == one.rkey; });
    if (one.bytes.empty() || key == keys_.end()) continue;
    const std::span<const std::byte> memory = key->second.bytes;
    if (one.address > memory.size() || one.bytes.size() > memory.size() - one.address) {
      network_.laws_.violated(14, network_.now(), "a write outside of what its key opens is reported");
      continue;
    }
    const auto place = memory.subspan(static_cast<std::size_t>(one.address), one.bytes.size());
    if (std::equal(place.begin(), place.end(), one.bytes.begin())) continue;
    // A later write of this poll may have overwritten the same memory.
    const bool again = std::any_of(written.begin() + static_cast<std::ptrdiff_t>(at) + 1, written.end(),
                                   [&](const PipeLaws::Posted& other) { return other.rkey == one.rkey; });
    if (!again && !network_.laws_.writes_to(one.rkey))
      network_.laws_.violated(5, network_.now(), "an arrival is reported before what was written with it");
  }
}

void PipeFabric::check_books() {
  const tcp::FabricImpl::Books books = engine.books();
  const auto fail = [&](const char* text) { network_.laws_.violated(20, network_.now(), text); };
  if (books.accepted != accepted_) fail("more connections are counted than there are");
  if (accepted_ == 0 && books.memory != 0) fail("memory is counted for connections that are over");
  if (books.half_open_by_host != books.half_open) fail("a client counts for its address that is not there");
  if (books.accepted_by_host != books.accepted || books.memory_by_host != books.memory)
    fail("the counts of all addresses are not what there is");
  if (std::exchange(half_open_at_, network_.changes_) != network_.changes_) {
    const auto& ends = network_.nodes_[node_].ends;
    const auto held = std::count_if(ends.begin(), ends.end(), [this](QpId id) {
      const PipeNetwork::End& end = network_.ends_[id];
      return end.accepted && !end.keyed && !end.closed;
    });
    half_open_ = static_cast<std::size_t>(held);
  }
  if (half_open_ > books.half_open + books.last_words) fail("a socket is open that nothing is waited for on");
}

// Returns a description of what this end has waited for longer than its time limit; nullptr if nothing is
// overdue. In that case, lowers `next` to the first time at which this end can be overdue, unless it changes.
const char* PipeFabric::overdue(PipeNetwork::End& end, Nanos& next) noexcept {
  const Nanos now = network_.now();
  const tcp::TcpOptions& may = network_.tcp_;
  const auto late = [now, &next](Nanos since, unsigned limit_ms) {
    if (since == kNever) return false;
    const Nanos limit = since + milliseconds(limit_ms) + kSlack;
    next = std::min(next, limit);
    return now > limit;
  };
  if (!end.keyed) {
    const bool half = end.accepted && late(end.since, may.handshake_timeout_ms + may.drain_timeout_ms);
    return half ? "a client that does not complete its request is kept" : nullptr;
  }
  if (late(end.owed_since, may.undelivered_timeout_ms))
    return "a connection is kept whose socket takes nothing, or too little";
  if (end.state != PipeNetwork::End::State::open) return nullptr;
  const bool receives = network_.laws_.receives(static_cast<QpId>(&end - network_.ends_.data())) != 0;
  const bool starved = !end.in.empty() && !receives;
  if (!starved) end.starved_since = kNever;
  if (starved && end.starved_since == kNever) end.starved_since = now;
  if (late(end.starved_since, may.receive_timeout_ms))
    return "a message waits for a receive without time limit";
  const PipeNetwork::End& peer = network_.ends_[end.peer];
  if (!end.accepted && !peer.walk.has_greeted() && late(end.since, may.undelivered_timeout_ms))
    return "an answer to a connect request is waited for without end";
  const bool is_mid_message = peer.walk.is_mid_frame() && end.in.empty() && receives;
  return is_mid_message && late(peer.delivered, 2 * may.undelivered_timeout_ms)
             ? "the rest of a message is waited for without end"
             : nullptr;
}

void PipeFabric::check_waits() {
  const bool changed = std::exchange(waits_at_, network_.changes_) != network_.changes_;
  if (!changed && network_.now() <= waits_until_) return;
  waits_until_ = kNever;
  auto& ends = network_.nodes_[node_].ends;
  std::erase_if(ends, [this](QpId id) { return network_.ends_[id].closed; });
  for (const QpId id : ends) {
    PipeNetwork::End& end = network_.ends_[id];
    const char* const waits = overdue(end, waits_until_);
    end.late_polls = waits != nullptr ? end.late_polls + 1 : 0;
    if (end.late_polls >= kLatePolls) network_.laws_.violated(19, network_.now(), waits);
  }
}

void PipeFabric::check_faults() {
  const tcp::TcpStats stats = engine.stats();
  if (stats.large_packets_lost != 0 && network_.stats_.swallowed == 0)
    network_.laws_.violated(21, network_.now(), "an honest network is said to drop large packets");
  if (stats.faults == faults_) return;
  faults_ = stats.faults;
  for (const iwarp::Fault fault :
       {iwarp::Fault::unknown_key, iwarp::Fault::foreign_key, iwarp::Fault::bad_invalidation})
    network_.stats_.refused += stats.faults[static_cast<std::size_t>(fault)];
  if (network_.stats_.corrupted != 0 || network_.allows_violations_) return;
  for (std::size_t fault = 0; fault < stats.faults.size(); ++fault) {
    if (stats.faults[fault] == 0 || static_cast<iwarp::Fault>(fault) == iwarp::Fault::no_receive) continue;
    network_.laws_.violated(21, network_.now(),
                            std::string("a fault is reported for an honest peer: ") +
                                to_string(static_cast<iwarp::Fault>(fault)));
  }
}

}  // namespace rtrs::sim
