#include "sim/scenarios/scenario_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <iterator>
#include <type_traits>

#include "core/base/assert.hpp"
#include "sim/cluster/scenario_fields.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The next word, which is taken off the front.
std::string_view take_word(std::string_view& rest) {
  rest = trimmed(rest);
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

template <class T>
bool read_number(std::string_view text, T& value) {
  std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc{}) return false;
  if constexpr (std::is_same_v<T, Nanos>) {
    const Nanos scale = unit == "s"    ? seconds(1)
                        : unit == "ms" ? milliseconds(1)
                        : unit == "us" ? microseconds(1)
                                       : 1;
    if (scale != 1) {
      if (value > kNever / scale) return false;
      value *= scale;
      return true;
    }
  }
  return unit.empty();
}

bool read_value(std::string_view text, MultipathPolicy& value) {
  for (const auto policy :
       {MultipathPolicy::round_robin, MultipathPolicy::min_inflight, MultipathPolicy::min_latency}) {
    if (text != to_string(policy)) continue;
    value = policy;
    return true;
  }
  return false;
}
bool read_value(std::string_view text, UnfencedReplay& value) {
  if (text != "wait" && text != "replay") return false;
  value = text == "wait" ? UnfencedReplay::wait : UnfencedReplay::replay;
  return true;
}
bool read_value(std::string_view text, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}
constexpr std::array<std::pair<std::string_view, wire::Extensions>, 5> kExtensionWords{{
    {"fence", wire::Extensions::fence},
    {"generation", wire::Extensions::generation},
    {"probe", wire::Extensions::probe},
    {"keys_stay", wire::Extensions::keys_stay},
    {"data_with_answer", wire::Extensions::data_with_answer},
}};

// "none", names joined by '+', or the number of the byte, which may have bits without a name.
bool read_value(std::string_view text, wire::Extensions& value) {
  std::uint8_t bits = 0;
  if (read_number(text, bits)) {
    value = static_cast<wire::Extensions>(bits);
    return true;
  }
  value = wire::Extensions::none;
  if (text == "none") return true;
  while (true) {
    const std::string_view word = text.substr(0, text.find('+'));
    const auto known = std::find_if(kExtensionWords.begin(), kExtensionWords.end(),
                                    [word](const auto& each) { return each.first == word; });
    if (known == kExtensionWords.end()) return false;
    value |= known->second;
    if (word.size() == text.size()) return true;
    text.remove_prefix(word.size() + 1);
  }
}
template <class T>
bool read_value(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, Nanos>) {
    if (text == "never") {
      value = kNever;
      return true;
    }
  }
  return read_number(text, value);
}

// Why it cannot be set; empty: it is.
std::string set_option(Scenario& scenario, std::string_view name, std::string_view text) {
  std::string why = "no option '" + std::string(name) + "'";
  visit_all(scenario, [&](const std::string& each, auto& value) {
    if (each != name) return;
    const bool fits = read_value(text, value);
    why = fits ? "" : "'" + std::string(text) + "' is no value of " + each;
  });
  return why;
}

std::string extensions_text(wire::Extensions set) {
  if (has(set, ~wire::kKnownExtensions)) return std::to_string(static_cast<unsigned>(set));
  std::string text;
  for (const auto& [word, one] : kExtensionWords)
    if (has(set, one)) (text += text.empty() ? "" : "+") += word;
  return text.empty() ? "none" : text;
}

template <class T>
std::string value_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, UnfencedReplay>) {
    return value == UnfencedReplay::wait ? "wait" : "replay";
  } else if constexpr (std::is_same_v<T, MultipathPolicy>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, wire::Extensions>) {
    return extensions_text(value);
  } else {
    if constexpr (std::is_same_v<T, Nanos>) {
      if (value == kNever) return "never";
      for (const auto& [unit, scale] :
           {std::pair{"s", seconds(1)}, std::pair{"ms", milliseconds(1)}, std::pair{"us", microseconds(1)}})
        if (value != 0 && value % scale == 0) return std::to_string(value / scale) + unit;
    }
    return std::to_string(value);
  }
}

// Two paths of three connections, a heartbeat a second, eight permits, some load; nothing goes wrong by
// itself.
Scenario common(ChoiceSource& choice) {
  CalmChoice calm;
  Scenario s = draw_scenario(calm);
  s.directed = true;
  s.paths = 2;
  s.client.con_num = 3;
  s.client.seed = choice.draw(1U << 30, Label::swarm);
  s.client.extensions = s.server.extensions = wire::kKnownExtensions & ~wire::Extensions::keys_stay;
  s.workload.requests = 40;
  s.workload.window = 4;
  s.workload.gap = s.interval / 10;
  return s;
}

bool is_oracle(std::string_view id) {
  for (unsigned oracle = 0; oracle < kOracles; ++oracle)
    if (id == id_of(static_cast<Oracle>(oracle))) return true;
  return false;
}

// Why no client or path of the world is meant; empty: one is.
std::string misplaced(const Step& step, const Scenario& world) {
  if (step.client > world.clients)
    return "'" + to_text(step) + "' means none of the clients 1 to " + std::to_string(world.clients) +
           " (set clients=)";
  const unsigned paths = world.paths + (world.other_server ? 1 : 0);
  if (step.path >= paths)
    return "'" + to_text(step) + "' means none of the paths 0 to " + std::to_string(paths - 1) +
           " (set paths=)";
  return {};
}

using Settings = std::vector<std::pair<std::string, std::string>>;

class Reader {
 public:
  explicit Reader(Setups& setups) : setups_(setups) {}

  // Why the line is wrong; empty: it is not.
  std::string take(std::string_view line) {
    std::string_view rest = line;
    const std::string_view word = take_word(rest);
    rest = trimmed(rest);
    if (word == "setup" || word == "scenario") return begin(word == "setup", rest);
    if (settings_ == nullptr) return "a scenario begins with 'scenario ID'";
    if (word == "set") return take_settings(rest);
    if (scenario_ == nullptr) return "a setup has nothing but lines that begin with 'set'";
    if (word == "title") {
      scenario_->title = rest;
      return {};
    }
    if (word == "expect") {
      scenario_->expect = rest == "ok" ? std::string_view() : rest;
      return rest == "ok" || is_oracle(rest) ? "" : "'expect' is followed by ok or the id of an oracle";
    }
    if (word == "disks") return begin_disks(rest);
    if (disks_ && word != "rate") return disks_->take(line);
    std::string why;
    const auto step = parse_step(line, why);
    if (!step) return why;
    scenario_->script.push_back(*step);
    return {};
  }
  // Of what is complete; empty: nothing is wrong.
  std::string check() {
    if (settings_ == nullptr) return {};
    if (std::string why = end_disks(); !why.empty()) return name_ + ": " + why;
    CalmChoice calm;
    const bool has_disks = scenario_ != nullptr && !scenario_->disks.empty();
    Scenario world = has_disks ? block_world_of({}) : common(calm);
    for (const auto& [name, value] : *settings_) set_option(world, name, value);
    const char* problem = problem_of(world);
    if (problem != nullptr) return name_ + ": " + problem;
    if (scenario_ == nullptr) return {};
    for (const Step& step : scenario_->script)
      if (std::string why = misplaced(step, world); !why.empty()) return name_ + ": " + why;
    return {};
  }
  std::vector<ScenarioText> take_all() {
    std::vector<ScenarioText> all(std::make_move_iterator(scenarios_.begin()),
                                  std::make_move_iterator(scenarios_.end()));
    return all;
  }

 private:
  std::string begin_disks(std::string_view rest) {
    if (disks_) return "'disks' is there already";
    if (!scenario_->script.empty()) return "'disks' comes before all steps";
    return disks_.emplace().take_disks(rest);
  }
  std::string end_disks() {
    if (!disks_) return {};
    std::string why = disks_->end();
    scenario_->disks = std::move(disks_->disks);
    scenario_->devices = std::move(disks_->script);
    disks_.reset();
    return why;
  }

  std::string begin(bool is_setup, std::string_view rest) {
    if (std::string why = check(); !why.empty()) return why;
    const std::size_t colon = rest.find(':');
    name_ = trimmed(rest.substr(0, colon));
    if (name_.empty() || name_.find(' ') != std::string::npos) return "a name without blanks is missing";
    Settings settings;
    for (std::string_view bases = colon == std::string_view::npos ? "" : rest.substr(colon + 1);;) {
      const std::string_view base = take_word(bases);
      if (base.empty()) break;
      const auto known = setups_.find(base);
      if (known == setups_.end()) return "no setup '" + std::string(base) + "' above";
      settings.insert(settings.end(), known->second.begin(), known->second.end());
    }
    scenario_ = nullptr;
    if (is_setup) {
      settings_ = &(setups_[name_] = std::move(settings));
      return {};
    }
    for (const ScenarioText& one : scenarios_)
      if (one.id == name_) return "a scenario '" + name_ + "' is there already";
    scenario_ = &scenarios_.emplace_back();
    scenario_->id = name_;
    scenario_->settings = std::move(settings);
    settings_ = &scenario_->settings;
    return {};
  }

  std::string take_settings(std::string_view rest) {
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) return "not NAME=VALUE: '" + std::string(word) + "'";
      CalmChoice calm;
      Scenario tried = common(calm);
      const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
      if (std::string why = set_option(tried, name, value); !why.empty()) return why;
      settings_->emplace_back(name, value);
    }
    return {};
  }

  Setups& setups_;
  std::deque<ScenarioText> scenarios_;
  ScenarioText* scenario_ = nullptr;         // null in a setup
  std::optional<DeviceScriptReader> disks_;  // of the scenario that is being read, if it is one of devices
  Settings* settings_ = nullptr;             // of what is being read; null: nothing yet
  std::string name_;
};

Scenario device_world_of(const ScenarioText& scenario) {
  Scenario s = block_world_of({});
  for (const auto& [name, value] : scenario.settings) {
    const std::string why = set_option(s, name, value);
    RTRS_ASSERT(why.empty());  // parse_scenarios() has tried each
  }
  s.fenced = s.can_fence();
  s.script.insert(s.script.end(), scenario.script.begin(), scenario.script.end());
  drive(s, scenario);
  return s;
}

}  // namespace

std::optional<std::vector<ScenarioText>> parse_scenarios(std::string_view text, Setups& setups,
                                                         std::string& why) {
  Reader reader(setups);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(
        std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    why = reader.take(line);
    if (why.empty()) continue;
    why = "line " + std::to_string(number) + ": " + why;
    return std::nullopt;
  }
  why = reader.check();
  if (!why.empty()) return std::nullopt;
  return reader.take_all();
}

std::string scenario_reference() {
  CalmChoice calm;
  const Scenario usual = common(calm);
  std::string all = "options of `set`, with what they are where nothing is set:\n";
  visit_all(usual, [&all](const std::string& name, const auto& value) {
    all += "  " + name + "=" + value_text(value) + "\n";
  });
  all += "steps (path=0 con=0 client=1 ways=3 where nothing is said):\n" + steps_text();
  all += "steps of block devices, behind a line `disks NAME...`:\n" + device_steps_text();
  return all;
}

void drive(Scenario& world, const ScenarioText& scenario) {
  world.play = {scenario.id, [&scenario](World& w) {
                  play_disks(w, scenario.disks, [&](BlockWorld& blocks) { play(blocks, scenario.devices); });
                }};
}

Scenario world_of(const ScenarioText& scenario, ChoiceSource& choice) {
  if (!scenario.disks.empty()) return device_world_of(scenario);
  Scenario s = common(choice);
  for (const auto& [name, value] : scenario.settings) {
    const std::string why = set_option(s, name, value);
    RTRS_ASSERT(why.empty());  // parse_scenarios() has tried each
  }
  s.fenced = s.client.fence_failed == UnfencedReplay::wait &&
             (s.can_fence() || s.client.kernel_peer == UnfencedReplay::wait);
  s.script = scenario.script;
  Nanos waits = 0;
  for (const Step& step : s.script)
    if (step.verb == Step::Verb::pass) waits += step.time;
  if (s.safety < waits) s.safety = 0;
  s.safety += waits + 2 * liveness_bound(s).requests();
  return s;
}

}  // namespace rtrs::sim
