// Set-up, sending and teardown of a connection.
#include "core/tcp/tcp_connection.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/assert.hpp"
#include "core/tcp/tcp_status.hpp"

namespace rtrs::tcp {
namespace {

// Maximum number of bytes encoded per round; further requests wait until the transport has accepted these.
constexpr std::size_t kRoundBytes = std::size_t{1} << 20;
// Initial number of slots for work requests in flight. Most connections never exceed this number.
constexpr std::uint32_t kFirstSlots = 8;

std::size_t ring_size(std::uint32_t depth) {
  std::size_t size = 1;
  while (size < std::min(depth, kFirstSlots)) size *= 2;
  return size;
}

bool is_send(WorkRequest::Op op) {
  return op == WorkRequest::Op::send || op == WorkRequest::Op::send_imm;
}

}  // namespace

std::uint64_t Connection::cost(const ConnectionParams& params, bool crc,
                               const Transport::Guard& guard) noexcept {
  constexpr std::uint64_t kLeftovers = std::uint64_t{160} << 10U;
  return sizeof(Connection) + ring_size(params.send_depth) * sizeof(Slot) + params.receive_depth * 4ULL +
         Outbox::kArenaBytes + Outbox::kPieces * sizeof(iwarp::Bytes) + kLeftovers +
         (crc ? iwarp::kMaxFpduBytes : 0) + guard.memory;
}

Connection::Connection(const FabricParts& around, ConKey key, const ConnectionParams& params, bool is_client)
    : Watched(Kind::connection),
      fabric_parts_(around),
      key_(key),
      send_depth_(params.send_depth),
      is_client_(is_client),
      slots_(ring_size(params.send_depth)),
      reply_(is_client ? std::make_unique<iwarp::GreetingReader>(iwarp::GreetingKind::reply) : nullptr),
      stream_(iwarp::Stream::Options{}) {}

Connection::~Connection() {
  drop_work();
}

void Connection::set_addresses(const std::string& client, const std::string& server) {
  destination_ = server;
  description_ = client + " > " + destination_;
}

void Connection::put_first(iwarp::Bytes bytes) {
  if (box_ == nullptr) box_ = fabric_parts_.outboxes.take();
  std::memcpy(box_->out().add(bytes.size()), bytes.data(), bytes.size());
  queued_ += bytes.size();
  first_bytes_ += bytes.size();
}

bool Connection::begin(const iwarp::Wishes& agreed) {
  iwarp::Stream::Options options;
  options.role = is_client_ ? iwarp::Role::initiator : iwarp::Role::responder;
  options.crc = agreed.crc;
  options.send_with_immediate = agreed.send_with_immediate;
  options.max_message = kMaxMessage;
  if (agreed.crc) {
    staging_.reset(new (std::nothrow) std::byte[iwarp::kMaxFpduBytes]);
    if (staging_ == nullptr) return false;
    options.staging = iwarp::MutableBytes(staging_.get(), iwarp::kMaxFpduBytes);
  }
  stream_ = iwarp::Stream(options);
  writer_ = iwarp::Writer(agreed.crc);
  send_with_immediate_ = agreed.send_with_immediate;
  sealed_ = fabric_parts_.poller.transport().guard(socket.get()).sealed;
  stage_ = Stage::up;
  if (!is_client_) return true;
  reply_.reset();
  greeting_by_ = kNever;
  if (box_ == nullptr) box_ = fabric_parts_.outboxes.take();
  const std::size_t before = box_->out().total_bytes();
  const bool written = writer_.empty_write(box_->out());
  queued_ += box_->out().total_bytes() - before;
  return written;
}

bool Connection::make_room() noexcept {
  try {
    std::vector<Slot> larger(slots_.size() * 2);
    for (std::uint64_t i = done_; i != posted_; ++i) larger[i & (larger.size() - 1)] = std::move(slot(i));
    slots_ = std::move(larger);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool Connection::post(const WorkRequest& work) noexcept {
  if (posted_ - done_ == send_depth_) return false;
  Slot& one = slot(posted_);
  one.work = work;
  if (is_send(work.op)) {
    // Allocates only if the slot has never held this many bytes.
    one.bytes.assign(work.inline_bytes.begin(), work.inline_bytes.end());
    one.work.inline_bytes = one.bytes;
  }
  ++posted_;
  return true;
}

iwarp::Room Connection::room_for(const WorkRequest& work) noexcept {
  if (is_send(work.op)) return iwarp::room_for_send(work.inline_bytes.size());
  if (work.op == WorkRequest::Op::send_inv) return iwarp::room_for_send(0);
  std::size_t total = 0;
  for (unsigned i = 0; i < work.part_count; ++i) total += work.parts[i].length;
  return iwarp::room_for_write(total);
}

bool Connection::encode(const WorkRequest& work) noexcept {
  iwarp::Outgoing& out = box_->out();
  std::array<iwarp::Bytes, 2> parts{};
  if (work.op == WorkRequest::Op::write || work.op == WorkRequest::Op::write_imm) {
    for (unsigned i = 0; i < work.part_count; ++i) parts[i] = fabric_parts_.memory.part(work.parts[i]);
  }
  const std::span<const iwarp::Bytes> payload = std::span(parts).first(work.part_count);
  switch (work.op) {
    case WorkRequest::Op::write:
      return writer_.write(work.rkey, work.remote_addr, payload, out);
    case WorkRequest::Op::write_imm:
      return writer_.write_immediate(work.rkey, work.remote_addr, payload, work.imm, out);
    case WorkRequest::Op::send:
      return writer_.send(work.inline_bytes, out);
    case WorkRequest::Op::send_imm:
      return send_with_immediate_ && writer_.send_immediate(work.inline_bytes, work.imm, out);
    case WorkRequest::Op::send_inv:
      return writer_.send_invalidate(work.rkey, out);
  }
  return false;
}

// Encodes posted requests as far as there is room. Returns false if a request can never be sent.
bool Connection::encode_all() noexcept {
  if (stage_ != Stage::up || !stream_.may_send()) return true;
  while (encoded_ != posted_) {
    Slot& one = slot(encoded_);
    const iwarp::Room room = room_for(one.work);
    if (box_ == nullptr) {
      try {
        box_ = fabric_parts_.outboxes.take(std::max(room.arena_bytes, Outbox::kArenaBytes));
      } catch (const std::bad_alloc&) {
        end_reason_ = Reason::no_resources;
        return false;
      }
    }
    iwarp::Outgoing& out = box_->out();
    const std::size_t before = out.total_bytes();
    if (before >= kRoundBytes) return true;
    if (!out.has_room(room.arena_bytes, room.pieces)) {
      if (before != 0) return true;
      if (room.pieces > Outbox::kPieces || room.arena_bytes <= box_->arena_bytes()) break;
      fabric_parts_.outboxes.give_back(std::exchange(box_, nullptr));
      continue;
    }
    if (!encode(one.work)) break;
    queued_ += out.total_bytes() - before;
    one.end = queued_;
    ++encoded_;
  }
  if (encoded_ == posted_) return true;
  end_reason_ = Reason::post_failed;
  return false;
}

void Connection::set_blocked(bool blocked) noexcept {
  if (blocked && fabric_parts_.options.undelivered_timeout_ms != 0 && (!blocked_ || sent_ >= blocked_mark_)) {
    blocked_mark_ = queued_;
    output_by_ = fabric_parts_.poller.now() + milliseconds(fabric_parts_.options.undelivered_timeout_ms);
    fabric_parts_.poller.wake_at(output_by_);
  }
  if (!blocked) output_by_ = kNever;
  blocked_ = blocked;
  update_interest();
}

void Connection::update_interest() noexcept {
  const std::uint32_t wanted = (stage_ == Stage::connecting || blocked_ ? std::uint32_t{kWritable} : 0U) |
                               (stream_.stalled() ? 0U : std::uint32_t{kReadable});
  if (watched) fabric_parts_.poller.watch(*this, wanted);
}

bool Connection::flush() noexcept {
  if (stage_ == Stage::connecting || stage_ == Stage::securing || stage_ == Stage::lost) return true;
  for (;;) {
    if ((box_ == nullptr || box_->empty()) && !encode_all()) return false;
    if (box_ == nullptr) return true;
    int error = 0;
    const Outbox::Sent result = box_->send(fabric_parts_.poller.transport(), socket.get(), sent_,
                                           fabric_parts_.stats.send_calls, error);
    if (result == Outbox::Sent::failed) {
      end_by(error);
      return false;
    }
    if (result == Outbox::Sent::blocked) {
      set_blocked(true);
      return true;
    }
    box_->clear();
    if (blocked_) set_blocked(false);
    if (encoded_ == posted_ || stage_ != Stage::up || !stream_.may_send()) {
      fabric_parts_.outboxes.give_back(std::exchange(box_, nullptr));
      return true;
    }
  }
}

std::size_t Connection::retire(std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  for (; done_ != encoded_ && slot(done_).end <= sent_; ++done_) {
    const WorkRequest& work = slot(done_).work;
    if (!work.signalled) continue;
    if (count == out.size()) break;
    out[count++] = event::SendDone{key_, work.cookie};
  }
  return count;
}

void Connection::drop_work() noexcept {
  if (box_ != nullptr) fabric_parts_.outboxes.give_back(std::exchange(box_, nullptr));
  fabric_parts_.stats.discarded_work += posted_ - encoded_;
  for (std::uint64_t i = done_; i != encoded_; ++i) fabric_parts_.stats.discarded_work += slot(i).end > sent_;
  posted_ = encoded_ = done_;
}

bool Connection::send_terminate() noexcept {
  if (!stream_.may_send()) return false;
  try {
    if (box_ == nullptr) box_ = fabric_parts_.outboxes.take();
  } catch (const std::bad_alloc&) {
    return false;
  }
  int error = 0;
  const auto everything_left = [&] {
    return box_->send(fabric_parts_.poller.transport(), socket.get(), sent_, fabric_parts_.stats.send_calls,
                      error) == Outbox::Sent::all;
  };
  if (!everything_left()) return false;
  box_->clear();
  return writer_.terminate(stream_.fault(), box_->out()) && everything_left();
}

void Connection::end(Reason reason, std::string text) {
  end_reason_ = reason;
  end_text_ = std::move(text);
}

void Connection::end_by(int error) {
  end_reason_ = loss_reason(error);
  if (error == kRefused) {
    end_text_ = fabric_parts_.poller.transport().refusal(socket.get());
  } else if (error != 0) {
    end_text_ = error_text(error);
  }
}

void Connection::expect_greeting(Nanos by) noexcept {
  greeting_by_ = by;
  fabric_parts_.poller.wake_at(by);
}

Nanos Connection::next_deadline() const noexcept {
  return std::min({greeting_by_, output_by_, receive_by_, rest_by_});
}

bool Connection::overdue(Nanos now) {
  if (next_deadline() > now) return false;
  if (output_by_ <= now) {
    if (sent_ < blocked_mark_) {
      ++fabric_parts_.stats.slow_readers;
      end(Reason::transport_error, "the peer receives too slowly");
      return true;
    }
    set_blocked(blocked_);
  }
  if (greeting_by_ <= now) {
    if (is_client_)
      end(Reason::connect_timeout, "no complete reply in time");
    else
      end(Reason::handshake_timeout, "no first message in time");
    return true;
  }
  if (is_cut_off(now)) {
    end(Reason::transport_error, "the peer stopped in the middle of a message");
    return true;
  }
  if (receive_by_ > now) return false;
  stream_.fail(iwarp::Fault::no_receive);
  end(Reason::protocol_violation, "a message waited too long for a posted receive");
  return true;
}

}  // namespace rtrs::tcp
