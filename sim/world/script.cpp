#include "sim/world/script.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>
#include <utility>

#include "core/proto/errc.hpp"
#include "sim/net/basic/corrupting_fabric.hpp"
#include "sim/oracles/marks.hpp"

namespace rtrs::sim {

namespace {

struct VerbInfo {
  std::string_view name;
  bool waits;
  std::string_view words;
  std::string_view text;
};
constexpr auto kVerbs = std::to_array<VerbInfo>({
#define RTRS_SIM_VERB(name, waits, words, text) {#name, waits, words, text},
    RTRS_SIM_VERBS(RTRS_SIM_VERB)
#undef RTRS_SIM_VERB
});

struct RateInfo {
  std::string_view name;
  std::uint32_t Rates::*member;
};
// Append only: stored scripts contain the numbers of the rates.
constexpr auto kRates = std::to_array<RateInfo>({
    {"request_lost", &Rates::request_lost},
    {"request_late", &Rates::request_late},
    {"reply_lost", &Rates::reply_lost},
    {"reply_late", &Rates::reply_late},
    {"reject_lost", &Rates::reject_lost},
    {"reject_late", &Rates::reject_late},
    {"disconnect_lost", &Rates::disconnect_lost},
    {"disconnect_late", &Rates::disconnect_late},
    {"info_cut", &Rates::info_cut},
    {"ghost_delay", &Rates::ghost_delay},
    {"slow_drain", &Rates::slow_drain},
    {"late_placement", &Rates::late_placement},
    {"torn_write", &Rates::torn_write},
    {"source_read_early", &Rates::source_read_early},
    {"rnr_placement", &Rates::rnr_placement},
    {"qp_error", &Rates::qp_error},
    {"resource_short", &Rates::resource_short},
    {"resolve_failed", &Rates::resolve_failed},
    {"accept_failed", &Rates::accept_failed},
    {"post_short", &Rates::post_short},
    {"receive_late", &Rates::receive_late},
});

std::string_view next_word(std::string_view& rest) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

std::optional<std::uint32_t> lie_named(std::string_view name) {
  for (unsigned at = 0; at < static_cast<unsigned>(Lie::count_); ++at)
    if (name_of(static_cast<Lie>(at)) == name) return at;
  return std::nullopt;
}
std::optional<std::uint32_t> mark_named(std::string_view name) {
  for (unsigned at = 0; at < kMarks; ++at)
    if (name_of(static_cast<Mark>(at)) == name) return at;
  return std::nullopt;
}
std::optional<std::uint32_t> reason_named(std::string_view name) {
  for (unsigned at = 0; at < kReasonCount; ++at)
    if (to_string(static_cast<Reason>(at)) == name) return at;
  return std::nullopt;
}
// Returns the number for which `name` stands in a step with this verb.
std::optional<std::uint32_t> number_named(Step::Verb verb, std::string_view name) {
  switch (verb) {
    case Step::Verb::rate:
      return rate_named(name);
    case Step::Verb::lie:
      return lie_named(name);
    case Step::Verb::reached:
      return mark_named(name);
    case Step::Verb::ended:
    case Step::Verb::dropped:
      return reason_named(name);
    default:
      return std::nullopt;
  }
}

const VerbInfo& info_of(const Step& step) {
  return kVerbs[static_cast<std::size_t>(step.verb)];
}

// Formats the words of a verb, for example "client= path= ways=".
std::string format_words(const VerbInfo& verb) {
  std::string text;
  std::string_view words = verb.words;
  for (std::string_view word = next_word(words); !word.empty(); word = next_word(words))
    text += (text.empty() ? "" : " ") + std::string(word.substr(0, word.find(':'))) + "=";
  return text;
}

bool is_time(std::string_view word) {
  return word == "time" || word == "length";
}

constexpr std::pair<std::string_view, Nanos> kUnits[] = {
    {"s", seconds(1)}, {"ms", milliseconds(1)}, {"us", microseconds(1)}, {"ns", 1}};

// Parses a time such as "40s". Only 0 may have no unit.
bool read_time(std::string_view text, Nanos& time) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc{}) return false;
  for (const auto& [name, scale] : kUnits) {
    if (name != unit) continue;
    if (time > kNever / scale) return false;
    time *= scale;
    return true;
  }
  return time == 0 && unit.empty();
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  return error == std::errc{} && end == text.data() + text.size();
}

// Sets a word of the step. Returns the error; empty if it was set.
std::string set_word(Step& step, std::string_view name, std::string_view text) {
  const VerbInfo& verb = info_of(step);
  const std::string whole = "'" + std::string(name) + "=" + std::string(text) + "'";
  bool known = false;
  bool fits = false;
  Step::visit_fields(step, [&](std::string_view member, auto& value) {
    if (word_of(step, member) != name) return;
    known = true;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Nanos>) {
      fits = is_time(name) ? read_time(text, value) : read_number(text, value);
    } else {
      const auto named = name == "number" ? number_named(step.verb, text) : std::nullopt;
      fits = named || read_number(text, value);
      if (named) value = *named;
    }
  });
  if (fits) return {};
  if (known)
    return "not understood: " + whole + (is_time(name) ? "; a time has a unit: s, ms, us or ns" : "");
  return std::string(verb.name) + " takes no " + whole +
         (verb.words.empty() ? "" : "; it takes " + format_words(verb));
}

bool number_exists(const Step& step) {
  switch (step.verb) {
    case Step::Verb::rate:
      return rate_at(step.number) != nullptr;
    case Step::Verb::lie:
      return step.number < static_cast<unsigned>(Lie::count_);
    case Step::Verb::reached:
      return step.number < kMarks;
    case Step::Verb::ended:
    case Step::Verb::dropped:
      return step.number < kReasonCount;
    default:
      return true;
  }
}

// Name of the step's `number`; empty if it has none.
std::string_view name_of_number(const Step& step) {
  if (!number_exists(step)) return {};
  switch (step.verb) {
    case Step::Verb::rate:
      return kRates[step.number].name;
    case Step::Verb::lie:
      return name_of(static_cast<Lie>(step.number));
    case Step::Verb::reached:
      return name_of(static_cast<Mark>(step.number));
    case Step::Verb::ended:
    case Step::Verb::dropped:
      return to_string(static_cast<Reason>(step.number));
    default:
      return {};
  }
}

std::string value_text(const Step& step, std::string_view word, std::uint64_t value) {
  if (is_time(word) && value != 0)
    for (const auto& [unit, scale] : kUnits)
      if (value % scale == 0) return std::to_string(value / scale) + std::string(unit);
  if (word == "number" && !name_of_number(step).empty()) return std::string(name_of_number(step));
  return std::to_string(value);
}

}  // namespace

bool Step::waits() const noexcept {
  return info_of(*this).waits;
}

std::string_view verb_of(const Step& step) noexcept {
  return info_of(step).name;
}

std::string_view word_of(const Step& step, std::string_view member) {
  std::string_view words = info_of(step).words;
  for (std::string_view word = next_word(words); !word.empty(); word = next_word(words)) {
    const std::size_t colon = word.find(':');
    if (word.substr(colon == std::string_view::npos ? 0 : colon + 1) == member) return word.substr(0, colon);
  }
  return {};
}

bool is_of_disk(const Step& step) noexcept {
  return step.verb >= Step::Verb::map;
}

bool is_fault(const Step& step) noexcept {
  using Verb = Step::Verb;
  constexpr Verb kFaults[] = {
      Verb::cut,      Verb::heal,    Verb::break_con,   Verb::break_path, Verb::starve,        Verb::slow,
      Verb::storage,  Verb::rate,    Verb::retire,      Verb::expel,      Verb::storage_fails, Verb::lie,
      Verb::inject,   Verb::swallow, Verb::let_through, Verb::hang,       Verb::unplug,        Verb::plug,
      Verb::shortage, Verb::forbid,  Verb::take_away,   Verb::fail_sync};
  return std::find(std::begin(kFaults), std::end(kFaults), step.verb) != std::end(kFaults);
}

std::string to_text(const Step& step) {
  const Step defaults;
  std::string text(verb_of(step));
  std::vector<std::uint64_t> usual;
  Step::visit_fields(defaults, [&](const char*, const auto& value) { usual.push_back(value); });
  std::size_t at = 0;
  Step::visit_fields(step, [&](std::string_view member, const auto& value) {
    const std::string_view word = word_of(step, member);
    const bool is_named = word == "number" && !name_of_number(step).empty();
    if ((value != usual[at++] || is_named) && !word.empty())
      text += " " + std::string(word) + "=" + value_text(step, word, value);
  });
  return text;
}

std::string steps_text() {
  std::string all;
  for (std::size_t at = 0; at < kVerbs.size(); ++at) {
    const VerbInfo& one = kVerbs[at];
    if (at == static_cast<std::size_t>(Step::Verb::map))
      all +=
          "steps of the disks 0, 1, ... that workload.disks gives each client; urtrs-replay simulate writes "
          "them:\n";
    std::string line = "  " + std::string(one.name) + " " + format_words(one);
    line.resize(std::max<std::size_t>(line.size() + 2, 46), ' ');
    all += line + (one.waits ? "waits: " : "") + std::string(one.text) + "\n";
  }
  all += "names of `number`:\n";
  const auto names = [&all](std::string_view what, auto name_of, std::size_t count) {
    all += "  " + std::string(what) + ":";
    for (std::size_t at = 0; at < count; ++at) all += " " + std::string(name_of(at));
    all += "\n";
  };
  names(
      "chances of rate", [](std::size_t at) { return kRates[at].name; }, kRates.size());
  names(
      "reasons of ended and dropped", [](std::size_t at) { return to_string(static_cast<Reason>(at)); },
      kReasonCount);
  names(
      "lies", [](std::size_t at) { return name_of(static_cast<Lie>(at)); },
      static_cast<std::size_t>(Lie::count_));
  names(
      "marks of reached", [](std::size_t at) { return name_of(static_cast<Mark>(at)); }, kMarks);
  return all;
}

std::optional<Step> parse_step(std::string_view line, std::string& why) {
  Step step;
  const std::string_view verb = next_word(line);
  std::size_t at = 0;
  while (at < kVerbs.size() && kVerbs[at].name != verb) ++at;
  if (at == kVerbs.size()) {
    why = "unknown verb '" + std::string(verb) + "'";
    return std::nullopt;
  }
  step.verb = static_cast<Step::Verb>(at);
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::size_t equals = word.find('=');
    why = equals == std::string_view::npos ? "not understood: '" + std::string(word) + "'"
                                           : set_word(step, word.substr(0, equals), word.substr(equals + 1));
    if (!why.empty()) return std::nullopt;
  }
  if (!number_exists(step)) {
    why = "unknown " + std::string(verb);
    return std::nullopt;
  }
  return step;
}

std::optional<std::uint32_t> rate_named(std::string_view name) {
  for (std::uint32_t at = 0; at < kRates.size(); ++at)
    if (kRates[at].name == name) return at;
  return std::nullopt;
}

std::uint32_t Rates::*rate_at(std::uint32_t number) {
  return number < kRates.size() ? kRates[number].member : nullptr;
}

}  // namespace rtrs::sim
