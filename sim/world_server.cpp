// The server of a world and the storage behind it.
#include <cstring>

#include "sim/digest.hpp"
#include "sim/world.hpp"

namespace rtrs::sim {

bool World::poll_server() {
  const bool had_events = network_.has_events(server_.id);
  const Nanos deadline = server_.driver->next_deadline();
  std::array<ServerEvent, 64> events;
  const std::size_t count = server_.driver->poll(*server_.fabric, now(server_), events);
  for (const ConKey& key : server_.fabric->fresh()) check_attempt(server_, key.path, true);
  server_.fabric->clear_fresh();
  server_news();
  for (const ServerEvent& event : std::span(events).first(count)) on_server_event(event);
  server_marks();
  check_invariants(server_, server_.driver->broken_invariant());
  return had_events || count > 0 || server_.driver->next_deadline() != deadline;
}

void World::server_news() {
  PathNews news;
  bool any = false;
  while (server_.driver->take_news(news)) {
    if (news.kind != PathNews::Kind::path) continue;
    news.at = server_.clock.true_time(news.at);
    server_path_news(news);
    any = true;
  }
  if (any) note_pairs();
}

void World::server_path_news(const PathNews& news) {
  const PathChanged& path = news.path;
  note(Journal::Kind::path, 0, std::uint64_t{news.session} << 32 | path.path,
       static_cast<std::uint64_t>(path.state), static_cast<std::uint64_t>(path.reason));
  const std::size_t number = std::size_t{news.session} * kMaxPaths + path.path;
  server_.path_state[number] = path.state;
  if (path.state == PathState::connected) {
    server_.hearts->connected(number, news.at);
    check_attempt(server_, number, true);
  } else if (path.state == PathState::closing) {
    server_.hearts->lost(number, path.reason == Reason::heartbeat_lost, news.at);
    server_reason(number, path.reason, news.at);
  }
}

// The link that a path of the server leads over; kNone when it has no connection any more.
LinkId World::server_link(std::size_t path) const {
  for (const ConKey& key : server_.fabric->live()) {
    const QpId qp = key.path == path ? network_.find_qp(server_.id, key) : kNone;
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
  if (reason == Reason::protocol_violation && !lied_to(client))
    judge_.fail(Oracle::legality, at,
                "server: path " + std::to_string(number % kMaxPaths) + " of session " +
                    std::to_string(number / kMaxPaths) + " ended: " + to_string(reason));
}

void World::server_marks() {
  const ServerStats& stats = server_.driver->stats();
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

void World::on_server_event(const ServerEvent& event) {
  switch (event.kind) {
    case ServerEvent::Kind::session_opened: {
      const std::uint32_t client = client_named(event.name);
      note(Journal::Kind::session, 0, event.session, 1);
      for (std::size_t other = 0; other < server_.session_of.size(); ++other)
        if (server_.session_up[other] && server_.session_of[other] == client)
          judge_.fail(Oracle::legality, now(), "two sessions of one name at the same time");
      server_.session_of[event.session] = client;
      server_.session_up[event.session] = true;
      break;
    }
    case ServerEvent::Kind::session_closed:
      note(Journal::Kind::session, 0, event.session, 0);
      book_.close_windows(server_.session_of[event.session]);
      server_.session_up[event.session] = false;
      for (const auto& client : clients_)
        if (!closing_ && client->up && !client->leaving &&
            client->id == server_.session_of[event.session] + 1)
          judge_.mark(Mark::session_ended);
      server_.session_of[event.session] = kNone;
      break;
    case ServerEvent::Kind::request:
      on_request(event);
      break;
  }
}

void World::on_request(const ServerEvent& event) {
  std::uint32_t words[2] = {};
  std::uint64_t numbers[2] = {};
  const bool lies = lied_to(server_.session_of[event.id.session]);
  if (event.user_header.size() != 24) {
    if (scenario_.fenced && !lies)
      judge_.fail(Oracle::data_integrity, now(), "a user header of another length");
    return respond(event.id, 22);
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
    return respond(event.id, 22);
  }
  // A liar's content is not what it says; nobody else shall have to read it.
  if (lies && scenario_.liar != 0 && event.direction == Direction::write &&
      !is_written_by(event.data, numbers[0], static_cast<std::uint32_t>(numbers[1])))
    return respond(event.id, 5);
  StorageModel::Op op;
  op.id = event.id;
  op.io = static_cast<std::uint32_t>(numbers[1]);
  op.direction = event.direction;
  op.lba = numbers[0];
  op.data = event.data;
  note(Journal::Kind::delivered, 0, op.io, event.id.chunk, event.session);
  ++deliveries_;
  if (++book_[op.io].deliveries == 3) judge_.mark(Mark::failover_twice);
  if (event.direction == Direction::write && scenario_.fenced)
    integrity_.to_storage(event.data, op.lba, op.io, now());
  slots_.begin(event.data, op.io, now());
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
    if (due.op.io < last_answered_) judge_.mark(Mark::answers_overtake);
    last_answered_ = std::max(last_answered_, due.op.io);
    if (due.op.error > 511) judge_.mark(Mark::errno_too_large);
    note(Journal::Kind::answered, 0, due.op.io, due.op.error);
    server_.answers.push_back({due.op.id, due.op.error, due.op.io, due.op.data});
  }
  if (!server_.up || server_.paused_until > now()) return;
  for (const ServerNode::Answer& answer : server_.answers) {
    if (scenario_.fenced) slots_.check(answer.data, answer.io, now());
    slots_.end(answer.data);
    server_.driver->respond(*server_.fabric, now(server_), answer.id, answer.error);
  }
  if (server_.answers.empty()) return;
  server_.answers.clear();
  check_invariants(server_, server_.driver->broken_invariant());
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
  if (scenario_.fenced) {
    integrity_.to_storage(op.data, op.lba, op.io, now());
    if (booked.window_end < booked.last_effect)
      judge_.fail(Oracle::history, now(),
                  "write " + std::to_string(op.io) + " took effect after it was over");
  }
  hash_ = fold(hash_, op.io ^ now());
}

void World::respond(RequestId id, std::uint16_t error) {
  server_.driver->respond(*server_.fabric, now(server_), id, error);
}

}  // namespace rtrs::sim
