#include "sim/explore/counter_example.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/explore/configurations.hpp"
#include "sim/explore/search.hpp"

namespace rtrs::explore {

namespace {

using sim::MachineStep;
using sim::MachineWorld;
using Kind = MachineStep::Kind;

constexpr auto kLastKind = Kind::close;

const char* lane(Kind kind) {
  switch (kind) {
    case Kind::to_server:
      return "client --------> server";
    case Kind::to_client:
      return "client <-------- server";
    case Kind::forget:
    case Kind::lose:
      return "client ---- x    server";
    case Kind::cut:
      return "client --- X --- server";
    case Kind::server_lost:
    case Kind::server_closed:
    case Kind::disconnect:
      return "                 server";
    case Kind::crash:
      return "                 server";
    case Kind::storage:
      return "                 disk";
    case Kind::submit:
    case Kind::close:
      return "application";
    case Kind::client_lost:
    case Kind::client_closed:
    case Kind::reconnect:
      return "client";
    case Kind::deadline:
    case Kind::early_deadline:
      break;
  }
  return "clock";
}

// Lists the changes of a step that its description does not contain.
std::string changes(const MachineWorld& before, const MachineWorld& after) {
  std::string text;
  const auto note = [&text](const std::string& more) { text += "; " + more; };
  for (unsigned path = 0; path < after.config().paths; ++path) {
    const PathState now = after.client().path(path).state();
    if (now != before.client().path(path).state())
      note(fmt::format("client: path {} {}", path, to_string(now)));
  }
  for (std::size_t session = 0; session < std::min(before.sessions(), after.sessions()); ++session) {
    for (unsigned path = 0; path < kMaxPaths; ++path) {
      const PathState now = after.session(session).path_state(path);
      if (now != before.session(session).path_state(path))
        note(fmt::format("server: path {} {}", path, to_string(now)));
    }
  }
  if (after.acknowledged() > before.acknowledged()) note("a write is acknowledged");
  return text;
}

std::optional<Kind> kind_named(const std::string& name) {
  for (unsigned i = 0; i <= static_cast<unsigned>(kLastKind); ++i) {
    const auto kind = static_cast<Kind>(i);
    if (name == to_string(kind)) return kind;
  }
  return {};
}

}  // namespace

std::string diagram(const MachineWorld& root, const std::vector<MachineStep>& steps) {
  std::string text;
  MachineWorld world = root;
  unsigned number = 0;
  for (const MachineStep& step : steps) {
    const MachineWorld before = world;
    const std::string words = world.describe(step);
    world.apply(step);
    text += fmt::format("{:4}  {:<24}  {}{}\n", ++number, lane(step.kind), words, changes(before, world));
  }
  if (world.violation() != nullptr) text += fmt::format("      broken rule: {}\n", world.violation());
  return text;
}

std::string to_json(const CounterExample& example) {
  nlohmann::ordered_json json;
  json["what"] = "urtrs-explore counter-example";
  json["configuration"] = example.configuration;
  json["fence"] = example.fence;
  json["rule"] = example.rule;
  json["steps"] = nlohmann::ordered_json::array();
  MachineWorld world = root_of(*configuration(example.configuration), example.fence);
  for (const MachineStep& step : example.steps) {
    json["steps"].push_back(
        {{"kind", to_string(step.kind)}, {"which", step.which}, {"words", world.describe(step)}});
    world.apply(step);
  }
  return json.dump(1) + "\n";
}

ReadExample from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return {{}, "it is not a JSON object"};
  CounterExample example;
  try {
    example.configuration = json.at("configuration").get<std::string>();
    example.fence = json.at("fence").get<bool>();
    example.rule = json.at("rule").get<std::string>();
    for (const auto& one : json.at("steps")) {
      const auto name = one.at("kind").get<std::string>();
      const auto kind = kind_named(name);
      if (!kind) return {{}, "unknown step '" + name + "'"};
      example.steps.push_back({*kind, one.at("which").get<std::uint32_t>()});
    }
  } catch (const nlohmann::json::exception& error) {
    return {{}, error.what()};
  }
  if (configuration(example.configuration) == nullptr)
    return {{}, "unknown configuration '" + example.configuration + "'"};
  return {example, {}};
}

Replayed replay(const CounterExample& example) {
  const MachineWorld root = root_of(*configuration(example.configuration), example.fence);
  Replayed result;
  MachineWorld world = root;
  std::vector<MachineStep> taken;
  for (const MachineStep& step : example.steps) {
    const auto next = world.enabled();
    if (std::find(next.begin(), next.end(), step) == next.end()) break;
    world.apply(step);
    taken.push_back(step);
  }
  result.possible = taken.size() == example.steps.size();
  if (world.violation() != nullptr) result.broken = world.violation();
  if (result.possible && result.broken.empty() && example.rule == kStuck) {
    const SearchResult onwards = search(world, {});
    const Finding* stuck = onwards.finding(kStuck);
    if (stuck != nullptr && stuck->way.empty()) result.broken = kStuck;
  }
  result.diagram = diagram(root, taken);
  return result;
}

}  // namespace rtrs::explore
