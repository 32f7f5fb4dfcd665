#include "sim/world/server_host.hpp"

#include <algorithm>
#include <cstring>

#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

bool ServerHost::poll() {
  const bool had_events = network_.has_events(server_.id);
  const Nanos deadline = server_.driver->next_deadline();
  const std::size_t count = server_.driver->poll(*server_.fabric, now(server_));
  for (const ConKey& key : server_.fabric->fresh()) watch_.check_attempt(server_, key.place(), true);
  server_.fabric->clear_fresh();
  take_news();
  server_.fabric->connections().poll_ends(now(server_));
  server_.driver->hand_out(*server_.fabric, now(server_), *this);
  watch_.server_marks();
  watch_.check_invariants(server_, server_.driver->broken());
  return had_events || count > 0 || server_.driver->next_deadline() != deadline;
}

void ServerHost::take_news() {
  PathEvent news;
  bool any = false;
  while (server_.driver->take_news(news)) {
    if (news.kind != PathEvent::Kind::path) continue;
    server_.fabric->connections().news(std::size_t{news.session} * kMaxPaths + news.path.path,
                                       news.path.state, news.path.reason, 0, news.at);
    news.at = server_.clock.true_time(news.at);
    path_event(news);
    any = true;
  }
  if (any) watch_.note_pairs();
}

void ServerHost::path_event(const PathEvent& news) {
  const PathChanged& path = news.path;
  note(Journal::Kind::path, 0, std::uint64_t{news.session} << 32 | path.path,
       static_cast<std::uint64_t>(path.state), static_cast<std::uint64_t>(path.reason));
  const std::size_t number = std::size_t{news.session} * kMaxPaths + path.path;
  server_.path_state[number] = path.state;
  if (path.state == PathState::connected) {
    ++server_.came_up[news.session];
    server_.hearts->connected(number, news.at);
    watch_.check_attempt(server_, number, true);
  } else if (path.state == PathState::closing) {
    server_.hearts->lost(number, path.reason, network_.holds_message(server_.id, number), news.at);
    watch_.server_reason(number, path.reason, news.at);
  }
}

void ServerHost::session_opened(std::uint16_t session, std::string_view name) {
  const std::uint32_t client = cluster_.client_named(name);
  note(Journal::Kind::session, 0, session, 1);
  for (std::size_t other = 0; other < server_.session_of.size(); ++other)
    if (server_.session_up[other] && server_.session_of[other] == client)
      judge_.fail(Oracle::legality, now(), "two sessions with one name at the same time");
  server_.session_of[session] = client;
  server_.session_up[session] = true;
}

void ServerHost::session_closed(std::uint16_t session) {
  note(Journal::Kind::session, 0, session, 0);
  books_.book.close_windows(server_.session_of[session]);
  if (cluster_.history) cluster_.history->session_ended(server_.session_of[session] + 1);
  for (const auto& client : clients_)
    if (disks_ != nullptr && client->id == server_.session_of[session] + 1)
      client->disks->session_closed(now());
  server_.session_up[session] = false;
  server_.came_up[session] = 0;
  for (const auto& client : clients_)
    if (!cluster_.closing && client->up && !client->leaving && client->id == server_.session_of[session] + 1)
      judge_.mark(Mark::session_ended);
  server_.session_of[session] = kNone;
}

void ServerHost::raw_request(const ServerEvent& event) {
  std::uint32_t words[2] = {};
  std::uint64_t numbers[2] = {};
  const bool lies = cluster_.has_misbehaving_end(server_.session_of[event.id.session]);
  StorageModel::Op op;
  op.id = event.id;
  op.direction = event.direction;
  op.data = event.data;
  if (event.user_header.size() != 24) {
    if (scenario_.fenced && !lies)
      judge_.fail(Oracle::data_integrity, now(), "a user header of another length");
    return refuse(op, 22);
  }
  std::memcpy(words, event.user_header.data(), 8);
  std::memcpy(numbers, event.user_header.data() + 8, 16);
  const bool known = books_.book.knows(numbers[1]);
  const bool fits = known && words[0] == (event.direction == Direction::write ? 1U : 0U) &&
                    words[1] == books_.book[numbers[1]].sectors &&
                    numbers[0] == books_.book[numbers[1]].lba && event.data.size() == words[1] * kSectorBytes;
  if (!fits) {
    if (scenario_.fenced && !lies)
      judge_.fail(Oracle::data_integrity, now(), "a user header that no client sent with this data");
    return refuse(op, 22);
  }
  op.io = static_cast<std::uint32_t>(numbers[1]);
  op.lba = numbers[0];
  // If the data of a write does not match its header, a peer or fabric that violates the protocol has changed
  // the data. The server rejects such a write, so that no client reads the data. In a random world, such a
  // peer may also repeat a write at any time, so that the server rejects all its writes.
  if (lies && scenario_.liar != 0 && event.direction == Direction::write &&
      (!scenario_.directed || !is_written_by(event.data, op.lba, op.io)))
    return refuse(op, 5);
  note(Journal::Kind::delivered, 0, op.io, event.id.chunk, event.session);
  begin_storage(op);
}

void ServerHost::block_request(const block::StartStorage& action) {
  StorageModel::Op op;
  op.operation = action.id;
  op.direction = action.opcode == wire::rnbd::Opcode::write ? Direction::write : Direction::read;
  op.data = action.data;
  op.lba = action.sector * kSectorsPerBlock;
  op.io = request_of(action);
  op.unidentified = action.prio == 0;
  const bool kind = action.opcode == wire::rnbd::Opcode::write || action.opcode == wire::rnbd::Opcode::read;
  if (op.io == 0 || !kind || action.data.size() != action.bytes) {
    if (scenario_.fenced)
      judge_.fail(Oracle::data_integrity, now(),
                  "a block request that no client sent: opcode " +
                      std::to_string(static_cast<unsigned>(action.opcode)) + ", " +
                      std::to_string(action.bytes) + " bytes at sector " + std::to_string(op.lba) +
                      ", priority " + std::to_string(action.prio));
    return refuse(op, 22);
  }
  note(Journal::Kind::delivered, 0, op.io, op.lba, action.session);
  begin_storage(op);
}

// True if this message can be the request `io` or a part of that request.
bool ServerHost::belongs_to(const block::StartStorage& action, std::uint32_t io) const {
  if (!books_.book.knows(io) || books_.book[io].client != server_.session_of[action.session]) return false;
  const BookedIo& booked = books_.book[io];
  const bool writes = action.opcode == wire::rnbd::Opcode::write;
  const std::uint64_t first = action.sector * kSectorsPerBlock, count = action.bytes / kSectorBytes;
  const bool inside = first >= booked.lba && first + count <= booked.lba + booked.sectors;
  return inside && count != 0 && writes == (booked.direction == Direction::write);
}

// Number of the request that the message belongs to; 0 if it belongs to none. `prio` names the request, but
// the server drops `prio` until it knows the client's RNBD version, and SESS_INFO may take longer than
// OPEN. In this case the data of a write identifies the request; a READ is matched with any fitting request
// in flight.
std::uint32_t ServerHost::request_of(const block::StartStorage& action) const {
  // `prio` holds the low 16 bits of the request number.
  const auto newest = static_cast<std::uint32_t>(books_.book.count());
  const std::uint32_t named = newest - ((newest - action.prio) & 0xffffU);
  if (belongs_to(action, named)) return named;
  if (action.prio != 0 || server_.driver->knows_version(action.session)) return 0;
  if (action.opcode == wire::rnbd::Opcode::write) {
    const auto writer =
        writer_of(action.data.first(kSectorBytes), action.sector * kSectorsPerBlock, cluster_.options.seed);
    return writer && belongs_to(action, *writer) ? *writer : 0;
  }
  const auto found = std::find_if(books_.open_ios.begin(), books_.open_ios.end(),
                                  [&](std::uint32_t io) { return belongs_to(action, io); });
  return found == books_.open_ios.end() ? 0 : *found;
}

void ServerHost::begin_storage(const StorageModel::Op& op) {
  ++books_.deliveries;
  BookedIo& booked = books_.book[op.io];
  // A request may consist of several messages; only the first one counts as a delivery.
  if (op.lba == booked.lba && ++booked.deliveries == 3) judge_.mark(Mark::failover_twice);
  if (op.direction == Direction::write && scenario_.fenced)
    books_.integrity.to_storage(op.data, op.lba, op.io, now());
  books_.slots.begin(op.data, op.io, now());
  cluster_.storage.start(op, now(), choice_);
}

// True if every sector carries this request's number.
bool ServerHost::is_written_by(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io) const {
  for (std::size_t at = 0; at < data.size(); at += kSectorBytes)
    if (writer_of(data.subspan(at, kSectorBytes), lba + at / kSectorBytes, cluster_.options.seed) != io)
      return false;
  return true;
}

void ServerHost::storage_due() {
  StorageModel::Due due;
  while (cluster_.storage.take(now(), due)) {
    if (due.instant == StorageModel::Instant::effect) {
      effect(due.op);
      continue;
    }
    books_.once.served(due.op.io, due.op.error);
    if (due.op.unidentified) served_unidentified(due.op);
    if (due.op.io < last_answered_) judge_.mark(Mark::answers_overtake);
    last_answered_ = std::max(last_answered_, due.op.io);
    if (due.op.error > 511) judge_.mark(Mark::errno_too_large);
    note(Journal::Kind::answered, 0, due.op.io, due.op.error);
    server_.answers.push_back(due.op);
  }
  if (!server_.up || server_.paused_until > now()) return;
  for (const StorageModel::Op& answer : server_.answers) {
    if (scenario_.fenced) books_.slots.check(answer.data, answer.io, now());
    books_.slots.end(answer.data);
    server_.driver->respond(*server_.fabric, now(server_), answer, answer.error);
  }
  if (server_.answers.empty()) return;
  server_.answers.clear();
  watch_.check_invariants(server_, server_.driver->broken());
}

void ServerHost::effect(const StorageModel::Op& op) {
  if (scenario_.fenced) books_.slots.check(op.data, op.io, now());
  note(Journal::Kind::applied, 0, op.io);
  cluster_.storage.perform(op);
  if (op.direction == Direction::read) return books_.slots.filled(op.data);
  BookedIo& booked = books_.book[op.io];
  booked.last_effect = books_.book.tick();
  if (books_.chunks_given_up && !is_written_by(op.data, op.lba, op.io)) spoil(op);
  if (scenario_.fenced) {
    books_.integrity.to_storage(op.data, op.lba, op.io, now());
    if (booked.window_end < booked.last_effect)
      judge_.fail(Oracle::history, now(),
                  "write " + std::to_string(op.io) + " took effect after it had ended");
  }
  cluster_.hash = fold(cluster_.hash, op.io ^ now());
}

// Called for a write whose chunk already belongs to a later request. The write stores unknown data, so the
// sectors of the write are no longer checked.
void ServerHost::spoil(const StorageModel::Op& op) {
  for (std::size_t at = 0; at < op.data.size() / kSectorBytes; ++at) books_.spoiled[op.lba + at] = true;
}

// Without `prio`, a message may belong to any matching request, so each matching request counts as answered.
void ServerHost::served_unidentified(const StorageModel::Op& op) {
  for (const std::uint32_t io : books_.open_ios) {
    const BookedIo& booked = books_.book[io];
    const bool inside =
        op.lba >= booked.lba && op.lba + op.data.size() / kSectorBytes <= booked.lba + booked.sectors;
    if (inside && booked.direction == op.direction && booked.client == books_.book[op.io].client)
      books_.once.served(io, op.error);
  }
}

void ServerHost::refuse(const StorageModel::Op& op, std::uint16_t error) {
  server_.driver->respond(*server_.fabric, now(server_), op, error);
}

Nanos ServerHost::disks_time() const noexcept {
  if (disks_ == nullptr || !server_.up) return kNever;
  const Nanos next = disks_->next_time();
  return next == kNever ? kNever : std::max({now(), server_.paused_until, next});
}

void ServerHost::disks_due() {
  server_.driver->storage_due(*server_.fabric, now(server_));
}

}  // namespace rtrs::sim
