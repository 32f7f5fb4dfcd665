// Set-up of streams, delivery of their bytes, and their end.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/assert.hpp"
#include "core/iwarp/greeting.hpp"
#include "sim/net/streams/pipe_network.hpp"

namespace rtrs::sim {
namespace {

constexpr std::array<std::size_t, 5> kBuffers{std::size_t{256} << 10, std::size_t{64} << 10, 4096, 1448, 600};

std::uint64_t digest_of(std::span<const std::byte> bytes) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::byte one : bytes) hash = (hash ^ static_cast<std::uint64_t>(one)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

QpId PipeNetwork::make_end(NodeId node, LinkId link, Way way, ChoiceSource& choice) {
  changes();
  const auto id = static_cast<QpId>(ends_.size());
  End& end = ends_.emplace_back();
  nodes_[node].ends.push_back(id);
  end.node = node;
  end.link = link;
  end.way = way;
  end.capacity = kBuffers[choice.draw(kBuffers.size(), Label::pipe_size)];
  end.window = kBuffers[choice.draw(kBuffers.size(), Label::pipe_size)];
  return id;
}

// --- set-up ---

void PipeNetwork::begin(QpId id, ChoiceSource& choice) {
  Nanos time = now_ + latency_of(ends_[id], choice);
  if (choice.fires(rates_.request_late, Label::cm_late)) {
    ++stats_.cm_late;
    time += draw_exponential(choice, config_.cm_late_hold / 10, config_.cm_late_hold, Label::cm_late);
  }
  schedule(time, Event::Kind::syn, id);
}

void PipeNetwork::on_syn(QpId id, ChoiceSource& choice) {
  if (ends_[id].state != End::State::connecting || ends_[id].closed) return;
  const LinkInfo link = links_[ends_[id].link].info;
  Node& server = nodes_[link.server];
  const bool lost = is_cut(ends_[id].link, Way::to_server) || (!server.up && server.silent) ||
                    choice.fires(rates_.request_lost, Label::cm_lost);
  if (lost) {
    ++stats_.cm_lost;
    if (++ends_[id].attempts > config_.cm_retries) return fail(id, ETIMEDOUT);
    return schedule(now_ + config_.cm_timeout, Event::Kind::syn, id);
  }
  const auto listener =
      std::find_if(server.listeners.begin(), server.listeners.end(), [&](const Listener& one) {
        return one.service == ends_[id].service && (one.port == kNone || one.port == link.server_port);
      });
  if (!server.up || listener == server.listeners.end()) return send_reset(id, choice);
  const QpId made = make_end(link.server, ends_[id].link, Way::to_client, choice);
  ends_[made].peer = id;
  ends_[made].state = End::State::open;
  ends_[id].peer = made;
  listener->waiting.push_back(made);
  happened(16, id, made);
  schedule(now_ + latency_of(ends_[made], choice), Event::Kind::established, id);
}

void PipeNetwork::on_established(QpId id, ChoiceSource& choice) {
  End& end = ends_[id];
  if (end.state != End::State::connecting || end.closed) return;
  if (is_cut(end.link, Way::to_client) || choice.fires(rates_.reply_lost, Label::cm_lost)) {
    ++stats_.cm_lost;
    if (++end.attempts > config_.cm_retries) return fail(id, ETIMEDOUT);
    return schedule(now_ + config_.cm_timeout, Event::Kind::established, id);
  }
  end.state = End::State::open;
  happened(17, id, end.peer);
}

// --- delivery ---

std::size_t PipeNetwork::some_of(std::size_t count, ChoiceSource& choice) {
  switch (choice.draw(8, Label::pipe_cut)) {
    case 5:
      return 1 + choice.draw(static_cast<std::uint32_t>(count), Label::pipe_cut);
    case 6:
      return 1;
    case 7:
      return std::max<std::size_t>(count - 1, 1);
    default:
      return count;
  }
}

void PipeNetwork::schedule_delivery(QpId id, Nanos not_before, ChoiceSource& choice) {
  End& end = ends_[id];
  if (end.state != End::State::open || end.peer == kNone || std::exchange(end.deliver_scheduled, true))
    return;
  schedule(std::max(not_before, now_ + latency_of(end, choice)), Event::Kind::deliver, id);
}

void PipeNetwork::on_budget(QpId id, ChoiceSource& choice) {
  End& end = ends_[id];
  end.budget_scheduled = false;
  if (end.state != End::State::open || end.stuck_since == kNever || end.hung) return;
  if (now_ < end.stuck_since + end.budget) {
    end.budget_scheduled = true;
    return schedule(end.stuck_since + end.budget, Event::Kind::budget, id);
  }
  // Retransmits one last time, and fails the stream if nothing arrives.
  go_on(id, choice);
  if (ends_[id].stuck_since == kNever) return;
  ++stats_.retry_exceeded;
  fail(id, ETIMEDOUT);
}

void PipeNetwork::go_on(QpId id, ChoiceSource& choice) {
  changes();
  End& end = ends_[id];
  if (end.state != End::State::open) return;
  if (!receives_nothing(end)) end.unacknowledged = 0;
  if (!is_stopped(end) && end.unacknowledged == 0) end.stuck_since = kNever;
  schedule_delivery(id, now_, choice);
}

void PipeNetwork::on_deliver(QpId id, ChoiceSource& choice) {
  End& end = ends_[id];
  end.deliver_scheduled = false;
  if (end.state != End::State::open || (end.out.empty() && !end.shut)) return;
  if (is_stopped(end)) return stuck(id, choice);
  const Nanos starved = links_[end.link].starved[static_cast<unsigned>(end.way)];
  if (now_ < starved && end.keyed && end.key.con == 0) return schedule_delivery(id, starved, choice);
  const End& peer = ends_[end.peer];
  const Node& there = nodes_[peer.node];
  if (!there.up && there.silent) return stuck(id, choice);
  if (peer.closed || peer.state == End::State::dead) {
    if (!end.out.empty()) send_reset(id, choice);
    if (end.closed && end.out.empty()) end_cleanly(end);
    return;
  }
  if (now_ < end.delivered + end.trickle) return schedule_delivery(id, end.delivered + end.trickle, choice);
  const std::size_t room = peer.window - std::min(peer.window, peer.in.size());
  const std::size_t count = std::min(end.out.size(), room);
  if (count != 0) deliver(id, end.trickle != 0 ? 1 : some_of(count, choice), choice);
  if (!ends_[id].out.empty()) {
    // A closed window opens when the peer reads.
    if (room > 0) schedule_delivery(id, now_ + ends_[id].trickle, choice);
    return;
  }
  if (!end.shut) return;
  ends_[end.peer].finished = true;
  happened(18, id, end.peer);
  if (end.closed) end_cleanly(end);
}

void PipeNetwork::end_cleanly(End& end) noexcept {
  end.state = End::State::dead;
  end.stuck_since = kNever;
}

void PipeNetwork::deliver(QpId id, std::size_t count, ChoiceSource& choice) {
  End& end = ends_[id];
  const std::span<std::byte> bytes = end.out.all().first(count);
  if (choice.fires(rates_.qp_error, Label::pipe_break)) {
    if (!tcp_.crc || end.offset < iwarp::kMaxGreetingBytes || choice.draw(2, Label::pipe_break) == 0)
      return break_qp(id, choice);
    corrupt(end, bytes, choice);
  }
  ++stats_.messages;
  stats_.bytes += count;
  happened(19, id, digest_of(bytes), count);
  ends_[end.peer].in.push(bytes);
  end.offset += count;
  end.walk.pass(bytes);
  end.delivered = end.pending_since = now_;
  end.out.drop(count);
  if (receives_nothing(end)) {
    end.unacknowledged += count;
    stuck(id, choice);
  } else {
    end.unacknowledged = 0;
    end.stuck_since = kNever;
  }
}

// Inverts one bit.
void PipeNetwork::corrupt(End& end, std::span<std::byte> bytes, ChoiceSource& choice) {
  const std::uint32_t at = choice.draw(static_cast<std::uint32_t>(bytes.size()), Label::pipe_break);
  bytes[at] ^= static_cast<std::byte>(1U << choice.draw(8, Label::pipe_break));
  end.corrupted = true;
  ++stats_.corrupted;
}

// --- ending ---

void PipeNetwork::send_reset(QpId to, ChoiceSource& choice) {
  const End& end = ends_[to];
  if (end.state == End::State::dead) return;
  if (receives_nothing(end)) {
    // This reset is lost. A connecting end repeats its request, and the repeated request is answered with a
    // reset as well.
    if (end.state == End::State::connecting) schedule(now_ + config_.cm_timeout, Event::Kind::syn, to);
    return;
  }
  schedule(now_ + latency_of(end, choice), Event::Kind::reset, to);
}

void PipeNetwork::on_reset(QpId id) {
  const End::State state = ends_[id].state;
  if (state == End::State::dead) return;
  fail(id, state == End::State::connecting ? ECONNREFUSED : ECONNRESET);
}

void PipeNetwork::fail(QpId id, int error) {
  changes();
  End& end = ends_[id];
  if (end.state == End::State::dead) return;
  happened(20, id, static_cast<std::uint64_t>(error));
  end.state = End::State::dead;
  end.error = error;
  end.out.clear();
  end.unacknowledged = 0;
  end.stuck_since = kNever;
  laws_.over(id);
}

void PipeNetwork::close_end(QpId id, ChoiceSource& choice) {
  changes();
  End& end = ends_[id];
  if (std::exchange(end.closed, true)) return;
  happened(21, id, end.in.size());
  laws_.over(id);
  end.watched = nullptr;
  if (end.state == End::State::connecting) return fail(id, ECONNABORTED);
  if (end.state == End::State::dead) return;
  if (!end.in.empty()) {
    // If received bytes were not read, the close is a reset and unsent bytes are lost.
    send_reset(end.peer, choice);
    return fail(id, ECONNABORTED);
  }
  end.shut = true;
  Nanos time = now_;
  if (choice.fires(rates_.disconnect_late, Label::cm_late)) {
    ++stats_.cm_late;
    time += draw_exponential(choice, config_.cm_late_hold / 10, config_.cm_late_hold, Label::cm_late);
  }
  schedule_delivery(id, time, choice);
}

// --- readiness ---

std::uint32_t PipeNetwork::readiness(const End& end) const noexcept {
  std::uint32_t events = 0;
  const bool dead = end.state == End::State::dead;
  if (!end.in.empty() || end.finished || dead) events |= tcp::kReadable;
  if (dead || (end.state == End::State::open && end.out.size() + end.unacknowledged < end.capacity))
    events |= tcp::kWritable;
  if (dead || (end.finished && end.shut)) events |= tcp::kBroken;
  return events;
}

bool PipeNetwork::has_ready_socket(const Node& node) const noexcept {
  if (std::exchange(node.ready_socket_at, changes_) == changes_) return node.ready_socket;
  node.ready_socket = std::any_of(node.watched.begin(), node.watched.end(), [this](QpId id) {
    return (readiness(ends_[id]) & (ends_[id].interest | tcp::kBroken)) != 0;
  });
  return node.ready_socket;
}

bool PipeNetwork::is_readable(const Node& node) const noexcept {
  if (node.signalled || node.timer <= now_) return true;
  for (const Listener& one : node.listeners) {
    if (one.watched != nullptr && !one.waiting.empty() && (one.interest & tcp::kReadable) != 0) return true;
  }
  return has_ready_socket(node);
}

}  // namespace rtrs::sim
