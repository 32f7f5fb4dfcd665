#include "sim/scenarios/scenario_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <iterator>
#include <type_traits>

#include "core/base/assert.hpp"
#include "sim/oracles/judge.hpp"
#include "sim/world/scenario_fields.hpp"
#include "sim/world/story.hpp"

namespace rtrs::sim {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Removes the next word from the front and returns it.
std::string_view take_word(std::string_view& rest) {
  rest = trimmed(rest);
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

constexpr std::pair<std::string_view, Nanos> kUnits[] = {
    {"s", seconds(1)}, {"ms", milliseconds(1)}, {"us", microseconds(1)}, {"ns", 1}};

template <class T>
bool read_number(std::string_view text, T& value) {
  std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc{}) return false;
  if constexpr (std::is_same_v<T, Nanos>) {
    for (const auto& [name, scale] : kUnits) {
      if (unit != name) continue;
      if (value > kNever / scale) return false;
      value *= scale;
      return true;
    }
    return unit.empty() && value == 0;
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
// Parses "none", names joined by '+', or the number of the byte, which may contain unnamed bits.
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

// Sets an option. Returns the error; empty if it was set.
std::string set_option(Scenario& scenario, std::string_view name, std::string_view text) {
  std::string why = "unknown option '" + std::string(name) + "'";
  visit_all(scenario, [&](const std::string& each, auto& value) {
    if (each != name) return;
    const bool fits = read_value(text, value);
    const bool is_time = std::is_same_v<std::remove_cvref_t<decltype(value)>, Nanos>;
    why = fits ? "" : "'" + std::string(text) + "' is not a value of " + each;
    if (!fits && is_time) why += ", a time in s, ms, us or ns, or never";
  });
  return why;
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
      for (const auto& [unit, scale] : kUnits)
        if (value != 0 && value % scale == 0) return std::to_string(value / scale) + std::string(unit);
    }
    return std::to_string(value);
  }
}

bool is_oracle(std::string_view id) {
  for (unsigned oracle = 0; oracle < kOracles; ++oracle)
    if (id == id_of(static_cast<Oracle>(oracle))) return true;
  return false;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

class Reader {
 public:
  explicit Reader(Setups& setups) : setups_(setups) {}

  // Reads line `number`. Returns the error of this line or an earlier one; empty if there is none.
  std::string take(std::string_view line, std::size_t number) {
    at_ = number;
    std::string_view rest = line;
    const std::string_view word = take_word(rest);
    rest = trimmed(rest);
    if (word == "setup" || word == "scenario") return begin(word == "setup", rest);
    if (settings_ == nullptr) return "a scenario begins with 'scenario ID'";
    if (word == "set") return take_settings(rest);
    if (scenario_ == nullptr) return "a setup may only contain 'set' lines";
    if (word == "title") {
      scenario_->title = rest;
      return {};
    }
    if (word == "expect") {
      scenario_->expect = rest == "ok" ? std::string_view() : rest;
      return rest == "ok" || is_oracle(rest) ? "" : "'expect' needs ok or the id of an oracle";
    }
    if (word == "disks") return begin_disks(rest);
    if (disks_ && word != "rate") return disks_->take(line, number);
    std::string why;
    const auto step = parse_step(line, why);
    if (!step) return why;
    scenario_->script.push_back(*step);
    step_lines_.push_back(number);
    return {};
  }
  // Checks the completed setup or scenario. Returns the error; empty if there is none.
  std::string check() {
    if (settings_ == nullptr) return {};
    if (std::string why = end_disks(); !why.empty()) return name_ + ": " + why;
    const Scenario world = tried(settings_->size());
    if (const char* problem = problem_of(world); problem != nullptr) {
      at_ = line_of_problem();
      return name_ + ": " + problem;
    }
    for (std::size_t at = 0; scenario_ != nullptr && at < scenario_->script.size(); ++at) {
      std::string why = problem_of(scenario_->script[at], world);
      if (why.empty()) continue;
      at_ = step_lines_[at];
      return name_ + ": " + why;
    }
    return {};
  }
  // Line of the error that take() or check() returned, from 1.
  std::size_t line() const noexcept { return at_; }
  std::vector<ScenarioText> take_all() {
    std::vector<ScenarioText> all(std::make_move_iterator(scenarios_.begin()),
                                  std::make_move_iterator(scenarios_.end()));
    return all;
  }

 private:
  // Returns the scenario with only the first `count` settings applied.
  Scenario tried(std::size_t count) const {
    ZeroChoice calm;
    const bool has_disks = scenario_ != nullptr && !scenario_->disks.empty();
    Scenario world = has_disks ? block_world_of({}) : base_scenario(calm);
    world.play.adds_disks = has_disks;
    for (std::size_t at = 0; at < count; ++at)
      set_option(world, (*settings_)[at].first, (*settings_)[at].second);
    return world;
  }
  // Returns the line of the first setting that makes the scenario invalid. If the setting comes from a setup:
  // the line that names the setup.
  std::size_t line_of_problem() const {
    std::size_t before = settings_->size();
    while (before != 0 && problem_of(tried(before)) != nullptr) --before;
    const std::size_t of_setups = settings_->size() - setting_lines_.size();
    return before < of_setups ? began_ : setting_lines_[before - of_setups];
  }

  std::string begin_disks(std::string_view rest) {
    if (disks_) return "duplicate 'disks' line";
    if (!scenario_->script.empty()) return "'disks' must come before all steps";
    return disks_.emplace().take_disks(rest);
  }
  std::string end_disks() {
    if (!disks_) return {};
    std::string why = disks_->end(at_);
    scenario_->disks = std::move(disks_->disks);
    scenario_->devices = std::move(disks_->script);
    disks_.reset();
    return why;
  }

  std::string begin(bool is_setup, std::string_view rest) {
    if (std::string why = check(); !why.empty()) return why;
    began_ = at_;
    step_lines_.clear();
    setting_lines_.clear();
    const std::size_t colon = rest.find(':');
    name_ = trimmed(rest.substr(0, colon));
    if (name_.empty() || name_.find(' ') != std::string::npos) return "missing name (no spaces allowed)";
    Settings settings;
    for (std::string_view bases = colon == std::string_view::npos ? "" : rest.substr(colon + 1);;) {
      const std::string_view base = take_word(bases);
      if (base.empty()) break;
      const auto known = setups_.find(base);
      if (known == setups_.end())
        return "unknown setup '" + std::string(base) + "': define it above this line";
      settings.insert(settings.end(), known->second.begin(), known->second.end());
    }
    scenario_ = nullptr;
    if (is_setup) {
      settings_ = &(setups_[name_] = std::move(settings));
      return {};
    }
    for (const ScenarioText& one : scenarios_)
      if (one.id == name_) return "duplicate scenario '" + name_ + "'";
    scenario_ = &scenarios_.emplace_back();
    scenario_->id = name_;
    scenario_->line = at_;
    scenario_->settings = std::move(settings);
    settings_ = &scenario_->settings;
    return {};
  }

  std::string take_settings(std::string_view rest) {
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos)
        return "expected NAME=VALUE instead of '" + std::string(word) + "'";
      ZeroChoice calm;
      Scenario tried = base_scenario(calm);
      const std::string_view name = word.substr(0, equals), value = word.substr(equals + 1);
      if (std::string why = set_option(tried, name, value); !why.empty()) return why;
      settings_->emplace_back(name, value);
      setting_lines_.push_back(at_);
    }
    return {};
  }

  Setups& setups_;
  std::deque<ScenarioText> scenarios_;
  ScenarioText* scenario_ = nullptr;         // nullptr in a setup
  std::optional<DeviceScriptReader> disks_;  // reader for a scenario of block devices
  Settings* settings_ = nullptr;             // settings of the current setup or scenario; nullptr: none yet
  std::string name_;
  std::size_t at_ = 0, began_ = 0;          // current line or that of the error; line where `name_` begins
  std::vector<std::size_t> step_lines_;     // lines of the steps of the current script
  std::vector<std::size_t> setting_lines_;  // lines of the current settings, without those of setups
};

Scenario device_world_of(const ScenarioText& scenario) {
  Scenario s = block_world_of({});
  for (const auto& [name, value] : scenario.settings) {
    const std::string why = set_option(s, name, value);
    RTRS_ASSERT(why.empty());  // parse_scenarios() has checked all settings
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
  why.clear();
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(
        std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    why = reader.take(line, number);
    if (!why.empty()) break;
  }
  if (why.empty()) why = reader.check();
  if (why.empty()) return reader.take_all();
  why = "line " + std::to_string(reader.line()) + ": " + why;
  return std::nullopt;
}

std::string scenario_reference() {
  ZeroChoice calm;
  const Scenario usual = base_scenario(calm);
  std::string all = "options of `set` with their default values:\n";
  visit_all(usual, [&all](const std::string& name, const auto& value) {
    all += "  " + name + "=" + value_text(value) + "\n";
  });
  all += "steps (defaults: client=1 path=0 con=0 ways=3 count=1; all other words 0):\n" + steps_text();
  all += "steps of block devices, behind a line `disks NAME...`:\n" + device_steps_text();
  return all;
}

void drive(Scenario& world, const ScenarioText& scenario) {
  world.play = {scenario.id,
                [&scenario](World& w) {
                  play_disks(w, scenario.disks, [&](BlockWorld& blocks) { play(blocks, scenario.devices); });
                },
                true};
}

Scenario world_of(const ScenarioText& scenario, ChoiceSource& choice) {
  if (!scenario.disks.empty()) return device_world_of(scenario);
  Scenario s = base_scenario(choice);
  for (const auto& [name, value] : scenario.settings) {
    const std::string why = set_option(s, name, value);
    RTRS_ASSERT(why.empty());  // parse_scenarios() has checked all settings
  }
  set_script(s, scenario.script);
  return s;
}

}  // namespace rtrs::sim
