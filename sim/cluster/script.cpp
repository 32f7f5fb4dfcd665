#include "sim/cluster/script.hpp"

#include <array>
#include <charconv>
#include <type_traits>
#include <utility>

#include "core/proto/errc.hpp"
#include "sim/network/lying_fabric.hpp"
#include "sim/oracles/marks.hpp"

namespace rtrs::sim {

namespace {

struct VerbInfo {
  std::string_view name;
  bool waits;
  std::string_view text;
};
constexpr auto kVerbs = std::to_array<VerbInfo>({
#define RTRS_SIM_VERB(name, waits, text) {#name, waits, text},
    RTRS_SIM_VERBS(RTRS_SIM_VERB)
#undef RTRS_SIM_VERB
});

struct RateInfo {
  std::string_view name;
  std::uint32_t Rates::*member;
};
// Append only: the numbers are in stored scripts.
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
// What `number` means by name.
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

// False when the step has no such field or the value does not fit it.
bool set_field(Step& step, std::string_view name, std::string_view text) {
  if (name == "number")
    if (const auto number = number_named(step.verb, text)) {
      step.number = *number;
      return true;
    }
  bool done = false;
  Step::visit_fields(step, [&](const char* field, auto& value) {
    if (name != field) return;
    const bool hex = text.starts_with("0x");
    if (hex) text.remove_prefix(2);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    done = error == std::errc{} && unit.empty();
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Nanos>) {
      const Nanos scale = unit == "s"    ? seconds(1)
                          : unit == "ms" ? milliseconds(1)
                          : unit == "us" ? microseconds(1)
                                         : 0;
      if (error == std::errc{} && scale != 0 && value <= kNever / scale) {
        value *= scale;
        done = true;
      }
    }
  });
  return done;
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

// What a number of the step is called; empty: it has no name.
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

// `time` of these is a sector, an errno or a chance.
bool has_plain_time(Step::Verb verb) {
  switch (verb) {
    case Step::Verb::write:
    case Step::Verb::read:
    case Step::Verb::storage_fails:
    case Step::Verb::rate:
    case Step::Verb::disk_write:
    case Step::Verb::disk_read:
    case Step::Verb::disk_discard:
      return true;
    default:
      return false;
  }
}

std::string value_text(const Step& step, std::string_view name, std::uint64_t value) {
  const bool is_time = name == "length" || (name == "time" && !has_plain_time(step.verb));
  if (is_time && value != 0)
    for (const auto& [unit, scale] :
         {std::pair{"s", seconds(1)}, std::pair{"ms", milliseconds(1)}, std::pair{"us", microseconds(1)}})
      if (value % scale == 0) return std::to_string(value / scale) + unit;
  if (name == "number" && !name_of_number(step).empty()) return std::string(name_of_number(step));
  return std::to_string(value);
}

}  // namespace

bool Step::waits() const noexcept {
  return kVerbs[static_cast<std::size_t>(verb)].waits;
}

std::string to_text(const Step& step) {
  const Step defaults;
  std::string text(kVerbs[static_cast<std::size_t>(step.verb)].name);
  std::vector<std::uint64_t> usual;
  Step::visit_fields(defaults, [&](const char*, const auto& value) { usual.push_back(value); });
  std::size_t at = 0;
  Step::visit_fields(step, [&](std::string_view name, const auto& value) {
    const bool is_named = name == "number" && !name_of_number(step).empty();
    if (value != usual[at++] || is_named)
      text += " " + std::string(name) + "=" + value_text(step, name, value);
  });
  return text;
}

std::string steps_text() {
  std::string all;
  for (const VerbInfo& one : kVerbs) {
    std::string line = "  " + std::string(one.name);
    line.resize(18, ' ');
    all += line + (one.waits ? "waits: " : "") + std::string(one.text) + "\n";
  }
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
    why = "no verb '" + std::string(verb) + "'";
    return std::nullopt;
  }
  step.verb = static_cast<Step::Verb>(at);
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos ||
        !set_field(step, word.substr(0, equals), word.substr(equals + 1))) {
      why = "not understood: '" + std::string(word) + "'";
      return std::nullopt;
    }
  }
  if (!number_exists(step)) {
    why = "there is no such " + std::string(verb);
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
