#include "sim/scenarios/directed.hpp"

#include <algorithm>
#include <deque>
#include <vector>

#include "core/base/assert.hpp"
#include "sim/scenarios/scenario_files.hpp"
#include "sim/scenarios/stream_play.hpp"

namespace rtrs::sim {

namespace {

struct Catalogue {
  Setups setups;
  std::deque<std::vector<ScenarioText>> texts;
  std::vector<Directed> all;
};

// Adds the scenarios of `text`. Returns false for an invalid text, with the error in `why`.
bool add(Catalogue& catalogue, std::string_view text, std::string& why) {
  Setups setups = catalogue.setups;
  auto parsed = parse_scenarios(text, setups, why);
  if (!parsed) return false;
  if (parsed->empty()) catalogue.setups = std::move(setups);  // a file with setups only shares them
  std::vector<Directed> fresh;
  const auto& kept = catalogue.texts.emplace_back(std::move(*parsed));
  for (const ScenarioText& one : kept) {
    const auto same = [&one](const Directed& other) { return other.id == one.id; };
    if (std::any_of(catalogue.all.begin(), catalogue.all.end(), same)) {
      why = "line " + std::to_string(one.line) + ": duplicate scenario '" + one.id + "'";
      return false;
    }
    fresh.push_back({one.id, one.title, &one, nullptr});
  }
  std::sort(fresh.begin(), fresh.end(), [](const Directed& a, const Directed& b) { return a.id < b.id; });
  catalogue.all.insert(catalogue.all.begin(), fresh.begin(), fresh.end());
  return true;
}

// Scenarios that are implemented as functions. A sweep needs only these, so it need not parse the texts.
std::span<const Directed> functions() {
  static const std::vector<Directed> made = [] {
    std::vector<Directed> all;
    for (const BlockScenario& one : block_scenarios()) all.push_back({one.id, one.title, nullptr, &one});
    all.push_back({kRandomStreams, kStreamsTitle, nullptr, nullptr});
    return all;
  }();
  return made;
}

const Directed* find_in(std::span<const Directed> all, std::string_view id) {
  const auto found = std::find_if(all.begin(), all.end(), [id](const Directed& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

Catalogue& catalogue() {
  static Catalogue made = [] {
    Catalogue own;
    std::string why;
    for (const std::string_view text : scenario_files()) {
      const bool good = add(own, text, why);
      RTRS_ASSERT(good);
    }
    own.all.insert(own.all.end(), functions().begin(), functions().end());
    std::sort(own.all.begin(), own.all.end(),
              [](const Directed& a, const Directed& b) { return a.id < b.id; });
    return own;
  }();
  return made;
}

}  // namespace

std::span<const Directed> directed_scenarios() {
  return catalogue().all;
}

const Directed* find_directed(std::string_view id) {
  const Directed* const found = find_in(functions(), id);
  return found != nullptr ? found : find_in(directed_scenarios(), id);
}

Scenario make_directed(const Directed& directed, ChoiceSource& choice) {
  if (directed.blocks != nullptr) return make_block_world(*directed.blocks, choice);
  return directed.text != nullptr ? world_of(*directed.text, choice) : make_stream_world(choice);
}

bool drive(Scenario& world, std::string_view id) {
  const Directed* directed = find_directed(id);
  if (directed == nullptr) return false;
  if (directed->blocks != nullptr) {
    drive(world, *directed->blocks);
    return true;
  }
  if (directed->text == nullptr) {
    drive_streams(world);
    return true;
  }
  if (directed->text->disks.empty()) return false;
  drive(world, *directed->text);
  return true;
}

std::string add_scenarios(std::string_view text, std::vector<std::string>& ids) {
  std::string why;
  if (!add(catalogue(), text, why)) return why;
  for (const ScenarioText& one : catalogue().texts.back()) ids.push_back(one.id);
  return {};
}

}  // namespace rtrs::sim
