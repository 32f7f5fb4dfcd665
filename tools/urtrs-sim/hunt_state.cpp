#include "tools/urtrs-sim/hunt_state.hpp"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lib/files/read_bounded.hpp"
#include "tools/urtrs-sim/state_file.hpp"

namespace rtrs::sim_tool {

namespace {

using nlohmann::json;
using sim::hunt::Corpus;
using sim::hunt::CorpusState;
using sim::hunt::Feature;
using sim::hunt::Place;

constexpr const char* kHuntKind = "urtrs-sim hunt";
constexpr std::size_t kMost = 256;  // MiB

// [seed, draw, draw and seed of each fork ...]
json json_of(const Place& place) {
  json numbers = {place.lineage.seed, place.draw};
  for (const sim::Fork& fork : place.lineage.forks) {
    numbers.push_back(fork.draw);
    numbers.push_back(fork.seed);
  }
  return numbers;
}

json json_of(const CorpusState& state) {
  json features = json::array();
  for (const auto& [number, feature] : state.features) {
    json places = json::array();
    for (const Place& place : feature.places) places.push_back(json_of(place));
    features.push_back({number, feature.count, feature.tries, std::move(places)});
  }
  return {{"next_seed", state.next_seed},
          {"drawn", state.drawn},
          {"runs", state.runs},
          {"new_events", state.new_runs_events},
          {"fork_events", state.fork_events},
          {"features", std::move(features)}};
}

bool read(const json& from, std::uint64_t& number) {
  if (!from.is_number_unsigned()) return false;
  number = from.get<std::uint64_t>();
  return true;
}
bool read(const json& from, const char* key, std::uint64_t& number) {
  return from.contains(key) && read(from[key], number);
}

bool read(const json& from, Place& place) {
  if (!from.is_array() || from.size() < 2 || from.size() % 2 != 0) return false;
  for (const json& one : from)
    if (!one.is_number_unsigned()) return false;
  place.lineage.seed = from[0].get<std::uint64_t>();
  place.draw = from[1].get<std::uint64_t>();
  for (std::size_t at = 2; at < from.size(); at += 2)
    place.lineage.forks.push_back({from[at].get<std::uint64_t>(), from[at + 1].get<std::uint64_t>()});
  return true;
}

bool read(const json& from, CorpusState& state) {
  if (!read(from, "next_seed", state.next_seed) || !read(from, "drawn", state.drawn) ||
      !read(from, "runs", state.runs) || !read(from, "new_events", state.new_runs_events) ||
      !read(from, "fork_events", state.fork_events) || !from.contains("features") ||
      !from["features"].is_array())
    return false;
  for (const json& one : from["features"]) {
    std::uint64_t number = 0;
    Feature feature;
    if (!one.is_array() || one.size() != 4 || !read(one[0], number) || number >= sim::hunt::kFeatures ||
        !read(one[1], feature.count) || !read(one[2], feature.tries) || !one[3].is_array())
      return false;
    for (const json& place : one[3])
      if (!read(place, feature.places.emplace_back())) return false;
    if (!state.features.emplace(static_cast<std::uint32_t>(number), std::move(feature)).second) return false;
  }
  return true;
}

}  // namespace

tl::expected<Corpus, std::string> open_hunt_state(const std::string& file, std::uint64_t seed,
                                                  const std::string& options) {
  const auto wrong = [&file](const std::string& what) { return tl::make_unexpected(file + ": " + what); };
  Corpus corpus(seed);
  if (::access(file.c_str(), F_OK) != 0 && errno == ENOENT) return corpus;
  const auto text = tools::read_bounded(file, kMost);
  if (!text) return wrong(text.error());
  const json found = json::parse(*text, nullptr, false);
  if (!found.is_object() || found.value("kind", json()) != kHuntKind)
    return wrong("it is not the state of a hunt; use another file");
  const std::string other = "; use another file, or remove it to start over";
  if (found.value("version", json()) != this_version())
    return wrong("it belongs to another version, whose seeds play other runs" + other);
  if (found.value("seed", json()) != seed) return wrong("it belongs to a hunt with another --seed" + other);
  if (found.value("options", json()) != options)
    return wrong("it belongs to a hunt with other options" + other);
  CorpusState state;
  state.seed = seed;
  const char* why =
      read(found.value("corpus", json()), state) ? corpus.restore(std::move(state)) : "a part is missing";
  if (why != nullptr) return wrong(std::string("it is damaged (") + why + "); remove it to start over");
  return corpus;
}

bool save_hunt_state(const std::string& file, const Corpus& corpus, const std::string& options) {
  const json whole{{"schema_version", 1},         {"kind", kHuntKind},  {"version", this_version()},
                   {"seed", corpus.state().seed}, {"options", options}, {"corpus", json_of(corpus.state())}};
  return replace_file(file, whole.dump() + "\n");
}

}  // namespace rtrs::sim_tool
