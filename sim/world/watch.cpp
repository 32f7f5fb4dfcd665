#include "sim/world/watch.hpp"

#include <algorithm>

#include "sim/oracles/incarnation.hpp"

namespace rtrs::sim {

namespace {

std::string name_of(const Node& node) {
  return node.id == 0 ? "the server" : "client " + std::to_string(node.id);
}

}  // namespace

void Watch::check_attempt(const Node& node, std::size_t path, bool same_attempt) {
  // A process that violates the protocol may send a connect request with other numbers than those of its
  // connection.
  if (scenario_.liar != kNone && !scenario_.directed) return;
  std::vector<PeerEnd> ends;
  for (const ConKey& key : node.fabric->live()) {
    if (key.place() != path) continue;
    PeerEnd end;
    end.own_con = key.con;
    const QpId own = network_.find_qp(node.id, key);
    // A connection whose accept failed has no peer.
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

void Watch::check_invariants(const Node& node, const char* broken) {
  if (broken == nullptr) broken = node.recorder->broken_invariant();
  if (broken == nullptr) return;
  judge_.fail(Oracle::legality, now(),
              (node.id == 0 ? "server" : "client " + std::to_string(node.id)) + ": not true that " + broken);
}

void Watch::check_waits(ClientNode& client, std::uint32_t index, Nanos slack) {
  const Nanos limit = scenario_.client.queue_timeout;
  if (!cluster_.out_of_permits(client)) {
    client.without_permits_since = kNever;
  } else if (client.without_permits_since == kNever) {
    client.without_permits_since = now(client);
    judge_.mark(Mark::permits_exhausted);
  }
  const bool without_permits = client.without_permits_since != kNever;
  if (limit == kNever || (client.driver->session().link_up() && !without_permits) || books_.open_ios.empty())
    return;
  for (const std::uint32_t io : books_.open_ios) {
    if (books_.book[io].client != index) continue;
    const Nanos submitted = books_.book[io].submitted;
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

// Judges deliveries only without the probe extension. With the extension, the server process itself responds
// to probes, and it may be paused.
ClientPromises::Before Watch::before_poll(const ClientNode& client) const {
  ClientPromises::Before before{network_.event_count(client.id), client.without_permits_since, {}};
  if (scenario_.can_probe() || !scenario_.client.probe_deliveries) return before;
  before.delivered.set();
  for (const ConKey& key : client.fabric->live()) {
    const QpId qp = network_.find_qp(client.id, key);
    if (qp == kNone || !network_.all_delivered(qp)) before.delivered.reset(key.path);
  }
  return before;
}

std::array<Nanos, kMaxPaths> Watch::waiting_since(const ClientNode& client) const {
  std::array<Nanos, kMaxPaths> since;
  since.fill(kNever);
  const auto paths = client.driver->session().paths();
  for (std::size_t path = 0; path < paths.size(); ++path)
    if (paths[path].state == PathState::waiting) since[path] = paths[path].since;
  return since;
}

bool Watch::any_path_changing() const {
  for (const auto& client : clients_) {
    if (!client->up) continue;
    for (const PathStatus& path : client->driver->session().paths())
      if (path.state == PathState::connecting || path.state == PathState::draining) return true;
  }
  return false;
}

// A node with events is due at once, so that Timeline::next_time() lets no time pass before its poll.
bool Watch::has_nothing_to_do(const Node& node) const {
  return node.up && node.paused_until <= now() && node.deadline > now(node) &&
         node.clock.true_time(node.deadline) > now();
}

void Watch::watch_timer(Node& node, Nanos timer) {
  constexpr unsigned kMaxPolls = 1000;
  node.overdue = timer <= now(node) ? node.overdue + 1 : 0;
  if (node.overdue > kMaxPolls)
    cluster_.stalled(name_of(node) + " has a timer that stays due, polled " + std::to_string(kMaxPolls) +
                     " times");
}

// Polls nodes that have nothing to do, as of Timeline::next_time(). If such a poll does something,
// next_deadline() has left out a timer, which would otherwise run only when another event causes a poll.
void Watch::check_idle(Nanos until) {
  if (until <= now() + 1) return;
  network_.run_until(until - 1, choice_);
  const auto judge = [this](const Node& node, std::uint64_t acts_before, std::size_t results) {
    if (results == 0 && node.fabric->acts() == acts_before) return;
    judge_.fail(Oracle::liveness, now(), name_of(node) + " acted before next_deadline() without any event");
  };
  if (has_nothing_to_do(server_)) {
    const std::uint64_t acts = server_.fabric->acts();
    judge(server_, acts, server_.driver->poll(*server_.fabric, now(server_)));
  }
  for (const auto& client : clients_) {
    if (!has_nothing_to_do(*client)) continue;
    const std::uint64_t acts = client->fabric->acts();
    std::array<IoCompletion, 1> done;
    judge(*client, acts, client->driver->poll(*client->fabric, now(*client), done));
  }
}

// Number of undelivered messages that a client probe covers: the client's messages, and between peers
// that support the probe also the responses.
std::uint32_t Watch::undelivered_messages(const ClientNode& client, QpId qp) const {
  const QpInfo info = network_.qp_info(qp);
  if (!client.up || !client.hearts->is_connected(info.key.place())) return 0;
  if (scenario_.can_probe())
    return network_.undelivered_messages(qp) + network_.undelivered_messages(info.peer);
  return scenario_.client.probe_deliveries ? network_.undelivered_messages(qp) : 0;
}

// A hung connection must be detected within the dead-peer time: by the client if both peers support the
// probe, otherwise by the side that posted the undelivered message, if that side probes deliveries.
void Watch::check_hung() {
  std::erase_if(undelivered_, [this](const Undelivered& one) {
    const auto& hung = network_.hung();
    return std::find(hung.begin(), hung.end(), one.qp) == hung.end();
  });
  for (const QpId qp : network_.hung()) {
    const QpInfo info = network_.qp_info(qp);
    if (info.node > clients_.size()) continue;  // connection of the attacker
    const ClientNode& client = *clients_[info.node - 1];
    auto at = std::find_if(undelivered_.begin(), undelivered_.end(),
                           [qp](const Undelivered& one) { return one.qp == qp; });
    // Messages in flight when the hang began may belong to a fence that has completed, and do not count.
    if (at == undelivered_.end())
      at = undelivered_.insert(at, Undelivered{qp, kNever, kNever, kNever, undelivered_messages(client, qp)});
    const bool connected = client.up && client.hearts->is_connected(info.key.place());
    const bool asks = connected && network_.has_undelivered(qp);
    const bool answers = network_.has_undelivered(info.peer);
    const bool probes = scenario_.can_probe();
    const bool by_client =
        probes ? connected && (asks || answers) : asks && scenario_.client.probe_deliveries;
    const bool by_server = !probes && server_.up && answers && scenario_.server.probe_deliveries;
    watch_fence(client, *at);
    at->by_client = by_client ? std::min(at->by_client, now()) : kNever;
    at->by_server = by_server ? std::min(at->by_server, now()) : kNever;
    if (by_client) client.hearts->withheld(info.key.place(), at->by_client, now());
    if (by_server) server_.hearts->withheld(info.key.place(), at->by_server, now());
  }
}

// A client that waits for the response to a fence probes the connection that carries the fence. Once a path
// of the client reconnects, the client waits no longer, and only messages posted later count.
void Watch::watch_fence(const ClientNode& client, Undelivered& one) {
  const std::uint32_t messages = undelivered_messages(client, one.qp);
  if (one.of_fence != kNever && client.last_connected > one.of_fence) {
    one.of_fence = kNever;
    one.fences_over = messages;
  }
  one.of_fence = messages > one.fences_over ? std::min(one.of_fence, now()) : kNever;
  if (one.of_fence == kNever) return;
  client.hearts->withheld(network_.qp_info(one.qp).key.place(), one.of_fence, now());
}

// Number of paths that connected in the client's current session at this server.
unsigned Watch::count_connected_paths(const ClientNode& client, bool wrong_server) const {
  const std::uint32_t index = client.id - 1;
  if (wrong_server) return cluster_.other_server->connected_paths("client" + std::to_string(index));
  unsigned paths = 0;
  for (std::size_t session = 0; session < server_.session_of.size(); ++session)
    if (server_.session_of[session] == index) paths += server_.came_up[session];
  return paths;
}

// Called when a path connects. All paths of a session must lead to one server. One exception: if the
// disconnect of an earlier attempt was lost or delayed, the path may join a session that this attempt left at
// the wrong server, because the protocol cannot distinguish the two servers.
void Watch::check_one_server(ClientNode& client, unsigned path) {
  const bool wrong_server = cluster_.leads_to_other_server(client, path);
  if (wrong_server) {
    judge_.mark(Mark::astray);
    // The wrong server cannot prove anything about requests that the right server still executes, so that
    // data may be wrong.
    for (const Oracle which :
         {Oracle::slot_exclusivity, Oracle::data_integrity, Oracle::history, Oracle::devices})
      judge_.excuse(which);
  }
  const auto paths = client.driver->session().paths();
  unsigned same_server = 0, another_server = 0;
  for (unsigned other = 0; other < paths.size(); ++other) {
    if (other == path || paths[other].state != PathState::connected) continue;
    ++(cluster_.leads_to_other_server(client, other) == wrong_server ? same_server : another_server);
  }
  if (another_server == 0 || same_server != 0) return;
  // This path may have asked to join a session and nevertheless have created one: no other path ever
  // connected in that session then.
  if (client.fabric->joins(path) && count_connected_paths(client, wrong_server) != 1) {
    client.split_over_servers = true;
    judge_.mark(Mark::joined_astray);
  }
  if (client.split_over_servers) return;
  judge_.fail(Oracle::one_server, now(),
              "client " + std::to_string(client.id) + " created a session over path " + std::to_string(path) +
                  " and has " + std::to_string(another_server) + " paths to another server");
}

void Watch::failover_marks(ClientNode& client) {
  const ClientStats& stats = client.driver->session().stats();
  if (stats.refused_messages != 0 && !cluster_.has_misbehaving_end(client.id - 1))
    judge_.fail(Oracle::legality, now(), "the client refused a message of the server");
  if (stats.stale_responses != 0) judge_.mark(Mark::stale_response);
  if (stats.unproven_failures != 0) {
    judge_.mark(Mark::unproven_failure);
    if (scenario_.fenced && !scenario_.fence_off)
      judge_.fail(Oracle::history, now(),
                  "later requests do not wait for a write that failed and may still execute");
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

}  // namespace rtrs::sim
