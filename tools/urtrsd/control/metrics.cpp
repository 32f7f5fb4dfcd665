#include "tools/urtrsd/control/metrics.hpp"

#include <array>
#include <numeric>

#include "tools/lib/control/metrics/families.hpp"

namespace rtrs::daemon {

using metrics::Families;
using metrics::Labels;

namespace {

void add_paths(Families& to, const attributes::ServerModel& model) {
  for (const ServerSessionStatus& session : model.sessions) {
    for (const ServerPathStatus& path : session.paths) {
      const attributes::PathEnds ends = attributes::path_ends(path.peer);
      const Labels labels{{"session", session.name},
                          {"path", ends.source + "@" + ends.destination},
                          {"index", std::to_string(path.path)}};
      to.gauge("urtrs_path_up", "1 while the path is connected", path.state == PathState::connected, labels);
      to.gauge("urtrs_path_inflight", "requests that are not answered yet", path.in_service, labels);
      to.counter("urtrs_path_reads_total", "requests to read since the path was connected",
                 path.traffic.reads(), labels);
      to.counter("urtrs_path_read_bytes_total", "their bytes, with the user headers",
                 path.traffic.read_bytes(), labels);
      to.counter("urtrs_path_writes_total", "requests to write since the path was connected",
                 path.traffic.writes(), labels);
      to.counter("urtrs_path_write_bytes_total", "their bytes, with the user headers",
                 path.traffic.write_bytes(), labels);
    }
  }
}

void add_service_times(Families& to, const attributes::ServerModel& model) {
  for (const ServerSessionStatus& session : model.sessions) {
    for (const ServerPathStatus& path : session.paths) {
      if (path.times == nullptr) continue;
      const attributes::PathEnds ends = attributes::path_ends(path.peer);
      for (const Direction direction : {Direction::read, Direction::write})
        to.histogram("urtrs_path_service_seconds", "from the arrival of a request to its answer",
                     path.times->of(direction),
                     {{"session", session.name},
                      {"path", ends.source + "@" + ends.destination},
                      {"index", std::to_string(path.path)},
                      {"direction", direction == Direction::read ? "read" : "write"}});
    }
  }
}

void add_devices(Families& to, const attributes::ServerModel& model) {
  for (const attributes::OpenDevice& device : model.devices)
    for (const attributes::OpenDevice::Use& use : device.uses)
      to.gauge("urtrs_device_size_bytes", "size of a device that a session has open",
               static_cast<double>(use.size_bytes),
               {{"session", use.session},
                {"mapping_path", use.mapping_path},
                {"device", device.backing},
                {"access_mode", to_string(use.mode)}});
}

// Adds a time series for every reason, even if its count is 0: increase() could not see the first event of a
// series that begins with it.
void add_by_reason(Families& to, const char* name, const char* help,
                   const std::array<std::uint64_t, kReasonCount>& counts) {
  for (std::size_t i = 1; i < counts.size(); ++i)
    to.counter(name, help, counts[i], {{"reason", to_string(static_cast<Reason>(i))}});
}

void add_stats(Families& to, const ServerStats& transport, const BlockServerStats& block) {
  to.counter("urtrs_requests_total", "requests that arrived", transport.requests);
  to.counter("urtrs_responses_total", "answers sent", transport.responses);
  to.counter("urtrs_error_responses_total", "answers with an errno", transport.error_responses);
  to.counter("urtrs_sessions_opened_total", "sessions whose first path came up", transport.sessions_opened);
  to.counter("urtrs_paths_connected_total", "paths that came up", transport.paths_connected);
  add_by_reason(to, "urtrs_paths_lost_total", "paths that were up and ended", transport.lost_by);
  add_by_reason(to, "urtrs_connects_rejected_total", "connect requests refused", transport.rejected_by);
  to.counter("urtrs_sessions_crowded_out_total", "half-open sessions closed for newer ones",
             transport.crowded_out);
  to.counter("urtrs_refused_messages_total", "messages that broke the protocol", transport.refused_messages);
  to.counter("urtrs_gated_requests_total", "requests that waited for an older user of their chunk",
             transport.gated);
  to.counter("urtrs_fences_total", "fences answered", transport.fences);
  to.counter("urtrs_dropped_responses_total", "responses dropped because their path was closed",
             transport.dropped_responses);
  to.counter("urtrs_storage_operations_total", "operations of storage begun", block.storage_operations);
  to.counter("urtrs_sync_failures_total", "syncs of storage that failed", block.sync_failures);
}

// Adds the counts of clients rejected before they had a session, and of connections closed for protocol
// violations.
void add_tcp(Families& to, const tcp::TcpStats& stats) {
  const auto refused = [&to](const char* why, std::uint64_t count) {
    to.counter("urtrs_tcp_refused_total", "clients that were closed before they were connected", count,
               {{"why", why}});
  };
  refused("no_request_in_time", stats.closed_handshakes);
  refused("no_descriptor", stats.dropped_clients);
  refused("limit", stats.refused);
  refused("tls", stats.tls_refused);
  to.counter("urtrs_tcp_faults_total", "connections ended because the peer broke the rules of the stream",
             std::accumulate(stats.faults.begin(), stats.faults.end(), std::uint64_t{0}));
  to.counter("urtrs_tcp_terminated_total", "connections that the peer ended by a Terminate message",
             stats.terminated);
  to.counter("urtrs_tcp_slow_readers_total", "connections ended because the peer stopped receiving",
             stats.slow_readers);
  to.counter("urtrs_tcp_large_packets_lost_total",
             "connections of which the network delivered only small packets", stats.large_packets_lost);
  to.counter("urtrs_tls_connections_total", "TLS handshakes that were finished", stats.tls_connections);
  to.counter("urtrs_tls_resumed_total", "of these, with a ticket of an earlier one", stats.tls_resumed);
  to.counter("urtrs_tls_in_kernel_total", "of these, where the kernel encrypts what is sent",
             stats.tls_in_kernel);
}

}  // namespace

std::string metrics_text(const MetricsInput& input) {
  Families all;
  all.gauge("urtrs_build_info", "version and fabric", 1,
            {{"version", input.version}, {"fabric", input.fabric}});
  all.gauge("urtrs_uptime_seconds", "since the start", input.uptime_s);
  all.gauge("urtrs_sessions", "sessions now, half-open ones too",
            static_cast<double>(input.model.sessions.size()));
  add_paths(all, input.model);
  add_service_times(all, input.model);
  add_devices(all, input.model);
  add_stats(all, input.transport, input.block);
  if (input.tcp) add_tcp(all, *input.tcp);
  for (const tls::Expiry& one : input.expiries)
    all.gauge("urtrs_tls_expiry_timestamp_seconds", "when the content of a file expires, seconds since 1970",
              static_cast<double>(one.time), {{"file", one.file}, {"what", one.what}});
  return all.text();
}

}  // namespace rtrs::daemon
