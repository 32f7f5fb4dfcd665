#include "sim/world/phases.hpp"

#include <algorithm>

#include "sim/oracles/ledger.hpp"

namespace rtrs::sim {

// Before any fault, dead links delay the first connected path of a client by at most one lead_head_start for
// each path that may try before it.
bool Phases::connects_in_time() {
  const LivenessBound bound = liveness_bound(scenario_);
  if (scenario_.directed || scenario_.client.lead_head_start == kNever) return true;
  const Nanos until = now() + bound.lead + 2 * scenario_.interval + 4 * scenario_.network.channel_spread;
  // A path only has to be connected once: slow storage may exceed the time limit of a request, so that the
  // path is down again.
  const auto came_up = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->last_connected != 0; });
  };
  if (timeline_.run_while(until, came_up)) return true;
  if (!judge_.failed())
    judge_.fail(Oracle::promises, now(),
                "a client with a working link had no path after all head starts\n  " + cluster_.unfinished());
  return false;
}

// Acts as an operator who disconnects each path over a dead link, because the path would otherwise try to
// connect forever.
void Phases::disconnect_dead() {
  for (const auto& client : clients_)
    for (unsigned path = 0; path < client->driver->session().paths().size(); ++path)
      if (cluster_.is_dead(*client, path)) {
        client->promises->asked_to_end(path, now(*client));
        client->driver->session().disconnect_path(*client->fabric, now(*client), path);
      }
}

// Adds removed paths again. A paused server counts as not connected, because a client may not have detected
// the loss of its path yet.
bool Phases::all_connected() {
  if (!server_.up) return false;
  bool all = server_.paused_until <= now();
  for (const auto& client : clients_) {
    if (!client->up) return false;
    if (client->paused_until > now()) {
      all = false;
      continue;
    }
    if (!client->missing.empty() && !scenario_.removes_for_good) operator_.restore_missing_path(*client);
    // Adding a path fails until its removal is complete.
    if (!client->missing.empty() && (scenario_.removes_all || !scenario_.removes_for_good)) all = false;
    std::uint32_t connected = 0;
    const auto paths = client->driver->session().paths();
    for (unsigned path = 0; path < paths.size(); ++path) {
      if (cluster_.leads_to_other_server(*client, path)) {
        // The operator notices the wrong server when the path connects, or when the faults end.
        const PathState state = paths[path].state;
        if (state == PathState::absent || (!cluster_.healed && state != PathState::connected)) continue;
        client->promises->asked_to_end(path, now(*client));
        client->driver->session().remove_path(*client->fabric, now(*client), path);
        all = false;
        continue;
      }
      if (paths[path].state == PathState::connected) {
        if (cluster_.is_dead(*client, path)) all = false;  // this path will be lost soon
        ++connected;
      }
      if (paths[path].state == PathState::closed)
        client->driver->session().reconnect_path(*client->fabric, now(*client), path);
    }
    all = all && connected == cluster_.live_paths(*client);
  }
  return all;
}

void Phases::heal() {
  operator_.stop();
  cluster_.kill_links();
  cluster_.kill_addresses(true);
  std::vector<WorldFault> faults;
  cluster_.faults.stop_and_heal(network_, choice_, faults);
  for (const WorldFault& fault : faults) processes_.carry_out(fault);
  processes_.restart_all();
  cluster_.healed = true;
  processes_.restore_limits();
  if (disks_ != nullptr) disks_->calm();
  crowd_.end();
  for (const auto& client : clients_) client->left = std::min(client->left, scenario_.workload.window);
}

bool Phases::end_protocol_violations() {
  if (scenario_.liar == kNone || scenario_.directed) return true;
  Node& liar = cluster_.node(scenario_.liar);
  liar.lies->forget_plans();
  if (liar.lies->changed_messages() != 0) judge_.mark(Mark::tampered);
  const auto is_open = [&liar](const CorruptingFabric::Doomed& one) {
    const std::vector<ConKey>& live = liar.fabric->live();
    return std::find(live.begin(), live.end(), one.key) != live.end();
  };
  const auto& doomed = liar.lies->doomed();
  Nanos from = std::max(now(), cluster_.faults.quiet_since());
  for (NodeId node = 0; node <= clients_.size(); ++node)
    from = std::max(from, cluster_.node(node).paused_until);
  const Nanos until = from + liveness_bound(scenario_).paths();
  const auto all_ended = [&] { return std::none_of(doomed.begin(), doomed.end(), is_open); };
  if (!timeline_.run_while(until, all_ended) && !judge_.failed()) {
    const auto one = std::find_if(doomed.begin(), doomed.end(), is_open);
    judge_.fail(Oracle::hostile, now(),
                liar.name() + " violated the protocol (" + name_of(one->what) + "), and connection " +
                    std::to_string(one->key.con) + " of its path " + std::to_string(one->key.path) +
                    " is still up");
  }
  if (!judge_.failed()) processes_.replace_liar();
  return !judge_.failed();
}

// Waits until every scripted request has a buffer. A script may have more requests than buffers, so the total
// time is not limited. Instead, at least one waiting request must start within the time limit of one request.
bool Phases::drain_backlog(Nanos each) {
  for (std::size_t left = load_.backlog(); left != 0; left = load_.backlog()) {
    const Nanos since = now();
    if (timeline_.run_while(since + each, [this, left] { return load_.backlog() < left; })) continue;
    cluster_.stalled("no request of the " + std::to_string(left) + " that wait begins within " +
                     to_seconds(now() - since));
    return false;
  }
  return true;
}

// True if the client gets its permits back only when an operator removes this path: the path is dead, and
// without the fence extension the client cannot ask the server over another path.
bool Phases::blocks_permits(const ClientNode& client, unsigned path) const {
  if (scenario_.can_fence() || !cluster_.is_dead(client, path) || !cluster_.out_of_permits(client))
    return false;
  const PathState state = client.driver->session().paths()[path].state;
  // A draining path ends its connections first, whether it is removed or not, so removing it does not help.
  return state != PathState::absent && state != PathState::closing && state != PathState::draining;
}

bool Phases::remove_path_blocking_permits() {
  for (const auto& client : clients_) {
    for (unsigned path = 0; path < client->driver->session().paths().size(); ++path) {
      if (!blocks_permits(*client, path)) continue;
      client->missing.push_back(client->address_of[path]);
      client->driver->session().remove_path(*client->fabric, now(*client), path);
      return true;
    }
  }
  return false;
}

bool Phases::requests_end(Nanos each) {
  Nanos until = now() + each;
  bool removed = false;
  const auto over = [&] {
    removed = remove_path_blocking_permits();
    return removed || load_.nothing_in_flight();
  };
  while (timeline_.run_while(until, over)) {
    if (!removed) return true;
    until = now() + each;
  }
  return false;
}

bool Phases::devices_open() {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& client) { return client->driver->disks()->all_open(); });
}

void Phases::liveness() {
  const LivenessBound bound = liveness_bound(scenario_);
  Nanos from = std::max(now(), cluster_.faults.quiet_since());
  from = std::max(from, server_.paused_until);
  for (const auto& client : clients_) from = std::max(from, client->paused_until);
  if (!timeline_.run_while(from + bound.paths(), [this] { return all_connected(); }))
    return cluster_.stalled("not every path is connected " + to_seconds(now() - from) +
                            " after the last fault");
  if (load_.backlog() != 0) {
    if (!drain_backlog(bound.requests())) return;
    from = now();
  }
  if (!requests_end(from + bound.requests() - now()))
    return cluster_.stalled("not every request has ended " + to_seconds(now() - from) +
                            " after the last fault");
  if (disks_ != nullptr && !timeline_.run_while(now() + bound.requests(), [this] { return devices_open(); }))
    return cluster_.stalled("not every mapped device is open");
  // Slow requests may have delayed the report that a path was lost. From now on all paths must stay
  // connected.
  if (!timeline_.run_while(now() + bound.paths(), [this] { return all_connected(); }))
    cluster_.stalled("a path was lost without any fault");
}

// Submits new requests after recovery: each must succeed unless storage fails it.
void Phases::probe() {
  constexpr std::uint32_t kMost = 16;
  note(Journal::Kind::phase, 0, 3);
  for (const auto& client : clients_) {
    client->left = std::min<std::uint32_t>(2 * client->driver->session().depth(), kMost);
    client->probing = true;
    client->next_submit = now();
  }
  const LivenessBound bound = liveness_bound(scenario_);
  const Nanos gaps = 2 * kMost * scenario_.workload.gap;  // upper bound of all waits between submissions
  if (!timeline_.run_while(now() + 2 * bound.request + gaps, [this] { return load_.nothing_in_flight(); }))
    cluster_.stalled("requests do not complete although every path is connected");
}

void Phases::check_books() {
  disconnect_dead();
  const auto sessions = static_cast<std::int64_t>(scenario_.clients);
  const auto connections = [&](const ClientNode& client) {
    return std::int64_t{cluster_.live_paths(client)} * scenario_.client.con_num;
  };
  const bool fresh_keys = fitted(scenario_.server, *server_.sim).always_invalidate;
  const std::int64_t keys = fresh_keys ? scenario_.server.queue_depth : 1;
  Holdings server{0, sessions, 0};
  for (const auto& client : clients_) {
    server.connections += connections(*client);
    server.remote_keys += std::int64_t{cluster_.live_paths(*client)} * keys;
  }
  const auto expected = [&](const ClientNode& client) {
    const bool own = client.region != kNoRegion;
    const std::int64_t remote_keys = own && client.fabric->holdings().remote_keys == 2 ? 2 : 1;
    return Holdings{connections(client), own ? 3 : 2, remote_keys};
  };
  const auto balanced = [&] {
    // The number of sessions is compared too, because the holdings alone can match by chance: half-open
    // sessions of crashed clients may hold as many connections as a path that is being replaced lacks.
    bool all = server_.fabric->holdings() == server && cluster_.in_storage() == 0 &&
               server_.driver->transport().session_count() == scenario_.clients;
    // A block client may still have requests in flight to reopen its device.
    for (const auto& client : clients_)
      all =
          all && client->driver->session().inflight() == 0 && client->fabric->holdings() == expected(*client);
    return all;
  };
  timeline_.run_while(now() + liveness_bound(scenario_).stale, balanced);
  if (judge_.failed()) return;
  check_holdings(judge_, now(), "server", server_.fabric->holdings(), server);
  check_balance(judge_, now(), "requests in storage", static_cast<std::int64_t>(cluster_.in_storage()), 0);
  check_balance(judge_, now(), "sessions of the server", server_.driver->transport().session_count(),
                scenario_.clients);
  for (const auto& client : clients_) {
    const std::string who = "client " + std::to_string(client->id);
    check_holdings(judge_, now(), who, client->fabric->holdings(), expected(*client));
    check_balance(judge_, now(), who + ": requests accepted", client->driver->session().inflight(), 0);
    for (const PathStatus& path : client->driver->session().paths())
      check_balance(judge_, now(), who + ": requests in flight on a path", path.inflight, 0);
  }
  check_balance(judge_, now(), "requests without an answer", books_.once.open(), 0);
}

void Phases::close() {
  note(Journal::Kind::phase, 0, 4);
  cluster_.closing = true;
  const LivenessBound bound = liveness_bound(scenario_);
  for (const auto& client : clients_) processes_.begin_close(*client);
  const auto closed = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->driver->closed(); });
  };
  if (!timeline_.run_while(now() + bound.paths(), closed)) return cluster_.stalled("a client does not close");
  for (const auto& client : clients_) processes_.release_client(*client);
  const auto empty = [this] { return server_.driver->transport().session_count() == 0; };
  if (!timeline_.run_while(now() + bound.stale + bound.detect, empty))
    return cluster_.stalled("the server keeps sessions of closed clients");
  processes_.begin_shutdown();
  if (!timeline_.run_while(now() + bound.stale, [this] { return server_.driver->closed(); }))
    return cluster_.stalled("the server does not close");
  check_holdings(judge_, now(), "closed server", server_.fabric->holdings(), Holdings{});
  if (disks_ != nullptr) cluster_.check_closed_disks();
}

bool Phases::finish_closings() {
  operator_.stop_closing();
  const auto over = [this] {
    return !server_.comes_back && std::none_of(clients_.begin(), clients_.end(),
                                               [](const auto& client) { return client->comes_back; });
  };
  if (!timeline_.run_while(kNever, over))
    cluster_.stalled("a process that was requested to close does not close");
  return !judge_.failed();
}

// Returns false if a script wait timed out or an oracle fired.
bool Phases::follow_script() {
  if (!timeline_.run_while(now() + scenario_.safety, [this] { return script_.is_done(); })) {
    if (judge_.failed()) return false;
    script_stuck_ = true;
    cluster_.stalled(script_.place() + " never came: " + script_.next());
    return false;
  }
  return true;
}

void Phases::play() {
  // A server that violates the protocol may report success for a request that it did not execute.
  if (scenario_.liar == server_.id && !scenario_.directed)
    for (const Oracle one : {Oracle::data_integrity, Oracle::history, Oracle::slot_exclusivity})
      judge_.excuse(one);
  processes_.start_server();
  for (std::uint32_t index = 0; index < clients_.size(); ++index) processes_.start_client(index);
  if (scenario_.dead_links.from_start) cluster_.kill_links();
  cluster_.kill_addresses(false);
  if (scenario_.dead_links.others_late) cluster_.cut_live_links();
  const LivenessBound bound = liveness_bound(scenario_);
  if (scenario_.faults_from_start) script_.start();
  if (!scenario_.faults_from_start && !connects_in_time()) return;
  if (!scenario_.faults_from_start && !timeline_.run_while(bound.paths(), [this] { return all_connected(); }))
    return cluster_.stalled("not every path connects on a network without faults");
  note(Journal::Kind::phase, 0, 1);
  cluster_.faults.arm(network_, choice_);
  operator_.start();
  if (!scenario_.faults_from_start) script_.start();
  if (scenario_.directed ? !follow_script() : !timeline_.run_until(now() + scenario_.safety)) return;
  if (!finish_closings()) return;
  note(Journal::Kind::phase, 0, 2);
  heal();
  if (!end_protocol_violations()) return;
  liveness();
  if (judge_.failed()) return;
  probe();
  if (judge_.failed()) return;
  check_books();
  if (judge_.failed()) return;
  close();
}

}  // namespace rtrs::sim
