// The scenario members by name, for readers and writers of choice logs and scenario files.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/reflect.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::sim {

// Each function calls `visit` with the name of a member and the member, for const and mutable scenarios.
template <class S, class Visit>
void visit_plain(S& s, Visit&& visit) {
  visit("paths", s.paths);
  visit("clients", s.clients);
  visit("interval", s.interval);
  visit("safety", s.safety);
  visit("faults_from_start", s.faults_from_start);
  visit("same_identity", s.same_identity);
  visit("client_clock_num", s.client_clock.num);
  visit("client_clock_den", s.client_clock.den);
  visit("server_clock_num", s.server_clock.num);
  visit("server_clock_den", s.server_clock.den);
  visit("fenced", s.fenced);
  visit("fence_off", s.fence_off);
  visit("liar", s.liar);
  visit("poll_batch", s.poll_batch);
  visit("server_changes", s.server_changes);
  visit("disks_late", s.disks_late);
  visit("submits_always", s.submits_always);
  visit("over_tcp", s.over_tcp);
  visit("other_server", s.other_server);
  visit("removes_all", s.removes_all);
  visit("removes_for_good", s.removes_for_good);
  visit("dead_paths_1", s.dead_links.paths[0]);
  visit("dead_paths_2", s.dead_links.paths[1]);
  visit("dead_paths_3", s.dead_links.paths[2]);
  visit("dead_paths_4", s.dead_links.paths[3]);
  visit("dead_ways", s.dead_links.ways);
  visit("dead_from_start", s.dead_links.from_start);
  visit("dead_others_late", s.dead_links.others_late);
  visit("keys", s.keys);
  visit("names_before", s.names.before);
  visit("names_after", s.names.after);
  visit("names_die", s.names.dies);
}
template <class N, class Visit>
void visit_network(N& n, Visit&& visit) {
  visit("latency", n.latency);
  visit("jitter", n.jitter);
  visit("retry_budget", n.retry_budget);
  visit("retry_spread", n.retry_spread);
  visit("retransmit", n.retransmit);
  visit("torn_hold", n.torn_hold);
  visit("ghost_hold", n.ghost_hold);
  visit("drain", n.drain);
  visit("slow_drain_hold", n.slow_drain_hold);
  visit("cm_latency", n.cm_latency);
  visit("cm_late_hold", n.cm_late_hold);
  visit("cm_timeout", n.cm_timeout);
  visit("cm_retries", n.cm_retries);
  visit("info_cut_hold", n.info_cut_hold);
  visit("rnr_budget", n.rnr_budget);
  visit("channel_spread", n.channel_spread);
  visit("channel_turns", n.channel_turns);
}
template <class W, class Visit>
void visit_workload(W& w, Visit&& visit) {
  visit("requests", w.requests);
  visit("window", w.window);
  visit("gap", w.gap);
  visit("burst_rate", w.burst_rate);
  visit("service_rate", w.service_rate);
  visit("write_percent", w.write_percent);
  visit("own_region", w.own_region);
  visit("block_device", w.block_device);
  visit("disks", w.disks);
  visit("disk_time", w.disk_time);
  visit("opening", w.opening);
  visit("own_disks", w.own_disks);
  visit("max_requests", w.max_requests);
  visit("max_queued", w.max_queued);
  visit("server_actions", w.server_actions);
  visit("one_export", w.one_export);
  visit("preflushes", w.preflushes);
  visit("replaces", w.replaces);
}
template <class S, class Visit>
void visit_storage(S& s, Visit&& visit) {
  visit("sectors", s.sectors);
  visit("latency", s.latency);
  visit("slow_rate", s.slow_rate);
  visit("slow_latency", s.slow_latency);
  visit("error_rate", s.error_rate);
}
// Names of nested members are joined by a dot.
template <class T, class Visit>
void visit_reflected(T& value, const std::string& prefix, Visit&& visit) {
  std::remove_const_t<T>::visit_fields(value, [&](const char* name, auto& field) {
    if constexpr (Reflected<std::remove_cvref_t<decltype(field)>>) {
      visit_reflected(field, prefix + name + ".", visit);
    } else {
      visit(prefix + name, field);
    }
  });
}

// Visits all options that a scenario file may set, with names such as "client.con_num". Excludes the script,
// and own_disks, which a line `disks` sets.
template <class S, class Visit>
void visit_all(S& s, Visit&& visit) {
  visit_plain(s, visit);
  const auto within = [&visit](const char* part) {
    return [&visit, part](const std::string& name, auto& value) {
      visit(std::string(part) + "." + name, value);
    };
  };
  visit_network(s.network, within("network"));
  visit_reflected(s.client, "", within("client"));
  visit_reflected(s.server, "", within("server"));
  visit_storage(s.storage, within("storage"));
  visit_workload(s.workload, [&](const std::string& name, auto& value) {
    if (name != "own_disks") within("workload")(name, value);
  });
}

// Names of the extensions in files and texts.
inline constexpr std::array<std::pair<std::string_view, wire::Extensions>, 5> kExtensionWords{{
    {"fence", wire::Extensions::fence},
    {"generation", wire::Extensions::generation},
    {"probe", wire::Extensions::probe},
    {"keys_stay", wire::Extensions::keys_stay},
    {"data_with_answer", wire::Extensions::data_with_answer},
}};
// Formats a set: names joined by '+', "none", or a number if a bit has no name.
std::string extensions_text(wire::Extensions);

// Returns why the scenario is invalid; nullptr if it is valid. `play` must be set before.
const char* problem_of(const Scenario&);
// Returns why the step is invalid in this world; empty if it is valid.
std::string problem_of(const Step&, const Scenario&);

}  // namespace rtrs::sim
