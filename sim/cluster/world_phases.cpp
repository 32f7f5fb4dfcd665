// The phases of a world, and what must hold at the end of each.
#include <algorithm>

#include "sim/cluster/world.hpp"
#include "sim/oracles/ledger.hpp"

namespace rtrs::sim {

void World::stalled(const std::string& what) {
  if (judge_.failed()) return;
  stalled_ = true;
  judge_.fail(Oracle::liveness, now(), what + "\n  " + unfinished());
}

// Plays until `done` or `deadline`. True when done.
bool World::run_while(Nanos deadline, const std::function<bool()>& done) {
  while (!judge_.failed()) {
    if (done()) return true;
    const Nanos next = next_time();
    if (next > deadline) {
      network_.run_until(deadline, choice_);
      return done();
    }
    if (!step()) return false;
  }
  return false;
}

bool World::run_until(Nanos time) {
  run_while(time, [] { return false; });
  return !judge_.failed();
}

// Paths that an operator took away come back as soon as they can. While the server stands still, a client may
// believe in a path that it is about to lose.
bool World::all_connected() {
  if (!server_.up) return false;
  bool all = server_.paused_until <= now();
  for (const auto& client : clients_) {
    if (!client->up) return false;
    if (client->paused_until > now()) {
      all = false;
      continue;
    }
    if (!client->missing.empty() && !scenario_.removes_for_good) add_missing(*client);
    // One that is still on its way out is refused until it is gone.
    if (!client->missing.empty() && (scenario_.removes_all || !scenario_.removes_for_good)) all = false;
    std::uint32_t connected = 0;
    const auto paths = client->driver->session().paths();
    for (unsigned path = 0; path < paths.size(); ++path) {
      if (leads_astray(*client, path)) {
        // The operator sees the mistake when all other paths are refused, or in the end.
        const PathState state = paths[path].state;
        if (state == PathState::absent || (!healed_ && state != PathState::connected)) continue;
        client->promises->asked_to_end(path, now(*client));
        client->driver->session().remove_path(*client->fabric, now(*client), path);
        all = false;
        continue;
      }
      if (paths[path].state == PathState::connected) {
        if (is_dead(*client, path)) all = false;  // it is found out in time
        ++connected;
      }
      if (paths[path].state == PathState::closed)
        client->driver->session().reconnect_path(*client->fabric, now(*client), path);
    }
    all = all && connected == living_paths(*client);
  }
  return all;
}

bool World::nothing_under_way() {
  return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
    return client->under_way == 0 && client->left == 0 && client->wanted.empty() &&
           client->disk_steps.empty();
  });
}

std::string World::unfinished() {
  std::string text = "bounds: " + liveness_bound(scenario_).describe() + "\n";
  for (const auto& client : clients_) {
    text += "  client " + std::to_string(client->id) + ": ";
    if (!client->up) {
      text += "down\n";
      continue;
    }
    text += std::to_string(client->under_way) + " requests under way, paths";
    for (const PathStatus& path : client->driver->session().paths())
      text += std::string(" ") + to_string(path.state) + "(" + to_string(path.reason) + ", attempt " +
              std::to_string(path.attempt) + ", " + std::to_string(path.inflight) + " in flight)";
    if (disks_ != nullptr) text += client->driver->disks()->describe();
    text += "\n";
  }
  text +=
      std::string("  server: ") +
      (server_.up ? std::to_string(server_.driver->transport().session_count()) + " sessions, " : "down, ") +
      std::to_string(in_storage()) + " requests in storage";
  return text;
}

void World::heal() {
  next_operation_ = next_recovery_ = kNever;
  kill_links();
  kill_addresses(true);
  world_faults_.clear();
  faults_.stop_and_heal(network_, choice_, world_faults_);
  for (const WorldFault& fault : world_faults_) carry_out(fault);
  restart_all();
  healed_ = true;
  settle_limits();
  if (disks_ != nullptr) disks_->calm();
  stranger_.until = now();
  for (const auto& client : clients_) client->left = std::min(client->left, scenario_.workload.window);
}

// Requests of the script that wait for a buffer of their application.
std::size_t World::backlog() const {
  std::size_t count = 0;
  for (const auto& client : clients_) count += client->wanted.size() + client->disk_steps.size();
  return count;
}

// A script may ask for more requests than its applications have buffers. Then the time that they take all
// together has no bound that is known before, but the next one has to begin within the time of one request.
bool World::work_off_backlog(Nanos each) {
  for (std::size_t left = backlog(); left != 0; left = backlog()) {
    const Nanos since = now();
    if (run_while(since + each, [this, left] { return backlog() < left; })) continue;
    stalled("no request of the " + std::to_string(left) + " that wait begins within " +
            to_seconds(now() - since));
    return false;
  }
  return true;
}

bool World::exhausted(const ClientNode& client) const {
  const std::uint32_t depth = client.driver->session().depth();
  return depth != 0 && client.driver->session().stats().permits_given_up == depth;
}

// Whether only an operator can give the client permits again, by removing this path: it is dead, and the
// server cannot be asked.
bool World::keeps_permits(const ClientNode& client, unsigned path) const {
  if (scenario_.can_fence() || !is_dead(client, path) || !exhausted(client)) return false;
  const PathState state = client.driver->session().paths()[path].state;
  // One that is draining has connections that end first, whoever removes it.
  return state != PathState::absent && state != PathState::closing && state != PathState::draining;
}

bool World::remove_path_that_keeps_permits() {
  for (const auto& client : clients_) {
    for (unsigned path = 0; path < client->driver->session().paths().size(); ++path) {
      if (!keeps_permits(*client, path)) continue;
      client->missing.push_back(client->address_of[path]);
      client->driver->session().remove_path(*client->fabric, now(*client), path);
      return true;
    }
  }
  return false;
}

bool World::requests_end(Nanos each) {
  Nanos until = now() + each;
  bool removed = false;
  const auto over = [&] {
    removed = remove_path_that_keeps_permits();
    return removed || nothing_under_way();
  };
  while (run_while(until, over)) {
    if (!removed) return true;
    until = now() + each;
  }
  return false;
}

void World::liveness() {
  const LivenessBound bound = liveness_bound(scenario_);
  Nanos from = std::max(now(), faults_.quiet_since());
  from = std::max(from, server_.paused_until);
  for (const auto& client : clients_) from = std::max(from, client->paused_until);
  if (!run_while(from + bound.paths(), [this] { return all_connected(); }))
    return stalled("not every path is connected " + to_seconds(now() - from) + " after the last fault");
  if (backlog() != 0) {
    if (!work_off_backlog(bound.requests())) return;
    from = now();
  }
  if (!requests_end(from + bound.requests() - now()))
    return stalled("not every request is over " + to_seconds(now() - from) + " after the last fault");
  if (disks_ != nullptr && !run_while(now() + bound.requests(), [this] { return devices_open(); }))
    return stalled("not every device that is mapped is open");
  // Requests may have kept a path's news back; all is well now and stays so.
  if (!run_while(now() + bound.paths(), [this] { return all_connected(); }))
    stalled("a path was lost without any fault");
}

// Fresh requests after everything is well: each must succeed unless storage says otherwise.
void World::probe() {
  constexpr std::uint32_t kMost = 16;
  note(Journal::Kind::phase, 0, 3);
  for (const auto& client : clients_) {
    client->left = std::min<std::uint32_t>(2 * client->driver->session().depth(), kMost);
    client->probing = true;
    client->next_submit = now();
  }
  const LivenessBound bound = liveness_bound(scenario_);
  const Nanos gaps = 2 * kMost * scenario_.workload.gap;  // before each of them
  if (!run_while(now() + 2 * bound.request + gaps, [this] { return nothing_under_way(); }))
    stalled("requests do not complete although every path is connected");
}

void World::check_books() {
  disconnect_dead();
  const auto sessions = static_cast<std::int64_t>(scenario_.clients);
  const auto connections = [&](const ClientNode& client) {
    return std::int64_t{living_paths(client)} * scenario_.client.con_num;
  };
  const bool fresh_keys = fitted(scenario_.server, *server_.sim).always_invalidate;
  const std::int64_t keys = fresh_keys ? scenario_.server.queue_depth : 1;
  Holdings server{0, sessions, 0};
  for (const auto& client : clients_) {
    server.connections += connections(*client);
    server.remote_keys += std::int64_t{living_paths(*client)} * keys;
  }
  const auto expected = [&](const ClientNode& client) {
    const bool own = client.region != kNoRegion;
    const std::int64_t remote_keys = own && client.fabric->holdings().remote_keys == 2 ? 2 : 1;
    return Holdings{connections(client), own ? 3 : 2, remote_keys};
  };
  const auto balanced = [&] {
    // Half-open sessions of crashed clients can hold just what a path that is being replaced lacks.
    bool all = server_.fabric->holdings() == server && in_storage() == 0 &&
               server_.driver->transport().session_count() == scenario_.clients;
    // A block client may still be opening its device again.
    for (const auto& client : clients_)
      all =
          all && client->driver->session().inflight() == 0 && client->fabric->holdings() == expected(*client);
    return all;
  };
  run_while(now() + liveness_bound(scenario_).stale, balanced);
  if (judge_.failed()) return;
  check_holdings(judge_, now(), "server", server_.fabric->holdings(), server);
  check_balance(judge_, now(), "requests in storage", static_cast<std::int64_t>(in_storage()), 0);
  check_balance(judge_, now(), "sessions of the server", server_.driver->transport().session_count(),
                scenario_.clients);
  for (const auto& client : clients_) {
    const std::string who = "client " + std::to_string(client->id);
    check_holdings(judge_, now(), who, client->fabric->holdings(), expected(*client));
    check_balance(judge_, now(), who + ": requests accepted", client->driver->session().inflight(), 0);
    for (const PathStatus& path : client->driver->session().paths())
      check_balance(judge_, now(), who + ": requests in flight on a path", path.inflight, 0);
  }
  check_balance(judge_, now(), "requests without an answer", once_.open(), 0);
}

void World::close() {
  note(Journal::Kind::phase, 0, 4);
  closing_ = true;
  const LivenessBound bound = liveness_bound(scenario_);
  for (const auto& client : clients_) begin_close(*client);
  const auto closed = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->driver->closed(); });
  };
  if (!run_while(now() + bound.paths(), closed)) return stalled("a client does not close");
  for (const auto& client : clients_) let_go(*client);
  const auto empty = [this] { return server_.driver->transport().session_count() == 0; };
  if (!run_while(now() + bound.stale + bound.detect, empty))
    return stalled("the server keeps sessions of closed clients");
  begin_shutdown();
  if (!run_while(now() + bound.stale, [this] { return server_.driver->closed(); }))
    return stalled("the server does not close");
  check_holdings(judge_, now(), "closed server", server_.fabric->holdings(), Holdings{});
  if (disks_ != nullptr) check_closed_disks();
}

// Plays the script. False when a step never came or a rule was broken.
bool World::follow_script() {
  if (!run_while(now() + scenario_.safety, [this] { return script_at_ == scenario_.script.size(); })) {
    if (judge_.failed()) return false;
    script_stuck_ = true;
    stalled("step " + std::to_string(script_at_ + 1) + " of the scenario never came: " +
            to_text(scenario_.script[std::min(script_at_, scenario_.script.size() - 1)]));
    return false;
  }
  return true;
}

void World::play() {
  if (scenario_.play.run) return scenario_.play.run(*this);
  start_server();
  for (std::uint32_t index = 0; index < clients_.size(); ++index) start_client(index);
  if (scenario_.dead_links.from_start) kill_links();
  kill_addresses(false);
  if (scenario_.dead_links.others_late) cut_living();
  const LivenessBound bound = liveness_bound(scenario_);
  script_on_ = scenario_.faults_from_start;
  if (!scenario_.faults_from_start && !connects_in_time()) return;
  if (!scenario_.faults_from_start && !run_while(bound.paths(), [this] { return all_connected(); }))
    return stalled("not every path connects on a network without faults");
  note(Journal::Kind::phase, 0, 1);
  faults_.arm(network_, choice_);
  if (scenario_.admin_gap != kNever) next_operation_ = now() + scenario_.admin_gap;
  if (scenario_.recover_gap != kNever) next_recovery_ = now() + scenario_.recover_gap;
  if (scenario_.close_gap != kNever) next_closing_ = now() + scenario_.close_gap;
  script_on_ = true;
  if (!scenario_.faults_from_start) script_since_ = now();
  if (scenario_.directed ? !follow_script() : !run_until(now() + scenario_.safety)) return;
  if (!finish_closings()) return;
  note(Journal::Kind::phase, 0, 2);
  heal();
  liveness();
  if (judge_.failed()) return;
  probe();
  if (judge_.failed()) return;
  check_books();
  if (judge_.failed()) return;
  close();
}

}  // namespace rtrs::sim
