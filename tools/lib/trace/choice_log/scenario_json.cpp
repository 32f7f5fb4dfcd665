#include "tools/lib/trace/choice_log/scenario_json.hpp"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "sim/scenarios/directed.hpp"
#include "sim/world/scenario_fields.hpp"

namespace rtrs::tools {

namespace {

using Json = nlohmann::ordered_json;
using sim::Scenario;

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
      const std::uint64_t most = std::is_same_v<T, wire::Extensions> ? 255 : 2;
      if (!from.is_number_unsigned() || from.get<std::uint64_t>() > most) return wrong(name);
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
    if (why_.empty()) why_ = "\"" + name + "\" of the scenario has an invalid value";
  }
  const Json& json_;
  std::string& why_;
};

}  // namespace

Json scenario_json(const Scenario& s) {
  Json json;
  sim::visit_plain(s, Store(json));
  Json network;
  network["weak"] = !s.network.capabilities.imm_consumes_receive;
  sim::visit_network(s.network, Store(network));
  Json client;
  sim::visit_reflected(s.client, "", Store(client));
  Json server;
  sim::visit_reflected(s.server, "", Store(server));
  Json storage;
  sim::visit_storage(s.storage, Store(storage));
  Json workload;
  sim::visit_workload(s.workload, Store(workload));
  json["network"] = network;
  json["client"] = client;
  json["server"] = server;
  json["storage"] = storage;
  json["workload"] = workload;
  if (s.play.run) json["play"] = s.play.id;
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
  sim::visit_plain(s, Load(json, why));
  const Json empty = Json::object();
  const auto part = [&](const char* name) -> const Json& {
    return json.contains(name) && json[name].is_object() ? json[name] : empty;
  };
  bool weak = false;
  Load(part("network"), why)("weak", weak);
  s.network.capabilities = weak ? sim::weak_capabilities() : sim::default_capabilities();
  sim::visit_network(s.network, Load(part("network"), why));
  sim::visit_reflected(s.client, "", Load(part("client"), why));
  sim::visit_reflected(s.server, "", Load(part("server"), why));
  sim::visit_storage(s.storage, Load(part("storage"), why));
  sim::visit_workload(s.workload, Load(part("workload"), why));
  if (!why.empty()) return wrong(why);
  if (json.contains("play")) {
    if (!json["play"].is_string() || !sim::drive(s, json["play"].get<std::string>()))
      return wrong(
          "\"play\" must be the id of a scenario of block devices; a scenario of your own file needs --file "
          "FILE too");
  }
  if (const char* problem = sim::problem_of(s)) return wrong(problem);
  if (json.contains("script")) {
    if (!json["script"].is_array()) return wrong("\"script\" must be a list of lines");
    for (const Json& line : json["script"]) {
      const auto step = line.is_string() ? sim::parse_step(line.get<std::string>(), why) : std::nullopt;
      if (!line.is_string()) why = "not a text";
      if (step) why = sim::problem_of(*step, s);
      if (!why.empty())
        return wrong("line " + std::to_string(s.script.size() + 1) + " of the script: " + why);
      s.script.push_back(*step);
    }
  }
  return s;
}

}  // namespace rtrs::tools
