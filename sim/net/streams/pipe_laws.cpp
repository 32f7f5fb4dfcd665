#include "sim/net/streams/pipe_laws.hpp"

#include <algorithm>
#include <utility>

#include "core/wire/imm.hpp"

namespace rtrs::sim {
namespace {

constexpr std::size_t kKept = 8;  // maximum number of recorded violations

bool is_silent(const PipeLaws::Posted& one) noexcept {
  return one.op == WorkRequest::Op::write;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// Returns a description of how `event` differs from the expected arrival of `one`; nullptr if it does not.
const char* difference(const PipeLaws::Posted& one, const FabricEvent& event) noexcept {
  if (const auto* imm = std::get_if<event::ImmReceived>(&event)) {
    if (one.op != WorkRequest::Op::write_imm) return "an immediate arrives instead of something else";
    return imm->imm == one.imm ? nullptr : "another immediate arrives than was posted";
  }
  if (const auto* message = std::get_if<event::MessageReceived>(&event)) {
    if (one.op != WorkRequest::Op::send && one.op != WorkRequest::Op::send_imm)
      return "a message arrives instead of something else";
    const bool has_imm = one.op == WorkRequest::Op::send_imm;
    if (message->imm.has_value() != has_imm || (has_imm && *message->imm != one.imm))
      return "a message arrives with another immediate";
    return same(message->payload, one.bytes) ? nullptr
                                             : "a message arrives with other octets than were posted";
  }
  const auto* key = std::get_if<event::KeyInvalidated>(&event);
  if (key == nullptr) return nullptr;
  if (one.op != WorkRequest::Op::send_inv) return "an invalidation arrives instead of something else";
  return key->rkey == one.rkey ? nullptr : "another key is invalidated than was asked for";
}

}  // namespace

void PipeLaws::violated(unsigned law, Nanos now, std::string text) {
  if (violations_.size() < kKept) violations_.push_back({law, std::move(text), now});
}

void PipeLaws::posted(QpId from, Posted one) {
  of(from).queue.push_back(std::move(one));
}

// A write with immediate and a SEND consume one receive each.
void PipeLaws::take_receive(QpId at, Nanos now) {
  Ledger& ledger = of(at);
  if (ledger.receives == 0) return violated(2, now, "more arrives than there are receives");
  --ledger.receives;
}

void PipeLaws::arrived(QpId at, QpId from, const FabricEvent& event, Nanos now,
                       std::vector<Posted>& written) {
  const bool arrival = std::holds_alternative<event::ImmReceived>(event) ||
                       std::holds_alternative<event::MessageReceived>(event) ||
                       std::holds_alternative<event::KeyInvalidated>(event);
  if (!arrival) return;
  take_receive(at, now);
  std::deque<Posted>& queue = of(from).queue;
  const auto is_taken = [&] {
    if (queue.front().dead)
      violated(14, now, "a write under a key that was dead when it was posted is taken");
  };
  while (!queue.empty() && is_silent(queue.front())) {
    is_taken();
    written.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  if (queue.empty()) return violated(17, now, "something arrives that was not posted");
  if (const char* const wrong = difference(queue.front(), event)) return violated(1, now, wrong);
  is_taken();
  if (queue.front().op == WorkRequest::Op::write_imm) written.push_back(std::move(queue.front()));
  queue.pop_front();
}

void PipeLaws::told(QpId at, const FabricEvent& event, Nanos now) {
  const bool ends = std::holds_alternative<event::ConnectionClosed>(event) ||
                    std::holds_alternative<event::ChunkInvalidated>(event);
  if (of(at).left && !ends) violated(23, now, "an event is reported for a connection after disconnect()");
}

bool PipeLaws::writes_to(std::uint32_t rkey) const noexcept {
  return std::any_of(ends_.begin(), ends_.end(), [rkey](const Ledger& ledger) {
    return std::any_of(ledger.queue.begin(), ledger.queue.end(), [rkey](const Posted& one) {
      const bool writes = one.op == WorkRequest::Op::write || one.op == WorkRequest::Op::write_imm;
      return writes && one.rkey == rkey && !one.bytes.empty();
    });
  });
}

bool PipeLaws::is_awaited(QpId id) const noexcept {
  return id < ends_.size() && !std::all_of(ends_[id].queue.begin(), ends_[id].queue.end(), is_silent);
}

bool PipeLaws::has_undelivered(QpId id) const noexcept {
  if (id >= ends_.size() || ends_[id].over) return false;
  return std::any_of(ends_[id].queue.begin(), ends_[id].queue.end(), [](const Posted& one) {
    const bool imm = one.op == WorkRequest::Op::write_imm || one.op == WorkRequest::Op::send_imm;
    return imm && wire::imm_type(one.imm) != wire::ImmType::hb_msg &&
           wire::imm_type(one.imm) != wire::ImmType::hb_ack;
  });
}

std::uint32_t PipeLaws::undelivered_messages(QpId id) const noexcept {
  if (id >= ends_.size() || ends_[id].over) return 0;
  return static_cast<std::uint32_t>(
      std::count_if(ends_[id].queue.begin(), ends_[id].queue.end(),
                    [](const Posted& one) { return one.op == WorkRequest::Op::send; }));
}

}  // namespace rtrs::sim
