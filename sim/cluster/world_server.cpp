// The server of a world and the storage behind it.
#include <algorithm>
#include <cstring>

#include "sim/cluster/world.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

bool World::poll_server() {
  const bool had_events = network_.has_events(server_.id);
  const Nanos deadline = server_.driver->next_deadline();
  const std::size_t count = server_.driver->poll(*server_.fabric, now(server_));
  for (const ConKey& key : server_.fabric->fresh()) check_attempt(server_, key.place(), true);
  server_.fabric->clear_fresh();
  server_news();
  server_.fabric->connections().poll_ends(now(server_));
  server_.driver->hand_out(*server_.fabric, now(server_), *this);
  server_marks();
  check_invariants(server_, server_.driver->broken());
  return had_events || count > 0 || server_.driver->next_deadline() != deadline;
}

void World::server_news() {
  PathEvent news;
  bool any = false;
  while (server_.driver->take_news(news)) {
    if (news.kind != PathEvent::Kind::path) continue;
    server_.fabric->connections().news(std::size_t{news.session} * kMaxPaths + news.path.path,
                                       news.path.state, news.path.reason, 0, news.at);
    news.at = server_.clock.true_time(news.at);
    server_path_event(news);
    any = true;
  }
  if (any) note_pairs();
}

void World::server_path_event(const PathEvent& news) {
  const PathChanged& path = news.path;
  note(Journal::Kind::path, 0, std::uint64_t{news.session} << 32 | path.path,
       static_cast<std::uint64_t>(path.state), static_cast<std::uint64_t>(path.reason));
  const std::size_t number = std::size_t{news.session} * kMaxPaths + path.path;
  server_.path_state[number] = path.state;
  if (path.state == PathState::connected) {
    ++server_.came_up[news.session];
    server_.hearts->connected(number, news.at);
    check_attempt(server_, number, true);
  } else if (path.state == PathState::closing) {
    server_.hearts->lost(number, path.reason, network_.holds_message(server_.id, number), news.at);
    server_reason(number, path.reason, news.at);
  }
}

// The link that a path of the server leads over; kNone when it has no connection any more.
LinkId World::server_link(std::size_t path) const {
  for (const ConKey& key : server_.fabric->live()) {
    const QpId qp = key.place() == path ? network_.find_qp(server_.id, key) : kNone;
    if (qp != kNone) return network_.qp_info(qp).link;
  }
  return kNone;
}

void World::server_reason(std::size_t number, Reason reason, Nanos at) {
  const LinkId link = server_link(number);
  const std::uint32_t client = link == kNone ? kNone : network_.link_info(link).client - 1;
  if (link != kNone) {
    if (server_.lost_for.size() <= link) server_.lost_for.resize(link + 1);
    server_.lost_for[link] |= std::uint64_t{1} << static_cast<unsigned>(reason);
  }
  if (!closing_) reason_marks(reason);
  // Where its last connection has ended by now, nobody knows whose it was.
  const bool by_liar = link == kNone ? scenario_.liar != kNone : lied_to(client);
  if (reason == Reason::protocol_violation && !by_liar && network_.stats().corrupted == 0)
    judge_.fail(Oracle::legality, at,
                "server: path " + std::to_string(number % kMaxPaths) + " of session " +
                    std::to_string(number / kMaxPaths) + " ended: " + to_string(reason));
}

void World::server_marks() {
  const ServerStats& stats = server_.driver->transport().stats();
  if (stats.refused_messages != 0 && honest())
    judge_.fail(Oracle::legality, now(), "the server refused a message of a client");
  if (stats.gated != 0) judge_.mark(Mark::gate_used);
  if (stats.fences != 0) judge_.mark(Mark::fence_answered);
  if (stats.dropped_responses != 0) judge_.mark(Mark::response_dropped);
  if (stats.rejected != 0) judge_.mark(Mark::server_rejected);
}

std::uint32_t World::client_named(std::string_view name) const {
  for (std::uint32_t index = 0; index < clients_.size(); ++index)
    if (name == "client" + std::to_string(index)) return index;
  return kNone;
}

void World::session_opened(std::uint16_t session, std::string_view name) {
  const std::uint32_t client = client_named(name);
  note(Journal::Kind::session, 0, session, 1);
  for (std::size_t other = 0; other < server_.session_of.size(); ++other)
    if (server_.session_up[other] && server_.session_of[other] == client)
      judge_.fail(Oracle::legality, now(), "two sessions of one name at the same time");
  server_.session_of[session] = client;
  server_.session_up[session] = true;
}

void World::session_closed(std::uint16_t session) {
  note(Journal::Kind::session, 0, session, 0);
  book_.close_windows(server_.session_of[session]);
  for (const auto& client : clients_)
    if (disks_ != nullptr && client->id == server_.session_of[session] + 1)
      client->disks->session_closed(now());
  server_.session_up[session] = false;
  server_.came_up[session] = 0;
  for (const auto& client : clients_)
    if (!closing_ && client->up && !client->leaving && client->id == server_.session_of[session] + 1)
      judge_.mark(Mark::session_ended);
  server_.session_of[session] = kNone;
}

void World::raw_request(const ServerEvent& event) {
  std::uint32_t words[2] = {};
  std::uint64_t numbers[2] = {};
  const bool lies = lied_to(server_.session_of[event.id.session]);
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
  const bool known = book_.knows(numbers[1]);
  const bool fits = known && words[0] == (event.direction == Direction::write ? 1U : 0U) &&
                    words[1] == book_[numbers[1]].sectors && numbers[0] == book_[numbers[1]].lba &&
                    event.data.size() == words[1] * kSectorBytes;
  if (!fits) {
    if (scenario_.fenced && !lies)
      judge_.fail(Oracle::data_integrity, now(), "a user header that no client sent with this data");
    return refuse(op, 22);
  }
  op.io = static_cast<std::uint32_t>(numbers[1]);
  op.lba = numbers[0];
  // A liar's content is not what it says; nobody else shall have to read it.
  if (lies && scenario_.liar != 0 && event.direction == Direction::write &&
      !is_written_by(event.data, op.lba, op.io))
    return refuse(op, 5);
  note(Journal::Kind::delivered, 0, op.io, event.id.chunk, event.session);
  begin_storage(op);
}

// Whether a message of this session can be the request, or a part of it.
bool World::belongs_to(const block::StartStorage& action, std::uint32_t io) const {
  if (!book_.knows(io) || book_[io].client != server_.session_of[action.session]) return false;
  const BookedIo& booked = book_[io];
  const bool writes = action.opcode == wire::rnbd::Opcode::write;
  const std::uint64_t first = action.sector * kSectorsPerBlock, count = action.bytes / kSectorBytes;
  const bool inside = first >= booked.lba && first + count <= booked.lba + booked.sectors;
  return inside && count != 0 && writes == (booked.direction == Direction::write);
}

// The request that `prio` names; 0: none. A server that does not know the client's version yet, because
// SESS_INFO takes longer than OPEN, does not see it: then a write says in its data who sent it, and a read is
// one that waits for an answer.
std::uint32_t World::request_of(const block::StartStorage& action) const {
  // Numbers that `prio` cannot tell apart are 65,536 requests from each other.
  const auto newest = static_cast<std::uint32_t>(book_.count());
  const std::uint32_t named = newest - ((newest - action.prio) & 0xffffU);
  if (belongs_to(action, named)) return named;
  if (action.prio != 0 || server_.driver->knows_version(action.session)) return 0;
  if (action.opcode == wire::rnbd::Opcode::write) {
    const auto writer =
        writer_of(action.data.first(kSectorBytes), action.sector * kSectorsPerBlock, options_.seed);
    return writer && belongs_to(action, *writer) ? *writer : 0;
  }
  const auto found = std::find_if(open_ios_.begin(), open_ios_.end(),
                                  [&](std::uint32_t io) { return belongs_to(action, io); });
  return found == open_ios_.end() ? 0 : *found;
}

void World::block_request(const block::StartStorage& action) {
  StorageModel::Op op;
  op.operation = action.id;
  op.direction = action.opcode == wire::rnbd::Opcode::write ? Direction::write : Direction::read;
  op.data = action.data;
  op.lba = action.sector * kSectorsPerBlock;
  op.io = request_of(action);
  op.nameless = action.prio == 0;
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

void World::begin_storage(const StorageModel::Op& op) {
  ++deliveries_;
  BookedIo& booked = book_[op.io];
  // A request of several messages is delivered in each of them.
  if (op.lba == booked.lba && ++booked.deliveries == 3) judge_.mark(Mark::failover_twice);
  if (op.direction == Direction::write && scenario_.fenced)
    integrity_.to_storage(op.data, op.lba, op.io, now());
  slots_.begin(op.data, op.io, now());
  storage_.start(op, now(), choice_);
}

// Every sector says that this request wrote it.
bool World::is_written_by(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io) const {
  for (std::size_t at = 0; at < data.size(); at += kSectorBytes)
    if (writer_of(data.subspan(at, kSectorBytes), lba + at / kSectorBytes, options_.seed) != io) return false;
  return true;
}

void World::storage_due() {
  StorageModel::Due due;
  while (storage_.take(now(), due)) {
    if (due.instant == StorageModel::Instant::effect) {
      effect(due.op);
      continue;
    }
    once_.served(due.op.io, due.op.error);
    if (due.op.nameless) served_nameless(due.op);
    if (due.op.io < last_answered_) judge_.mark(Mark::answers_overtake);
    last_answered_ = std::max(last_answered_, due.op.io);
    if (due.op.error > 511) judge_.mark(Mark::errno_too_large);
    note(Journal::Kind::answered, 0, due.op.io, due.op.error);
    server_.answers.push_back(due.op);
  }
  if (!server_.up || server_.paused_until > now()) return;
  for (const StorageModel::Op& answer : server_.answers) {
    if (scenario_.fenced) slots_.check(answer.data, answer.io, now());
    slots_.end(answer.data);
    server_.driver->respond(*server_.fabric, now(server_), answer, answer.error);
  }
  if (server_.answers.empty()) return;
  server_.answers.clear();
  check_invariants(server_, server_.driver->broken());
}

void World::check_invariants(const Node& node, const char* broken) {
  if (broken == nullptr) broken = node.recorder->broken_invariant();
  if (broken == nullptr) return;
  judge_.fail(Oracle::legality, now(),
              (node.id == 0 ? "server" : "client " + std::to_string(node.id)) + ": not true that " + broken);
}

void World::effect(const StorageModel::Op& op) {
  if (scenario_.fenced) slots_.check(op.data, op.io, now());
  note(Journal::Kind::applied, 0, op.io);
  storage_.perform(op);
  if (op.direction == Direction::read) return slots_.filled(op.data);
  BookedIo& booked = book_[op.io];
  booked.last_effect = book_.tick();
  if (chunks_given_up_ && !is_written_by(op.data, op.lba, op.io)) spoil(op);
  if (scenario_.fenced) {
    integrity_.to_storage(op.data, op.lba, op.io, now());
    if (booked.window_end < booked.last_effect)
      judge_.fail(Oracle::history, now(),
                  "write " + std::to_string(op.io) + " took effect after it was over");
  }
  hash_ = fold(hash_, op.io ^ now());
}

// The data is that of the request which has its chunk by now. What such a write leaves is not judged.
void World::spoil(const StorageModel::Op& op) {
  for (std::size_t at = 0; at < op.data.size() / kSectorBytes; ++at) spoiled_[op.lba + at] = true;
}

// Each request that it can belong to may end with its answer.
void World::served_nameless(const StorageModel::Op& op) {
  for (const std::uint32_t io : open_ios_) {
    const BookedIo& booked = book_[io];
    const bool inside =
        op.lba >= booked.lba && op.lba + op.data.size() / kSectorBytes <= booked.lba + booked.sectors;
    if (inside && booked.direction == op.direction && booked.client == book_[op.io].client)
      once_.served(io, op.error);
  }
}

void World::refuse(const StorageModel::Op& op, std::uint16_t error) {
  server_.driver->respond(*server_.fabric, now(server_), op, error);
}

}  // namespace rtrs::sim
