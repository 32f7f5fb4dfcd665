// Reports events and sleeps.
//
// Recently active connections are read directly. Periodically, and when the active connections have no data,
// the fabric asks the transport for other ready sockets. Idle connections cost nothing.
#include <algorithm>
#include <new>
#include <utility>

#include "core/tcp/tcp_fabric.hpp"

namespace rtrs::tcp {
namespace {

// Maximum number of events that one connection may report per turn.
constexpr std::size_t kFairShare = 32;
// While active connections are read directly, the fabric asks the transport for ready sockets once in this
// number of rounds.
constexpr unsigned kRoundsPerCheck = 16;
// If the caller polls without sleeping, the fabric asks the transport for ready sockets once in this number
// of rounds without data.
constexpr unsigned kIdleRoundsPerCheck = 4;
// After this number of rounds without data, a connection is no longer read directly.
constexpr unsigned kMaxIdlePolls = 16;

}  // namespace

void FabricImpl::mark_ready(Connection& one) noexcept {
  one.idle_polls = 0;
  if (!std::exchange(one.in_ready, true)) ready_.push_back(&one);
  wake();
}

void FabricImpl::mark_dirty(Connection& one) noexcept {
  if (!std::exchange(one.in_dirty, true)) dirty_.push_back(&one);
  wake();
}

void FabricImpl::wake() noexcept {
  if (std::exchange(asleep_, false)) poller_.signal();
}

void FabricImpl::begin_round() noexcept {
  free_at_next_poll_.clear();
  pending_.free_bytes();
  heard_ = false;
  if (std::exchange(heartbeat_received_, false)) {
    try {
      check_deliveries();
    } catch (const std::bad_alloc&) {
      // There is no memory for the log message, so it is dropped.
    }
  }
  for (std::size_t i = delivered_.size(); i-- > 0;) {
    Connection& one = *delivered_[i];
    one.reuse_delivered();
    if (one.has_delivered()) continue;
    one.in_delivered = false;
    delivered_[i] = delivered_.back();
    delivered_.pop_back();
  }
}

void FabricImpl::flush_dirty() noexcept {
  for (Connection* one : dirty_) {
    one->in_dirty = false;
    if (one->failing) continue;
    one->failing = !one->flush();
    one->retire({});
    if (one->failing || one->has_done()) mark_ready(*one);
  }
  dirty_.clear();
}

void FabricImpl::look() noexcept {
  polls_since_check_ = 0;
  idle_rounds_ = 0;
  check_now_ = false;
  ++stats_.wait_calls;
  admission_.begin_round();
  for (const Transport::Ready& ready : poller_.look()) {
    try {
      handle(ready);
    } catch (const std::bad_alloc&) {
      // Readiness is level-triggered: the transport reports the socket again.
    }
  }
  flush_dirty();
}

void FabricImpl::handle(const Transport::Ready& ready) {
  if (ready.one == nullptr) {
    poller_.fired();
    expire();
    return;
  }
  Watched& one = *ready.one;
  // The socket was closed earlier in this round.
  if (!one.watched) return;
  switch (one.kind) {
    case Watched::Kind::listener:
      admission_.accept_clients(static_cast<Listener&>(one));
      return;
    case Watched::Kind::half_open:
      take_request(static_cast<HalfOpen&>(one));
      return;
    case Watched::Kind::last_word:
      admission_.drain(static_cast<LingeringSocket&>(one));
      return;
    case Watched::Kind::connection:
      if ((ready.events & kFound) != 0)
        found(static_cast<Connection&>(one), ready);
      else
        handle_connection(static_cast<Connection&>(one), ready.events);
      return;
  }
}

void FabricImpl::found(Connection& one, const Transport::Ready& ready) {
  one.set_addresses(transport_->ends(one.socket.get()).own, ready.name);
  if (ready.addresses > 1) report(event::AddressesFound{one.key(), ready.addresses});
}

void FabricImpl::handle_connection(Connection& one, std::uint32_t events) {
  switch (one.stage()) {
    case Connection::Stage::connecting:
      finish_connecting(one);
      return;
    case Connection::Stage::securing:
      secure(one);
      return;
    case Connection::Stage::asking:
      if ((events & kWritable) != 0) mark_dirty(one);
      read_reply(one);
      return;
    case Connection::Stage::up:
      if ((events & kWritable) != 0) mark_dirty(one);
      if (one.stalled() && (events & kBroken) != 0) {
        one.end(Reason::peer_closed, "");
        end_broken(one);
        return;
      }
      if ((events & ~std::uint32_t{kWritable}) != 0) mark_ready(one);
      return;
    case Connection::Stage::lost:
      return;
  }
}

void FabricImpl::take_request(HalfOpen& one) {
  if (one.request != 0) return;
  const std::uint32_t number = admission_.read(one);
  if (number == 0) return;
  event::ConnectRequested requested;
  requested.request = number;
  requested.address_pair = one.address_pair;
  requested.host = one.host;
  requested.identity = transport_->peer(one.socket.get()).identity;
  const iwarp::Bytes data = one.reader.greeting().private_data;
  report(requested, std::string(reinterpret_cast<const char*>(data.data()), data.size()));
}

void FabricImpl::expire() {
  const Nanos now = poller_.now();
  Nanos next = admission_.expire(now);
  std::vector<Connection*> overdue;
  for (auto& [key, one] : connections_) {
    if (one->stage() == Connection::Stage::lost) continue;
    if (one->overdue(now)) {
      overdue.push_back(one.get());
    } else {
      next = std::min(next, one->next_deadline());
    }
  }
  for (Connection* one : overdue) {
    if (one->stage() == Connection::Stage::up)
      end_broken(*one);
    else
      fail_connect(*one, one->destination(), one->end_reason(), one->end_text());
  }
  // Merges deadlines within 10 ms.
  if (next != kNever) poller_.wake_at(std::max(next, now + milliseconds(10)));
}

bool FabricImpl::serve_ready(Connection& one, std::span<FabricEvent> out, std::size_t& count) noexcept {
  const std::size_t before = count;
  count += one.retire(out.first(std::min(kFairShare, out.size())));
  const std::size_t room = std::min(kFairShare, out.size() - (count - before));
  if (room == 0 || one.stage() != Connection::Stage::up) return one.stage() == Connection::Stage::up;
  const Connection::Read read = one.read(out.subspan(count - before, room));
  count += read.events;
  const bool any = read.received || count != before;
  heard_ |= any;
  heartbeat_received_ |= read.received && one.key().con == 0;
  if (one.has_delivered() && !std::exchange(one.in_delivered, true)) delivered_.push_back(&one);
  if (read.ended || (one.failing && !any && !read.more)) {
    end_broken(one);
    return false;
  }
  if (one.mid_message() && !std::exchange(one.in_mid, true)) mid_.push_back(&one);
  if (one.has_work() && !one.blocked() && one.may_send()) mark_dirty(one);
  one.idle_polls = any || read.more ? 0 : one.idle_polls + 1;
  if (one.idle_polls < kMaxIdlePolls) return true;
  one.in_ready = false;
  return false;
}

std::size_t FabricImpl::read_ready(std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  std::size_t next = 0;
  for (std::size_t turns = ready_.size(); turns > 0 && count < out.size(); --turns) {
    Connection& one = *ready_[next];
    const bool stays = serve_ready(one, out.subspan(count), count);
    if (stays) {
      ++next;
    } else if (next < ready_.size() && ready_[next] == &one) {
      // forget() has not removed the connection from the list yet.
      one.in_ready = false;
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(next));
    }
  }
  std::rotate(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(next), ready_.end());
  return count;
}

std::size_t FabricImpl::poll(Nanos, std::span<FabricEvent> out) noexcept {
  asleep_ = false;
  begin_round();
  flush_dirty();
  bool looked = false;
  if (check_now_ || ready_.empty() || ++polls_since_check_ >= kRoundsPerCheck) {
    look();
    looked = true;
  }
  std::size_t count = pending_.take(out);
  // Pending events of a connection are reported before the data in its socket, because they are older.
  if (!pending_.empty()) return count;
  count += read_ready(out.subspan(count));
  // Usually the events include the event that woke the sleeper; otherwise the fabric wakes the sleeper again.
  if (heard_) idle_rounds_ = 0;
  if (looked || heard_ || count != 0 || ++idle_rounds_ < kIdleRoundsPerCheck) return count;
  look();
  count = pending_.take(out);
  if (!pending_.empty()) return count;
  return count + read_ready(out.subspan(count));
}

bool FabricImpl::try_wait() noexcept {
  flush_dirty();
  if (!pending_.empty()) return false;
  for (const Connection* one : ready_) {
    if (one->has_more() || one->failing) return false;
  }
  // The next round without data asks the transport for ready sockets at once.
  idle_rounds_ = kIdleRoundsPerCheck;
  asleep_ = true;
  return true;
}

}  // namespace rtrs::tcp
