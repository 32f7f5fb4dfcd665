// Marks the rare situations of a run.
#include <algorithm>
#include <bit>

#include "sim/world/watch.hpp"

namespace rtrs::sim {

Watch::Watch(Cluster& cluster, Books& books) : Part(cluster), books_(books), keys_(cluster.judge) {
  mark_options();
}

void Watch::mark_options() {
  const Scenario& s = scenario_;
  const auto mark = [this](bool holds, Mark which) {
    if (holds) judge_.mark(which);
  };
  const std::uint32_t depth = std::min(s.server.queue_depth, s.client.max_depth);
  mark(depth == 1, Mark::depth_one);
  mark(s.server.always_invalidate, Mark::fresh_keys);
  mark(s.client.offer_invalidation, Mark::remote_invalidation);
  mark(s.client.offer_invalidation && s.keys_stay(), Mark::keys_left);
  mark(s.client.offer_invalidation && has(s.server.extensions, wire::Extensions::keys_stay) && !s.keys_stay(),
       Mark::keys_asked_back);
  const bool joins = has(s.client.extensions | s.server.extensions, wire::Extensions::data_with_answer);
  mark(s.data_with_answer(), Mark::data_joined);
  mark(joins && !s.data_with_answer(), Mark::data_apart);
  mark(s.clients >= 2, Mark::two_clients);
  mark(s.poll_batch != 0, Mark::few_events);
  mark(s.paths == 4, Mark::four_paths);
  mark(s.paths > kPathsInside, Mark::many_paths);
  mark(s.client.con_num > kConsPerStep, Mark::many_connections);
  mark(s.names.any(), Mark::several_addresses);
  mark(s.client_clock != s.server_clock, Mark::clocks_apart);
  mark(s.network.channel_spread != 0, Mark::channels_apart);
  mark(!s.network.capabilities.imm_consumes_receive, Mark::weak_network);
  mark(!std::has_single_bit(s.server.queue_depth), Mark::odd_depth);
  mark(depth == 64, Mark::deep);
  mark(s.workload.own_region, Mark::own_region);
  mark(!s.can_fence() && s.client.kernel_peer == UnfencedReplay::wait, Mark::kernel_wait);
  mark(!has(s.client.extensions & s.server.extensions, wire::Extensions::generation), Mark::no_generation);
  mark(s.client.policy == MultipathPolicy::min_latency, Mark::min_latency);
  mark(s.client.policy == MultipathPolicy::round_robin, Mark::round_robin);
  mark(s.storage.slow_latency > (s.server.heartbeat.missed_max + 2) * s.interval, Mark::slow_storage);
}

// Records the marks that depend on counters of the network and of the fabric that falsifies messages.
void Watch::counted_marks() {
  const NetworkStats& stats = network_.stats();
  const auto mark = [this](std::uint64_t count, Mark which) {
    if (count != 0) judge_.mark(which);
  };
  mark(stats.ghosts, Mark::ghost);
  mark(stats.torn, Mark::torn);
  mark(stats.rnr_waits, Mark::rnr);
  mark(stats.late_placements, Mark::late_placement);
  mark(stats.retry_exceeded, Mark::retry_exceeded);
  mark(stats.cm_lost, Mark::cm_lost);
  mark(stats.cm_late, Mark::cm_late);
  mark(stats.swallowed, Mark::swallowed);
  mark(cluster_.faults.struck(FaultClass::hang), Mark::hung);
  mark(cluster_.faults.struck(FaultClass::blackout), Mark::blackout);
  mark(cluster_.reconfigured ? 1 : 0, Mark::limits_changed);
  mark(stats.unplugged, Mark::unplugged);
  mark(stats.shortages, Mark::shortage);
  mark(stats.unresolved, Mark::unresolved);
  mark(stats.failed_accepts, Mark::failed_accept);
  mark(stats.short_posts, Mark::short_post);
  mark(stats.rnr_exceeded, Mark::rnr_exceeded);
  if (server_.lies) mark(server_.lies->changed_messages(), Mark::tampered);
  for (const auto& client : clients_)
    if (client->lies) mark(client->lies->changed_messages(), Mark::tampered);
  mark(cluster_.faults.struck(FaultClass::starve), Mark::starved);
  mark(cluster_.faults.struck(FaultClass::crash_orderly), Mark::orderly_crash);
  mark(cluster_.faults.struck(FaultClass::break_qp), Mark::single_connection);
}

// Called when a client path is lost or an attempt fails.
void Watch::client_reason(ClientNode& client, const PathChanged& path, bool was_connected) {
  if (cluster_.closing) return;
  client.loss_reasons[path.path] |= std::uint64_t{1} << static_cast<unsigned>(path.reason);
  if (was_connected) ++client.losses;
  if (!was_connected && path.state == PathState::draining) judge_.mark(Mark::lost_half_open);
  if (path.attempt >= 3) judge_.mark(Mark::third_attempt);
  switch (path.reason) {
    case Reason::heartbeat_lost: {
      judge_.mark(Mark::heartbeat_lost);
      const LinkId link = network_.link(client.id, path.path, server_.id, path.path);
      const auto silent = std::uint64_t{1} << static_cast<unsigned>(Reason::heartbeat_lost);
      if (link < server_.loss_reasons.size() && (server_.loss_reasons[link] & silent) != 0)
        judge_.mark(Mark::both_silent);
      return;
    }
    case Reason::rejected_busy:
      return judge_.mark(Mark::rejected_busy);
    case Reason::rejected:
      return judge_.mark(Mark::connect_rejected);
    case Reason::challenged:
      return judge_.mark(Mark::challenged);
    case Reason::connect_refused:
      return judge_.mark(Mark::path_refused);
    case Reason::connect_timeout:
      return judge_.mark(Mark::connect_timeout);
    case Reason::info_timeout:
      return judge_.mark(Mark::info_timeout);
    case Reason::connection_silent:
      return judge_.mark(Mark::connection_silent);
    case Reason::peer_closed:
      return judge_.mark(Mark::peer_goodbye);
    case Reason::transport_error:
      return judge_.mark(Mark::client_transport_error);
    default:
      return;
  }
}

void Watch::reason_marks(Reason at_server) {
  switch (at_server) {
    case Reason::handshake_timeout:
      return judge_.mark(Mark::zombie_reaped);
    case Reason::superseded:
      return judge_.mark(Mark::superseded);
    case Reason::name_refused:
      return judge_.mark(Mark::name_refused);
    case Reason::fenced:
      return judge_.mark(Mark::fenced_path);
    case Reason::peer_closed:
      return judge_.mark(Mark::server_goodbye);
    case Reason::transport_error:
      return judge_.mark(Mark::server_transport_error);
    case Reason::heartbeat_lost:
      return judge_.mark(Mark::server_silence);
    default:
      return;
  }
}

void Watch::server_reason(std::size_t number, Reason reason, Nanos at) {
  const LinkId link = cluster_.server_link(number);
  const std::uint32_t client = link == kNone ? kNone : network_.link_info(link).client - 1;
  if (link != kNone) {
    if (server_.loss_reasons.size() <= link) server_.loss_reasons.resize(link + 1);
    server_.loss_reasons[link] |= std::uint64_t{1} << static_cast<unsigned>(reason);
  }
  if (!cluster_.closing) reason_marks(reason);
  // If the path has no connection left, its client is unknown.
  const bool by_liar = link == kNone ? scenario_.liar != kNone : cluster_.has_misbehaving_end(client);
  if (reason == Reason::protocol_violation && !by_liar && network_.stats().corrupted == 0)
    judge_.fail(Oracle::legality, at,
                "server: path " + std::to_string(number % kMaxPaths) + " of session " +
                    std::to_string(number / kMaxPaths) + " ended: " + to_string(reason));
}

void Watch::server_marks() {
  const ServerStats& stats = server_.driver->transport().stats();
  if (stats.refused_messages != 0 && cluster_.honest())
    judge_.fail(Oracle::legality, now(), "the server refused a message of a client");
  if (stats.gated != 0) judge_.mark(Mark::gate_used);
  if (stats.fences != 0) judge_.mark(Mark::fence_answered);
  if (stats.dropped_responses != 0) judge_.mark(Mark::response_dropped);
  if (stats.rejected != 0) judge_.mark(Mark::server_rejected);
}

// Marks a new request that overlaps one in flight.
void Watch::load_marks(const BookedIo& fresh, std::uint32_t io) {
  for (const std::uint32_t other : books_.open_ios) {
    const BookedIo& old = books_.book[other];
    const bool overlap =
        other != io && old.lba < fresh.lba + fresh.sectors && fresh.lba < old.lba + old.sectors;
    if (!overlap) continue;
    const bool writes[2] = {old.direction == Direction::write, fresh.direction == Direction::write};
    if (writes[0] && writes[1]) judge_.mark(Mark::overlapping_writes);
    if (writes[0] != writes[1]) judge_.mark(Mark::read_beside_write);
  }
}

// Marks a completed request that storage received more than once.
void Watch::resent_marks(const BookedIo& io) {
  if (io.deliveries < 2 || !io.good) return;
  judge_.mark(io.direction == Direction::write ? Mark::write_moved : Mark::read_moved);
}

void Watch::note_pairs() {
  const std::span<const PathState> at_server = cluster_.server_states();
  for (const auto& client : clients_) {
    if (!client->up) continue;
    const auto paths = client->driver->session().paths();
    for (std::uint32_t path = 0; path < paths.size() && path < scenario_.paths; ++path) {
      const LinkId link = network_.link(client->id, path, server_.id, path);
      pairs_[static_cast<std::size_t>(paths[path].state)]
            [static_cast<std::size_t>(link < at_server.size() ? at_server[link] : PathState::absent)] = true;
    }
  }
}

}  // namespace rtrs::sim
