// The clients of a world and the applications on top of them.
#include <algorithm>
#include <array>

#include "core/wire/linux_errno.hpp"
#include "sim/cluster/world.hpp"
#include "sim/oracles/digest.hpp"
#include "sim/oracles/incarnation.hpp"

namespace rtrs::sim {
namespace {

// A device that is being unmapped is not opened again at a server that has lost the session. What its
// request did before that is unknown.
bool says_not_open(const IoCompletion& done) {
  return done.result == Errc::peer_error && done.peer_errno == wire::linux_errno::kEnotconn;
}

bool says_bad_bytes(Reason reason) {
  return reason == Reason::protocol_violation || reason == Reason::bad_conn_rsp;
}
// What two peers that keep the protocol never say of each other.
bool accuses(Reason reason) {
  constexpr std::array kAccusations{
      Reason::protocol_violation, Reason::bad_conn_rsp,        Reason::bad_info_rsp,
      Reason::depth_changed,      Reason::post_failed,         Reason::no_resources,
      Reason::unknown_session,    Reason::duplicate_address,   Reason::too_many_paths,
      Reason::too_many_sessions,  Reason::too_many_connections};
  return std::find(kAccusations.begin(), kAccusations.end(), reason) != kAccusations.end();
}

}  // namespace

bool World::poll_client(std::uint32_t index) {
  ClientNode& client = *clients_[index];
  const bool had_events = has_events(client);
  const Nanos deadline = client.driver->next_deadline();
  // A timer that is missing shows before the poll, which fails what is overdue. A pause ends just now.
  constexpr Nanos kRounding = milliseconds(1);  // of the clock of the node
  if (client.paused_until != now()) {
    check_waits(client, index, kRounding);
    client.fabric->connections().poll_begins(now(client), waiting_since(client));
  }
  if (disks_ != nullptr && client.paused_until != now()) client.disks->check_waits(now(client));
  client.promises->poll_begins(before_poll(client));
  const std::uint64_t taken = client.fabric->taken();
  std::array<IoCompletion, 64> done;
  const std::size_t count = client.driver->poll(*client.fabric, now(client), done);
  client.fabric->clear_fresh();
  client_news(client, index);
  if (disks_ != nullptr)
    disk_result(client);
  else
    for (const IoCompletion& one : std::span(done).first(count)) finished(client, index, one);
  client.fabric->connections().poll_ends(now(client));
  client.promises->poll_ends(client.fabric->taken() - taken, count < done.size(), now(client));
  client.promises->check_attempts(client.driver->session().paths(), now(client));
  if (OldestRequest oldest; client.driver->session().oldest_in_flight(oldest))
    client.promises->check_oldest(oldest.since, now(client));
  // With a full batch, more results may be waiting.
  if (count < done.size()) check_waits(client, index, 0);
  failover_marks(client);
  keys_.offered(client.id, client.fabric->offers(), client.driver->most_reads(client.reads_under_way), now());
  if (!lied_to(index)) keys_.left(client.id, client.fabric->left_keys(), now());
  check_invariants(client, client.driver->broken());
  return had_events || count > 0 || client.driver->next_deadline() != deadline;
}

void World::client_news(ClientNode& client, std::uint32_t index) {
  PathEvent news;
  bool any = false;
  while (client.driver->take_news(news)) {
    any = true;
    client.without_path.note(news);
    client.promises->note(news);
    if (news.kind == PathEvent::Kind::path)
      client.fabric->connections().news(news.path.path, news.path.state, news.path.reason, news.path.delay,
                                        news.at);
    news.at = client.clock.true_time(news.at);
    switch (news.kind) {
      case PathEvent::Kind::path:
        client_path_event(client, index, news);
        break;
      case PathEvent::Kind::link_up:
        if (client.link_lost_once) judge_.mark(Mark::all_down_then_up);
        client.links->link(true, news.at);
        note(Journal::Kind::link, client.id, 1);
        break;
      case PathEvent::Kind::link_down:
        client.link_lost_once = true;
        if (!closing_) judge_.mark(client.under_way != 0 ? Mark::parked : Mark::link_down);
        client.links->link(false, news.at);
        note(Journal::Kind::link, client.id, 0);
        break;
      case PathEvent::Kind::session_ended:
      case PathEvent::Kind::refused:
        break;
    }
  }
  if (!any) return;
  client.links->check(now());
  note_pairs();
  faults_.bias(path_in_motion(), network_, choice_);
}

// On its way up or down.
bool World::path_in_motion() const {
  for (const auto& client : clients_) {
    if (!client->up) continue;
    for (const PathStatus& path : client->driver->session().paths())
      if (path.state == PathState::connecting || path.state == PathState::draining) return true;
  }
  return false;
}

void World::client_path_event(ClientNode& client, std::uint32_t index, const PathEvent& news) {
  const PathChanged& path = news.path;
  note(Journal::Kind::path, client.id, path.path, static_cast<std::uint64_t>(path.state),
       static_cast<std::uint64_t>(path.reason));
  if (path.state == PathState::connected) {
    if (other_server_ != nullptr) check_one_server(client, path.path);
    client.hearts->connected(path.path, news.at);
    client.last_connected = now();
    client.links->path_connected();
    check_attempt(client, path.path, false);
    if (client.next_submit == kNever) client.next_submit = now();
    if (client.driver->session().paths()[path.path].reconnects >= 5) judge_.mark(Mark::fifth_return);
  } else if (path.state == PathState::draining || path.state == PathState::closing) {
    const bool was_connected = client.hearts->is_connected(path.path);
    if (was_connected) client.links->path_lost();
    client.hearts->lost(path.path, path.reason, network_.holds_message(client.id, path.path), news.at);
    client_reason(client, path, was_connected);
    const bool new_depth = reconfigured_ && path.reason == Reason::depth_changed;
    const bool was_short = path.reason == Reason::no_resources && network_.stats().shortages != 0;
    const bool was_changed = says_bad_bytes(path.reason) && network_.stats().corrupted != 0;
    if (accuses(path.reason) && !lied_to(index) && !new_depth && !was_short && !was_changed)
      judge_.fail(Oracle::legality, news.at,
                  "client " + std::to_string(index + 1) + " path " + std::to_string(path.path) +
                      " ended: " + to_string(path.reason));
  }
}

void World::check_attempt(const Node& node, std::size_t path, bool same_attempt) {
  std::vector<PeerEnd> ends;
  for (const ConKey& key : node.fabric->live()) {
    if (key.place() != path) continue;
    PeerEnd end;
    end.own_con = key.con;
    const QpId own = network_.find_qp(node.id, key);
    // An accept that failed has no other end.
    if (own != kNone && network_.qp_info(own).link == kNone) continue;
    const QpId peer = own == kNone ? kNone : network_.qp_info(own).peer;
    if (peer != kNone) {
      end.known = true;
      end.node = network_.qp_info(peer).node;
      end.key = network_.qp_info(peer).key;
    }
    ends.push_back(end);
  }
  check_incarnation(
      judge_, now(),
      (node.id == 0 ? "server" : "client " + std::to_string(node.id)) + ", path " + std::to_string(path),
      ends, same_attempt);
}

void World::finished(ClientNode& client, std::uint32_t index, const IoCompletion& done) {
  const auto io = static_cast<std::uint32_t>(done.user_data);
  hash_ = fold(hash_, done.user_data << 16 ^ static_cast<std::uint64_t>(done.result) << 10 ^ done.peer_errno);
  note(Journal::Kind::completed, client.id, io, static_cast<std::uint64_t>(done.result), done.peer_errno);
  const bool unmapped = client.closing && says_not_open(done);
  once_.completed(done.user_data, done.result, done.peer_errno, now(), !lied_to(index) && !unmapped);
  if (judge_.failed() || !book_.knows(done.user_data)) return;
  BookedIo& booked = book_[io];
  client.promises->completed(io, done.result, booked.submitted, now(client));
  booked.answered = book_.tick();
  booked.good = done.result == Errc::ok;
  // The server has said its last word, or the request may linger until its session is gone.
  const bool answered = done.result == Errc::ok || (done.result == Errc::peer_error && !unmapped);
  if (answered) booked.window_end = booked.answered;
  const bool unanswered = done.result == Errc::no_path || done.result == Errc::request_timeout || unmapped;
  if (unanswered && booked.direction == Direction::write) book_.failed_unanswered(io, client.starts);
  // Without a fence its chunk belongs to the next request, and storage may still read it.
  if (unanswered && !scenario_.fenced) chunks_given_up_ = true;
  if (done.result == Errc::ok) book_.end_failed(index, client.starts, booked.invoked);
  if (done.result == Errc::peer_error && !unmapped) judge_.mark(Mark::storage_error);
  if (done.result == Errc::no_path) {
    judge_.mark(Mark::queue_expired);
    if (scenario_.client.queue_timeout == kNever)
      judge_.fail(Oracle::liveness, now(), "request " + std::to_string(io) + " failed for want of a path");
  }
  if (done.result == Errc::no_permit) {
    judge_.mark(Mark::no_permit);
    const Nanos limit = scenario_.client.queue_timeout;
    if (limit == kNever || now(client) - booked.submitted < limit)
      judge_.fail(
          Oracle::liveness, now(),
          "request " + std::to_string(io) + " failed for want of a permit before queue_timeout was over");
  }
  if (done.result == Errc::request_timeout) {
    judge_.mark(Mark::request_timed_out);
    // A device whose OPEN is not answered holds a request for queue_timeout.
    const Nanos held = scenario_.workload.block_device ? scenario_.client.queue_timeout : kNever;
    const Nanos limit = std::min(scenario_.client.request_timeout, held);
    if (limit == kNever || now(client) - booked.submitted < limit)
      judge_.fail(Oracle::liveness, now(),
                  "request " + std::to_string(io) + " failed as unanswered before its time was over");
  }
  moved_marks(booked);
  std::erase(open_ios_, io);
  --client.under_way;
  if (booked.direction == Direction::read) --client.reads_under_way;
  ++completions_;
  if (done.result != Errc::ok) ++errors_;
  for (Buffer& buffer : client.buffers) {
    if (!buffer.busy || buffer.io != io) continue;
    // What a liar reads says nothing.
    if (booked.direction == Direction::read) booked.good = booked.good && !lied_to(index);
    if (booked.direction == Direction::read && booked.good) check_read(buffer, booked, io);
    buffer.busy = false;
    buffer.left = digest_of(buffer.bytes);
  }
  if (client.next_submit == kNever)
    client.next_submit = now() + draw_time(choice_, scenario_.workload.gap, Label::workload_gap);
}

void World::check_waits(ClientNode& client, std::uint32_t index, Nanos slack) {
  const Nanos limit = scenario_.client.queue_timeout;
  if (!exhausted(client)) {
    client.without_permits_since = kNever;
  } else if (client.without_permits_since == kNever) {
    client.without_permits_since = now(client);
    judge_.mark(Mark::permits_exhausted);
  }
  const bool without_permits = client.without_permits_since != kNever;
  if (limit == kNever || (client.driver->session().link_up() && !without_permits) || open_ios_.empty())
    return;
  for (const std::uint32_t io : open_ios_) {
    if (book_[io].client != index) continue;
    const Nanos submitted = book_[io].submitted;
    const Nanos without_path =
        client.driver->session().link_up() ? kNever : client.without_path.since(submitted);
    const Nanos since =
        std::min(without_path, without_permits ? std::max(submitted, client.without_permits_since) : kNever);
    if (since == kNever || now(client) - since <= limit + slack) continue;
    return judge_.fail(
        Oracle::liveness, now(),
        "request " + std::to_string(io) + " waits for a path or a permit for longer than queue_timeout");
  }
}

// Between peers that know the probe its answers are the server's, and a server may stand still.
ClientPromises::Before World::before_poll(const ClientNode& client) const {
  ClientPromises::Before before{network_.event_count(client.id), client.without_permits_since, {}};
  if (scenario_.can_probe() || !scenario_.client.probe_deliveries) return before;
  before.delivered.set();
  for (const ConKey& key : client.fabric->live()) {
    const QpId qp = network_.find_qp(client.id, key);
    if (qp == kNone || !network_.all_delivered(qp)) before.delivered.reset(key.path);
  }
  return before;
}

void World::check_read(Buffer& buffer, BookedIo& booked, std::uint32_t io) {
  for (std::uint32_t at = 0; at < booked.sectors; ++at) {
    const auto sector = std::span<const std::byte>(buffer.bytes).subspan(at * kSectorBytes, kSectorBytes);
    const bool judged = !spoiled_[booked.lba + at];
    const std::uint32_t value = judged ? integrity_.to_application(sector, booked.lba + at, io, now())
                                       : writer_of(sector, booked.lba + at, options_.seed).value_or(0);
    book_.add_value(booked, at, value);
    hash_ = fold(hash_, value);
  }
}

void World::failover_marks(ClientNode& client) {
  const ClientStats& stats = client.driver->session().stats();
  if (stats.refused_messages != 0 && !lied_to(client.id - 1))
    judge_.fail(Oracle::legality, now(), "the client refused a message of the server");
  if (stats.stale_responses != 0) judge_.mark(Mark::stale_response);
  if (stats.unproven_failures != 0) {
    judge_.mark(Mark::unproven_failure);
    if (scenario_.fenced && !scenario_.fence_off)
      judge_.fail(Oracle::history, now(),
                  "later requests do not wait for a write that failed and may still act");
  }
  const std::uint64_t moved = stats.failovers - client.failovers_seen;
  if (moved == 0) return;
  client.failovers_seen = stats.failovers;
  if (moved == 1) judge_.mark(Mark::failover_of_one);
  if (moved == client.driver->session().depth()) judge_.mark(Mark::failover_of_all);
  if (stats.unfenced_failovers != 0) {
    judge_.mark(Mark::unfenced_failover);
    if (scenario_.fenced && !scenario_.fence_off)
      judge_.fail(Oracle::history, now(), "a request was sent again without proof");
  }
}

World::Buffer* World::free_buffer(ClientNode& client) {
  for (Buffer& buffer : client.buffers)
    if (!buffer.busy) return &buffer;
  return nullptr;
}

void World::submit_due(std::uint32_t index) {
  ClientNode& client = *clients_[index];
  if (disks_ != nullptr) return act_on_disks(client);
  while (!client.wanted.empty() && client.up && !client.leaving && client.paused_until <= now() &&
         takes_requests(client)) {
    Buffer* buffer = free_buffer(client);
    if (buffer == nullptr) break;
    const Wanted wanted = client.wanted.front();
    client.wanted.pop_front();
    submit(client, index, *buffer, wanted);
  }
  if (client.leaving) return;
  if (!client.up || client.left == 0 || client.next_submit > now() || client.paused_until > now()) return;
  if (!takes_requests(client)) return;
  const ScopedGroup group(choice_, Label::workload);
  const bool burst = client.probing || choice_.fires(scenario_.workload.burst_rate, Label::workload_gap);
  do {
    if (!submit_one(client, index)) {
      client.next_submit = kNever;  // until something completes
      return;
    }
  } while (burst && client.left > 0);
  client.next_submit = now() + draw_time(choice_, scenario_.workload.gap, Label::workload_gap);
}

// False when the window is full.
bool World::submit_one(ClientNode& client, std::uint32_t index) {
  Buffer* buffer = free_buffer(client);
  if (buffer == nullptr) return false;
  if (choice_.skips(Label::request)) {
    --client.left;
    return true;
  }
  const ScopedGroup group(choice_, Label::request);
  submit(client, index, *buffer, draw_request());
  --client.left;
  return true;
}

World::Wanted World::draw_request() {
  const WorkloadOptions& load = scenario_.workload;
  Wanted wanted;
  wanted.direction =
      choice_.draw(100, Label::workload_op) < load.write_percent ? Direction::write : Direction::read;
  wanted.units = 1 + choice_.draw(kMaxUnits, Label::workload_length);
  wanted.first = choice_.draw(scenario_.storage.sectors / unit() - wanted.units + 1, Label::workload_block);
  wanted.service = choice_.fires(load.service_rate, Label::workload_op);
  wanted.affinity = static_cast<std::uint16_t>(choice_.draw(8, Label::workload_op));
  return wanted;
}

void World::submit(ClientNode& client, std::uint32_t index, Buffer& buffer, const Wanted& wanted) {
  const auto at = static_cast<std::size_t>(&buffer - client.buffers.data());
  const Direction direction = wanted.direction;
  const std::uint32_t sectors = std::clamp<std::uint32_t>(wanted.units, 1, kMaxUnits) * unit();
  const std::uint32_t lba = std::min(wanted.first * unit(), scenario_.storage.sectors - sectors);
  const std::uint32_t io = book_.open(index, direction, lba, sectors);
  book_[io].submitted = now(client);
  if (buffer.io != 0) integrity_.private_memory(buffer.left, digest_of(buffer.bytes), buffer.io, now());
  const std::size_t stride = max_io_bytes();
  buffer.bytes = std::span(*client.memory.back()).subspan(at * stride, sectors * kSectorBytes);
  for (std::uint32_t sector = 0; sector < sectors; ++sector) {
    const auto bytes = buffer.bytes.subspan(sector * kSectorBytes, kSectorBytes);
    if (direction == Direction::write)
      write_sector(SectorTag{io, index, lba + sector, sector, options_.seed}, bytes);
    else
      std::fill(bytes.begin(), bytes.end(), std::byte{0x5a});
  }
  SectorRequest request;
  request.direction = direction;
  request.service = wanted.service;
  request.affinity = wanted.affinity;
  request.io = io;
  request.lba = lba;
  request.sectors = sectors;
  request.data = buffer.bytes;
  request.region = client.region;
  request.region_offset = static_cast<std::uint32_t>(at * stride);
  once_.accepted(io, now());
  note(Journal::Kind::submitted, client.id, io, lba,
       std::uint64_t{sectors} | std::uint64_t{direction == Direction::write} << 32);
  const Errc result = client.driver->submit(*client.fabric, now(client), request);
  if (result != Errc::ok)
    judge_.fail(Oracle::exactly_once, now(), std::string("submit refused: ") + to_string(result));
  buffer.io = io;
  buffer.busy = true;
  ++client.under_way;
  if (direction == Direction::read) ++client.reads_under_way;
  if (client.under_way == client.driver->session().depth()) judge_.mark(Mark::full_depth);
  if (client.under_way > client.driver->session().depth()) judge_.mark(Mark::permit_waiter);
  if (wanted.service) judge_.mark(Mark::service_request);
  if (!client.driver->session().link_up()) judge_.mark(Mark::pathless_submit);
  load_marks(book_[io], io);
  open_ios_.push_back(io);
}

}  // namespace rtrs::sim
