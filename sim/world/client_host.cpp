#include "sim/world/client_host.hpp"

#include <algorithm>
#include <array>

namespace rtrs::sim {

namespace {

bool indicates_bad_bytes(Reason reason) {
  return reason == Reason::protocol_violation || reason == Reason::bad_conn_rsp;
}
// True for reasons that never occur between two peers that follow the protocol.
bool indicates_protocol_error(Reason reason) {
  constexpr std::array kAccusations{
      Reason::protocol_violation, Reason::bad_conn_rsp,        Reason::bad_info_rsp,
      Reason::depth_changed,      Reason::post_failed,         Reason::no_resources,
      Reason::unknown_session,    Reason::duplicate_address,   Reason::too_many_paths,
      Reason::too_many_sessions,  Reason::too_many_connections};
  return std::find(kAccusations.begin(), kAccusations.end(), reason) != kAccusations.end();
}

}  // namespace

bool ClientHost::poll(std::uint32_t index) {
  ClientNode& client = *clients_[index];
  const bool had_events = cluster_.has_events(client);
  const Nanos deadline = client.driver->next_deadline();
  // Checks for overdue requests before the poll, because the poll itself fails them, even if the client never
  // set a timer for them. Skipped if a node pause ends at this instant, because requests may be overdue then.
  constexpr Nanos kRounding = milliseconds(1);  // allowance for the rounding of node time
  if (client.paused_until != now()) {
    watch_.check_waits(client, index, kRounding);
    client.fabric->connections().poll_begins(now(client), watch_.waiting_since(client));
  }
  if (disks_ != nullptr && client.paused_until != now()) client.disks->check_waits(now(client));
  client.promises->poll_begins(watch_.before_poll(client));
  const std::uint64_t taken = client.fabric->taken();
  const std::size_t count = client.driver->poll(*client.fabric, now(client), done_);
  client.fabric->clear_fresh();
  take_news(client, index);
  if (disks_ != nullptr)
    load_.disk_result(client);
  else
    for (const IoCompletion& one : std::span(done_).first(count)) load_.finished(client, index, one);
  client.fabric->connections().poll_ends(now(client));
  client.promises->poll_ends(client.fabric->taken() - taken, count < done_.size(), now(client));
  client.promises->check_attempts(client.driver->session().paths(), now(client));
  if (OldestRequest oldest; client.driver->session().oldest_in_flight(oldest))
    client.promises->check_oldest(oldest.since, now(client));
  // If the batch is full or the client asks to be polled at once, more results may be pending.
  if (count < done_.size() && client.driver->next_deadline() > now(client))
    watch_.check_waits(client, index, 0);
  watch_.failover_marks(client);
  watch_.keys().offered(client.id, client.fabric->offers(), client.driver->most_reads(client.reads_in_flight),
                        now());
  if (!cluster_.has_misbehaving_end(index)) watch_.keys().left(client.id, client.fabric->left_keys(), now());
  watch_.check_invariants(client, client.driver->broken());
  return had_events || count > 0 || client.driver->next_deadline() != deadline;
}

void ClientHost::take_news(ClientNode& client, std::uint32_t index) {
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
        path_event(client, index, news);
        break;
      case PathEvent::Kind::link_up:
        if (client.link_lost_once) judge_.mark(Mark::all_down_then_up);
        for (const auto& oracle : client.oracles) oracle->link(true, news.at);
        note(Journal::Kind::link, client.id, 1);
        break;
      case PathEvent::Kind::link_down:
        client.link_lost_once = true;
        if (!cluster_.closing) judge_.mark(client.under_way != 0 ? Mark::parked : Mark::link_down);
        for (const auto& oracle : client.oracles) oracle->link(false, news.at);
        note(Journal::Kind::link, client.id, 0);
        break;
      case PathEvent::Kind::session_ended:
      case PathEvent::Kind::refused:
        break;
    }
  }
  if (!any) return;
  for (const auto& oracle : client.oracles) oracle->poll_ends(now());
  watch_.note_pairs();
  cluster_.faults.bias(watch_.any_path_changing(), network_, choice_);
}

void ClientHost::path_event(ClientNode& client, std::uint32_t index, const PathEvent& news) {
  const PathChanged& path = news.path;
  note(Journal::Kind::path, client.id, path.path, static_cast<std::uint64_t>(path.state),
       static_cast<std::uint64_t>(path.reason));
  const bool was_connected = client.hearts->is_connected(path.path);
  for (const auto& oracle : client.oracles) oracle->path(path, was_connected, news.at);
  if (path.state == PathState::connected) {
    if (cluster_.other_server != nullptr) watch_.check_one_server(client, path.path);
    client.hearts->connected(path.path, news.at);
    client.last_connected = now();
    watch_.check_attempt(client, path.path, false);
    if (client.next_submit == kNever) client.next_submit = now();
    if (client.driver->session().paths()[path.path].reconnects >= 5) judge_.mark(Mark::fifth_return);
  } else if (path.state == PathState::draining || path.state == PathState::closing) {
    client.hearts->lost(path.path, path.reason, network_.holds_message(client.id, path.path), news.at);
    watch_.client_reason(client, path, was_connected);
    const bool new_depth = cluster_.reconfigured && path.reason == Reason::depth_changed;
    const bool was_short = path.reason == Reason::no_resources && network_.stats().shortages != 0;
    const bool was_changed = indicates_bad_bytes(path.reason) && network_.stats().corrupted != 0;
    if (indicates_protocol_error(path.reason) && !cluster_.has_misbehaving_end(index) && !new_depth &&
        !was_short && !was_changed)
      judge_.fail(Oracle::legality, news.at,
                  "client " + std::to_string(index + 1) + " path " + std::to_string(path.path) +
                      " ended: " + to_string(path.reason));
  }
}

}  // namespace rtrs::sim
