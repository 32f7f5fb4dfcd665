#include "tools/lib/choice_log/scenario_json.hpp"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "core/base/reflect.hpp"
#include "sim/blocks/block_scenarios.hpp"

namespace rtrs::tools {

namespace {

using Json = nlohmann::ordered_json;
using sim::Scenario;

// Visits every member that is stored, with its name. Works for const and mutable scenarios.
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
  visit("dead_paths_1", s.dead_links.paths[0]);
  visit("dead_paths_2", s.dead_links.paths[1]);
  visit("dead_ways", s.dead_links.ways);
  visit("dead_from_start", s.dead_links.from_start);
  visit("dead_others_late", s.dead_links.others_late);
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
}
template <class S, class Visit>
void visit_storage(S& s, Visit&& visit) {
  visit("sectors", s.sectors);
  visit("latency", s.latency);
  visit("slow_rate", s.slow_rate);
  visit("slow_latency", s.slow_latency);
  visit("error_rate", s.error_rate);
}
// Members of members are joined by a dot.
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

class Store {
 public:
  explicit Store(Json& json) : json_(json) {}
  template <class T>
  void operator()(const std::string& name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json_[name] = static_cast<std::underlying_type_t<T>>(value);
    } else {
      json_[name] = value;
    }
  }

 private:
  Json& json_;
};

class Load {
 public:
  Load(const Json& json, std::string& why) : json_(json), why_(why) {}
  template <class T>
  void operator()(const std::string& name, T& value) {
    if (!json_.contains(name)) return;
    const Json& from = json_[name];
    if constexpr (std::is_same_v<T, bool>) {
      if (!from.is_boolean()) return wrong(name);
      value = from.get<bool>();
    } else if constexpr (std::is_enum_v<T>) {
      if (!from.is_number_unsigned() || from.get<std::uint64_t>() > 2) return wrong(name);
      value = static_cast<T>(from.get<std::uint64_t>());
    } else {
      const bool fits = from.is_number_unsigned()  ? std::in_range<T>(from.get<std::uint64_t>())
                        : from.is_number_integer() ? std::in_range<T>(from.get<std::int64_t>())
                                                   : false;
      if (!fits) return wrong(name);
      value = from.get<T>();
    }
  }

 private:
  void wrong(const std::string& name) {
    if (why_.empty()) why_ = "\"" + name + "\" of the scenario has a value that it cannot have";
  }
  const Json& json_;
  std::string& why_;
};

// What the world is made from without asking.
const char* problem_of(const Scenario& s) {
  if (s.paths < 1 || s.paths > kMaxPaths) return "\"paths\" of the scenario is out of range";
  if (s.clients < 1 || s.clients > 2) return "\"clients\" of the scenario must be 1 or 2";
  for (const std::uint32_t dead : s.dead_links.paths)
    if (dead >= (1U << s.paths) - 1) return "of the paths of a client in the scenario one has to live";
  if (s.dead_links.ways < 1 || s.dead_links.ways > 3) return "\"dead_ways\" of the scenario is 1, 2 or 3";
  if (s.liar != sim::kNone && s.liar > s.clients)
    return "\"liar\" of the scenario is 0 for the server, or a client";
  for (const sim::ClockRate& clock : {s.client_clock, s.server_clock})
    if (clock.num < 1 || clock.den < 1 || clock.num > 4 * clock.den || clock.den > 4 * clock.num)
      return "a clock of the scenario goes from a quarter of the speed of time to four times of it";
  if (s.client.con_num < 2 || s.client.con_num > kMaxCons)
    return "\"con_num\" of the scenario is out of range";
  if (s.client.max_depth < 1 || s.client.max_depth > kMaxPermits || s.server.queue_depth < 1 ||
      s.server.queue_depth > kMaxPermits)
    return "a depth of the scenario is out of range";
  if (s.client.send_depth < 8 || s.server.send_depth < 8) return "\"send_depth\" of the scenario is below 8";
  if (s.server.chunk_size < 8192 || (s.server.chunk_size & (s.server.chunk_size - 1)) != 0)
    return "\"chunk_size\" of the scenario must be a power of two from 8192 on";
  if (s.storage.sectors < 8 || s.storage.sectors > 1'000'000)
    return "\"sectors\" of the scenario is out of range";
  if (s.workload.disks > 8) return "a client of the scenario has at most 8 \"disks\"";
  if (s.workload.max_queued < 256 || s.workload.max_requests < 1 || s.workload.server_actions < 1)
    return "\"max_queued\" of the scenario is 256 or more, \"max_requests\" and \"server_actions\" 1 or more";
  if (s.workload.window < 1 || s.workload.window > 10'000)
    return "\"window\" of the scenario is out of range";
  return nullptr;
}

}  // namespace

Json scenario_json(const Scenario& s) {
  Json json;
  visit_plain(s, Store(json));
  Json network;
  network["weak"] = !s.network.capabilities.imm_consumes_receive;
  visit_network(s.network, Store(network));
  Json client;
  visit_reflected(s.client, "", Store(client));
  Json server;
  visit_reflected(s.server, "", Store(server));
  Json storage;
  visit_storage(s.storage, Store(storage));
  Json workload;
  visit_workload(s.workload, Store(workload));
  json["network"] = network;
  json["client"] = client;
  json["server"] = server;
  json["storage"] = storage;
  json["workload"] = workload;
  if (s.play.run != nullptr) json["play"] = s.play.id;
  Json script = Json::array();
  for (const sim::Step& step : s.script) script.push_back(sim::to_text(step));
  json["script"] = script;
  return json;
}

tl::expected<Scenario, std::string> parse_scenario(const Json& json) {
  const auto wrong = [](std::string why) { return tl::make_unexpected(std::move(why)); };
  if (!json.is_object()) return wrong("\"scenario\" must be an object");
  Scenario s;
  s.directed = true;
  std::string why;
  visit_plain(s, Load(json, why));
  const Json empty = Json::object();
  const auto part = [&](const char* name) -> const Json& {
    return json.contains(name) && json[name].is_object() ? json[name] : empty;
  };
  bool weak = false;
  Load(part("network"), why)("weak", weak);
  s.network.capabilities = weak ? sim::weak_capabilities() : sim::default_capabilities();
  visit_network(s.network, Load(part("network"), why));
  visit_reflected(s.client, "", Load(part("client"), why));
  visit_reflected(s.server, "", Load(part("server"), why));
  visit_storage(s.storage, Load(part("storage"), why));
  visit_workload(s.workload, Load(part("workload"), why));
  if (!why.empty()) return wrong(why);
  if (const char* problem = problem_of(s)) return wrong(problem);
  if (json.contains("play")) {
    const auto* play =
        json["play"].is_string() ? sim::find_block_scenario(json["play"].get<std::string>()) : nullptr;
    if (play == nullptr) return wrong("\"play\" must be the id of a scenario of block devices");
    sim::drive(s, *play);
  }
  if (json.contains("script")) {
    if (!json["script"].is_array()) return wrong("\"script\" must be a list of lines");
    for (const Json& line : json["script"]) {
      const auto step = line.is_string() ? sim::parse_step(line.get<std::string>(), why) : std::nullopt;
      if (!step) return wrong("line " + std::to_string(s.script.size() + 1) + " of the script: " + why);
      s.script.push_back(*step);
    }
  }
  return s;
}

}  // namespace rtrs::tools
