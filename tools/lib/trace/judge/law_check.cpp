#include "tools/lib/trace/judge/law_check.hpp"

#include <algorithm>
#include <string>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/immediate.hpp"
#include "core/record/chain_hash.hpp"
#include "sim/net/basic/law_monitor.hpp"
#include "tools/lib/trace/judge/law_chunks.hpp"

namespace rtrs::trace {

namespace {

constexpr std::size_t kKept = 64;
constexpr unsigned kContentLaw = 17;  // law A17: nothing arrives that was not posted

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
  ++records_;
  const auto key = std::pair(Place{trace_, machine}, event.key);
  if (event.kind == spec::Kind::WireCm) return connected(key, event);
  const bool gap = event.kind == spec::Kind::WireGap;
  if (!gap && event.kind != spec::Kind::WireSent && event.kind != spec::Kind::WireReceived) return;
  if (gap) traces_without_beginning_.insert(trace_);
  const auto found = current_.find(key);
  if (found == current_.end()) {
    traces_without_beginning_.insert(trace_);
    return;
  }
  End& end = ends_[found->second];
  if (gap) {
    end.gapped = true;
    return;
  }
  const bool unread =
      event.kind == spec::Kind::WireReceived && event.length == 0 && event.op == spec::WireOp::write_imm;
  Message message{
      event.op, event.has_imm ? event.imm : 0, event.length, !unread, 0, 0, event.digest, records_, event.seq,
      event.now};
  message.head_size = static_cast<std::uint32_t>(event.bytes.size());
  message.head = trace::content_digest(event.bytes.data(), event.bytes.size());
  if (event.kind == spec::Kind::WireSent) end.sent.add(*store_, message);
  if (event.kind != spec::Kind::WireReceived) return;
  if (event.op != spec::WireOp::write) return end.received.add(*store_, message);
  if (event.rkey != 0 || end.received.empty()) return;
  // The data of the READ that the last response ended.
  Message& response = end.received.back();
  response.read_length = message.length;
  response.read_head_size = message.head_size;
  response.read_head = message.head;
  response.read_data = message.data;
}

void LawCollector::connected(const std::pair<Place, spec::Key>& key, const spec::Event& event) {
  const auto known = current_.find(key);
  if (event.cm == spec::CmKind::rep && known != current_.end()) {
    End& end = ends_[known->second];
    end.accepted = true;
    if (event.bytes.size() >= spec::kConRspBytes) end.depth = spec::u16_at(event.bytes, 6);
  }
  if (event.cm != spec::CmKind::req || event.key.epoch == 0 || event.bytes.size() < spec::kConReqBytes)
    return;
  const Name name{spec::uuid_at(event.bytes, 12), spec::uuid_at(event.bytes, 28),
                  spec::u16_at(event.bytes, 10), spec::u16_at(event.bytes, 6)};
  named_[name].push_back(ends_.size());
  current_[key] = ends_.size();
  End end;
  end.key = event.key;
  end.trace = trace_;
  end.machine = key.first.second;
  end.client = event.sent;
  ends_.push_back(std::move(end));
}

void LawCollector::end_trace(bool whole) {
  // A capture does not say whether the run went on after its last frame.
  if (whole && !captures_.contains(trace_)) return;
  for (std::size_t at = first_end_; at < ends_.size(); ++at) ends_[at].cut = true;
}

// Checks one direction of one connection with a separate law monitor. The sender is queue pair 0 of node 0.
class LawCollector::Direction {
 public:
  Direction(const LawCollector& all, const End& from, const End& to, const spec::Uuid& session,
            const Chunks& chunks)
      : all_(all), from_(from), to_(to), session_(session), chunks_(chunks) {
    feed(sim::NetworkEvent::Kind::qp_created, [](sim::NetworkEvent& h) { h.qp = 0, h.node = 0; });
    feed(sim::NetworkEvent::Kind::qp_created, [](sim::NetworkEvent& h) { h.qp = 1, h.node = 1; });
    feed(sim::NetworkEvent::Kind::qp_paired, [](sim::NetworkEvent&) {});
    feed(sim::NetworkEvent::Kind::receives_posted, [&](sim::NetworkEvent& h) {
      h.qp = 1, h.length = static_cast<std::uint32_t>(std::min<std::size_t>(to.received.size(), 0xffffffff));
    });
    // Grants access to all memory. Keys are not checked here, because the rules for requests and responses
    // check them.
    feed(sim::NetworkEvent::Kind::key_granted,
         [](sim::NetworkEvent& h) { h.node = 1, h.length = 0xffffffff; });
  }

  void judge(LawCheck& check, Contents contents) {
    std::size_t next = 0;
    Message seen;
    for (std::size_t at = 0; at < to_.received.size(); ++at) {
      seen = all_.received(to_, at);
      // The receiver does not see writes without immediate. Each of these writes counts as arrived before the
      // next message.
      while (next < from_.sent.size() && sent(next).op == spec::WireOp::write) {
        effect(next, sent(next));
        ++next;
      }
      if (from_.cut && next == from_.sent.size()) break;
      effect(source_of(seen, next), seen);
      if (monitor_.violation_count() != 0) break;
      if (contents == Contents::compare) compare(next, seen, check);
      if (contents == Contents::compare && seen.read_length != 0) compare_read(next, seen, check);
      ++next;
    }
    check.messages += to_.received.size();
    check.violations += monitor_.violation_count();
    for (const sim::Violation& violation : monitor_.violations())
      if (check.findings.size() < kKept)
        check.findings.push_back({violation.law, violation.text + where(), place(to_, seen), {}});
  }

 private:
  // Compares the received message `seen` with the sent message `wr`.
  void compare(std::size_t wr, const Message& seen, LawCheck& check) const {
    if (wr >= from_.sent.size() || (seen.known && seen.length == 0)) return;
    const Message posted = sent(wr);
    const bool has_data = posted.length > posted.head_size;
    const bool comparable = seen.known && posted.length == seen.length &&
                            posted.head_size == seen.head_size &&
                            (!has_data || (posted.data != 0 && seen.data != 0));
    if (!comparable) {
      check.uncompared += posted.length != 0;
      return;
    }
    ++check.contents;
    const bool same_head = posted.head == seen.head;
    if (same_head && (!has_data || same_data(posted, seen))) return;
    if (from_.client && chunks_.may_be_overwritten(session_, from_, wr)) {
      ++check.unproven;
      return;
    }
    report(check, posted, seen,
           "message " + std::to_string(wr) + " of " + std::to_string(seen.length) + " bytes arrived with " +
               (same_head ? "other user data than was sent" : "another header than was sent"));
  }
  // Compares the data of a READ with what the server sent with its response, or in the messages before it.
  void compare_read(std::size_t wr, const Message& seen, LawCheck& check) const {
    if (wr >= from_.sent.size()) return;
    Message data = sent(wr);
    const bool joined = data.op == spec::WireOp::write_imm && data.length != 0;
    std::size_t at = wr;
    while (!joined && at != 0 && is_before_response(sent(at - 1).op)) {
      data = sent(--at);
      if (data.op == spec::WireOp::write && data.length != 0) break;
    }
    const bool found = joined || (at != wr && data.op == spec::WireOp::write);
    // A server may send less than the buffer holds; the rest is not known to it.
    if (!found || data.length != seen.read_length || data.head_size != seen.read_head_size) {
      check.uncompared += found;
      return;
    }
    ++check.contents;
    Message read = seen;
    read.length = seen.read_length, read.head_size = seen.read_head_size, read.data = seen.read_data;
    if (data.head == seen.read_head && same_data(data, read)) return;
    if (chunks_.may_be_of_another(session_, to_, seen)) {
      ++check.unproven;
      return;
    }
    report(check, data, seen,
           "the " + std::to_string(data.length) + " bytes of a READ arrived other than they were sent");
  }
  static bool is_before_response(spec::WireOp op) {
    return op == spec::WireOp::write || op == spec::WireOp::send_inv;
  }
  static LawPlace place(const End& end, const Message& message) {
    return {end.trace, message.seq, message.time};
  }
  void report(LawCheck& check, const Message& posted, const Message& seen, const std::string& text) const {
    ++check.violations;
    if (check.findings.size() < kKept)
      check.findings.push_back({kContentLaw, text + where(), place(to_, seen), place(from_, posted)});
  }
  static bool same_data(const Message& posted, const Message& seen) {
    return posted.data == seen.data || is_generated_data(posted, seen.data) ||
           is_generated_data(seen, posted.data);
  }
  // Returns true if `digest` is the digest of generated data: if a trace has only digests, a capture that
  // `urtrs-replay pcap` makes from it repeats the digest in place of the data.
  static bool is_generated_data(const Message& message, std::uint64_t digest) {
    constexpr std::uint32_t kMaxData = std::uint32_t{1} << 28;
    const std::uint32_t size = message.length - message.head_size;
    if (size > kMaxData) return false;
    std::string filler(size, '\0');
    for (std::size_t at = 0; at < size; ++at)
      filler[at] = static_cast<char>((message.data >> (8 * (at % 8))) & 0xff);
    return trace::content_digest(filler.data(), filler.size()) == digest;
  }
  template <class Change>
  void feed(sim::NetworkEvent::Kind kind, Change change) {
    sim::NetworkEvent network_event;
    network_event.kind = kind;
    network_event.qp = 0;
    network_event.peer = 1;
    change(network_event);
    monitor_.on(network_event);
  }
  // Posts the work requests up to `wr`.
  void post(std::size_t wr) {
    for (; posted_ < from_.sent.size() && posted_ <= wr; ++posted_)
      feed(sim::NetworkEvent::Kind::posted, [&](sim::NetworkEvent& h) {
        const Message message = sent(posted_);
        h.wr = posted_, h.op = op_of(message.op), h.imm = message.imm, h.length = message.length;
      });
  }
  void effect(std::size_t wr, const Message& seen) {
    post(wr);
    const std::uint32_t length = seen.known || wr >= from_.sent.size() ? seen.length : sent(wr).length;
    const bool writes = seen.op == spec::WireOp::write || seen.op == spec::WireOp::write_imm;
    const auto place = [&](sim::NetworkEvent& h) { h.qp = 1, h.peer = 0, h.wr = wr, h.length = length; };
    if (writes && length != 0) feed(sim::NetworkEvent::Kind::placed, place);
    feed(sim::NetworkEvent::Kind::executed, [&](sim::NetworkEvent& h) {
      place(h);
      h.op = op_of(seen.op), h.imm = seen.imm, h.flag = seen.op != spec::WireOp::write;
    });
    if (monitor_.violation_count() == 0) forget(wr, seen, length);
  }
  // Tells the monitor that the work request has ended and was reported, so that it forgets both.
  void forget(std::size_t wr, const Message& seen, std::uint32_t length) {
    feed(sim::NetworkEvent::Kind::acknowledged, [wr](sim::NetworkEvent& h) { h.wr = wr + 1; });
    if (seen.op == spec::WireOp::write) return;
    feed(sim::NetworkEvent::Kind::reported, [&](sim::NetworkEvent& h) {
      h.qp = 1, h.wr = reported_++;
      h.op = op_of(seen.op), h.imm = seen.imm, h.length = length;
    });
  }
  Message sent(std::size_t wr) const { return all_.sent(from_, wr); }
  bool fits(std::size_t wr, const Message& seen) const {
    const Message posted = sent(wr);
    return posted.op == seen.op && posted.imm == seen.imm && (!seen.known || posted.length == seen.length);
  }
  // Returns the index of the sent message that `seen` matches: the next expected one, otherwise a later one,
  // otherwise an earlier one. Returns `next` if no sent message matches.
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

  const LawCollector& all_;
  const End& from_;
  const End& to_;
  const spec::Uuid& session_;
  const Chunks& chunks_;
  sim::LawMonitor monitor_;
  std::size_t posted_ = 0;
  std::uint64_t reported_ = 0;
};

// Finds traces that do not belong to the same run as the others. Two traces belong to one run if a connection
// has one end in each trace. This holds even if a second or restarted server received the same connect
// request, or if packets are missing.
void LawCollector::pair_traces(LawCheck& check) const {
  std::vector<bool> busy(traces_), known(traces_), setup(traces_);
  bool servers = false;
  for (const auto& [name, ends] : named_) {
    bool client = false, server = false;
    for (const std::size_t at : ends) (ends_[at].client ? client : server) = true;
    check.clients = check.clients || client, servers = servers || server;
    for (const std::size_t at : ends) {
      const End& end = ends_[at];
      setup[end.trace] = true;
      // An unanswered connect request may have been lost, so no other trace needs to contain its peer.
      if (end.accepted && !end.received.empty()) busy[end.trace] = true;
      if (client && server) known[end.trace] = true;
    }
  }
  check.one_sided = check.clients != servers;
  for (unsigned trace = 0; trace < traces_; ++trace)
    if (!setup[trace]) check.without_setup.push_back(trace);
  check.silent = !ends_.empty() && std::all_of(ends_.begin(), ends_.end(), [](const End& end) {
    return end.sent.empty() && end.received.empty();
  });
  if (check.one_sided) return;
  for (unsigned trace = 0; trace < traces_; ++trace)
    if (busy[trace] && !known[trace]) check.strangers.push_back(trace);
}

LawCheck LawCollector::judge(Contents contents) const {
  LawCheck check;
  pair_traces(check);
  const Chunks chunks(*this);
  std::set<unsigned> shadowed;
  for (const auto& [name, ends] : named_) {
    const End* client = nullptr;
    const End* server = nullptr;
    unsigned clients = 0, servers = 0;
    const bool recorded = std::any_of(ends.begin(), ends.end(), [this](std::size_t at) {
      return ends_[at].client && !captures_.contains(ends_[at].trace);
    });
    for (const std::size_t at : ends) {
      const End& end = ends_[at];
      if (recorded && captures_.contains(end.trace)) {
        shadowed.insert(end.trace);
        continue;
      }
      (end.client ? client : server) = &end;
      ++(end.client ? clients : servers);
    }
    // Two servers, or one server before and after a restart, may have received the same connect request. Then
    // it is unknown which of them is the peer.
    if (clients != 1 || servers != 1 || client->gapped || server->gapped) continue;
    ++check.pairs;
    Direction(*this, *client, *server, name.session, chunks).judge(check, contents);
    Direction(*this, *server, *client, name.session, chunks).judge(check, contents);
  }
  check.shadowed.assign(shadowed.begin(), shadowed.end());
  check.error = store_->error();
  return check;
}

}  // namespace rtrs::trace
