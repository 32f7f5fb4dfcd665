#include "sim/check/law_check.hpp"

#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "sim/law_monitor.hpp"

namespace rtrs::sim {

namespace {

constexpr std::size_t kKept = 64;

WorkRequest::Op op_of(spec::WireOp op) noexcept {
  switch (op) {
    case spec::WireOp::write:
      return WorkRequest::Op::write;
    case spec::WireOp::write_imm:
      return WorkRequest::Op::write_imm;
    case spec::WireOp::send:
      return WorkRequest::Op::send;
    case spec::WireOp::send_imm:
      return WorkRequest::Op::send_imm;
    case spec::WireOp::send_inv:
      return WorkRequest::Op::send_inv;
  }
  return WorkRequest::Op::write;
}

}  // namespace

void LawCollector::on(unsigned machine, const spec::Event& event) {
  const Place place{trace_, machine};
  const auto key = std::pair(place, event.key);
  if (event.kind == spec::Kind::WireCm) {
    if (event.cm != spec::CmKind::req || event.key.epoch == 0 || event.bytes.size() < spec::kConReqBytes)
      return;
    const Name name{spec::uuid_at(event.bytes, 12), spec::uuid_at(event.bytes, 28),
                    spec::u16_at(event.bytes, 10), spec::u16_at(event.bytes, 6)};
    named_[name].push_back(ends_.size());
    current_[key] = ends_.size();
    ends_.push_back(End{event.key, trace_, event.sent, {}, {}, false, false});
    return;
  }
  const auto found = current_.find(key);
  if (found == current_.end()) return;
  End& end = ends_[found->second];
  if (event.kind == spec::Kind::WireGap) {
    end.gapped = true;
    return;
  }
  const bool unread =
      event.kind == spec::Kind::WireReceived && event.length == 0 && event.op == spec::WireOp::write_imm;
  const Message message{event.op, event.has_imm ? event.imm : 0, event.length, !unread};
  if (event.kind == spec::Kind::WireSent) end.sent.push_back(message);
  if (event.kind == spec::Kind::WireReceived && event.op != spec::WireOp::write)
    end.received.push_back(message);
}

void LawCollector::end_trace(bool whole) {
  for (std::size_t at = first_end_; !whole && at < ends_.size(); ++at) ends_[at].cut = true;
}

// One direction of one connection, before a monitor of its own: the sender is queue pair 0 of node 0.
class LawCollector::Direction {
 public:
  Direction(const End& from, const End& to) : from_(from), to_(to) {
    feed(Happening::Kind::qp_created, [](Happening& h) { h.qp = 0, h.node = 0; });
    feed(Happening::Kind::qp_created, [](Happening& h) { h.qp = 1, h.node = 1; });
    feed(Happening::Kind::qp_paired, [](Happening&) {});
    for (std::size_t wr = 0; wr < from.sent.size(); ++wr)
      feed(Happening::Kind::posted, [&](Happening& h) {
        const Message& message = from.sent[wr];
        h.wr = wr, h.op = op_of(message.op), h.imm = message.imm, h.length = message.length;
      });
    feed(Happening::Kind::receives_posted, [&](Happening& h) {
      h.qp = 1, h.length = static_cast<std::uint32_t>(std::min<std::size_t>(to.received.size(), 0xffffffff));
    });
    // Keys are the business of the rules for requests and responses.
    feed(Happening::Kind::key_granted, [](Happening& h) { h.node = 1, h.length = 0xffffffff; });
  }

  void judge(LawCheck& check) {
    std::size_t next = 0;
    for (const Message& seen : to_.received) {
      // Writes without immediate are seen by nobody: they came before what was sent after them.
      while (next < from_.sent.size() && from_.sent[next].op == spec::WireOp::write) {
        effect(next, from_.sent[next]);
        ++next;
      }
      if (from_.cut && next == from_.sent.size()) break;
      effect(source_of(seen, next), seen);
      if (monitor_.violation_count() != 0) break;
      ++next;
    }
    check.messages += to_.received.size();
    check.violations += monitor_.violation_count();
    for (const Violation& violation : monitor_.violations())
      if (check.findings.size() < kKept) check.findings.push_back({violation.law, violation.text + where()});
  }

 private:
  template <class Change>
  void feed(Happening::Kind kind, Change change) {
    Happening happening;
    happening.kind = kind;
    happening.qp = 0;
    happening.peer = 1;
    change(happening);
    monitor_.on(happening);
  }
  void effect(std::size_t wr, const Message& seen) {
    const std::uint32_t length = seen.known || wr >= from_.sent.size() ? seen.length : from_.sent[wr].length;
    const bool writes = seen.op == spec::WireOp::write || seen.op == spec::WireOp::write_imm;
    const auto place = [&](Happening& h) { h.qp = 1, h.peer = 0, h.wr = wr, h.length = length; };
    if (writes && length != 0) feed(Happening::Kind::placed, place);
    feed(Happening::Kind::executed, [&](Happening& h) {
      place(h);
      h.op = op_of(seen.op), h.imm = seen.imm, h.flag = seen.op != spec::WireOp::write;
    });
  }
  bool fits(std::size_t wr, const Message& seen) const {
    const Message& posted = from_.sent[wr];
    return posted.op == seen.op && posted.imm == seen.imm && (!seen.known || posted.length == seen.length);
  }
  // The one that it should be, else a later one, else an earlier one.
  std::size_t source_of(const Message& seen, std::size_t next) const {
    for (std::size_t wr = next; wr < from_.sent.size(); ++wr)
      if (fits(wr, seen)) return wr;
    for (std::size_t wr = std::min(next, from_.sent.size()); wr-- > 0;)
      if (fits(wr, seen)) return wr;
    return next;
  }
  std::string where() const {
    return std::string(from_.client ? ", client to server" : ", server to client") + ", path " +
           std::to_string(from_.key.path) + " connection " + std::to_string(from_.key.con) + " incarnation " +
           std::to_string(from_.key.epoch);
  }

  const End& from_;
  const End& to_;
  LawMonitor monitor_;
};

LawCheck LawCollector::judge() const {
  LawCheck check;
  check.paired.assign(trace_ + std::size_t{1}, false);
  for (const auto& [name, ends] : named_) {
    const End* client = nullptr;
    const End* server = nullptr;
    unsigned clients = 0, servers = 0;
    for (const std::size_t at : ends) {
      const End& end = ends_[at];
      (end.client ? client : server) = &end;
      ++(end.client ? clients : servers);
    }
    // A request that reached two servers, or the same server before and after a restart, has no one other
    // end.
    if (clients != 1 || servers != 1 || client->gapped || server->gapped) continue;
    ++check.pairs;
    check.paired[client->trace] = check.paired[server->trace] = true;
    Direction(*client, *server).judge(check);
    Direction(*server, *client).judge(check);
  }
  return check;
}

}  // namespace rtrs::sim
