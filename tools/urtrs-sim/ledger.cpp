#include "tools/urtrs-sim/ledger.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "tools/lib/files/read_bounded.hpp"
#include "tools/lib/text/json_depth.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/urtrs-sim/result_fields.hpp"

namespace rtrs::sim_tool {

namespace {

using nlohmann::ordered_json;

constexpr double kMostRate = 1e9;

LedgerCase case_of(Fields& fields) {
  LedgerCase read;
  if (fields["choices"].is_string()) {
    read.choices = fields.text("choices");
    fields.good = fields.good && !read.choices.empty() && read.choices.find('\0') == std::string::npos;
  } else {
    read.seed = fields.number("seed");
  }
  read.worlds = fields.worlds("worlds");
  read.world = fields.word("world");
  read.rule = fields.words("rule");
  read.place = fields.text("place");
  read.shown = fields.words("shown");
  read.fixed = fields.words("fixed");
  fields.good = fields.good && !read.rule.empty() && !read.shown.empty();
  return read;
}

LedgerSweep sweep_of(Fields& fields) {
  LedgerSweep read;
  read.version = fields.words("version");
  read.seeds = fields.words("seeds");
  read.worlds = fields.worlds("worlds");
  read.checks = fields.words("checks");
  fields.good = fields.good && fields["rate"].is_number() && parse_seed_range(read.seeds).has_value();
  if (fields.good) read.rate = fields["rate"].get<double>();
  read.marks = fields.number("marks");
  read.all_marks = fields.number("all_marks");
  read.pairs = fields.number("pairs");
  read.all_pairs = fields.number("all_pairs");
  read.failures = fields.number("failures");
  fields.good = fields.good && read.rate >= 0 && read.rate <= kMostRate && read.marks <= read.all_marks &&
                read.pairs <= read.all_pairs && !read.version.empty();
  return read;
}

ordered_json line_of(const LedgerCase& one) {
  ordered_json line;
  if (one.choices.empty())
    line["seed"] = one.seed;
  else
    line["choices"] = one.choices;
  line.update(ordered_json{{"worlds", one.worlds},
                           {"world", one.world},
                           {"rule", one.rule},
                           {"place", one.place},
                           {"shown", one.shown},
                           {"fixed", one.fixed}});
  return line;
}

ordered_json line_of(const LedgerSweep& one) {
  return {{"version", one.version},     {"seeds", one.seeds}, {"worlds", one.worlds},
          {"checks", one.checks},       {"rate", one.rate},   {"marks", one.marks},
          {"all_marks", one.all_marks}, {"pairs", one.pairs}, {"all_pairs", one.all_pairs},
          {"failures", one.failures}};
}

std::uint64_t reached_of(const std::vector<Reached>& all) {
  return static_cast<std::uint64_t>(
      std::count_if(all.begin(), all.end(), [](const Reached& one) { return one.seeds != 0; }));
}

}  // namespace

std::size_t Ledger::add(const SweepResult& result, const SweepTimes& times,
                        const std::function<bool(const LedgerCase&)>& is_later_fixed) {
  LedgerSweep now{result.version,
                  text_of(result.seeds),
                  result.worlds,
                  (result.command == "sweep" ? "" : " " + result.command) + result.checks,
                  std::min(times.rate(), kMostRate),
                  reached_of(result.marks),
                  result.marks.size(),
                  reached_of(result.pairs),
                  result.pairs.size(),
                  result.failures.total()};
  const auto same = [&now](const LedgerSweep& other) {
    return std::tie(now.version, now.seeds, now.worlds, now.checks) ==
           std::tie(other.version, other.seeds, other.worlds, other.checks);
  };
  const auto found = std::find_if(sweeps.begin(), sweeps.end(), same);
  if (found == sweeps.end())
    sweeps.push_back(std::move(now));
  else
    *found = std::move(now);
  std::size_t added = 0;
  for (const auto& [key, group] : result.failures.groups()) {
    const bool known = std::any_of(cases.begin(), cases.end(), [&, &key = key](const LedgerCase& one) {
      return one.worlds == result.worlds &&
             std::tie(one.rule, one.place, one.world) == std::tie(key.rule, key.place, key.world) &&
             (one.fixed.empty() || is_later_fixed(one));
    });
    if (known) continue;
    cases.push_back(
        {group.seeds.front(), "", result.worlds, key.world, key.rule, key.place, result.version, ""});
    ++added;
  }
  return added;
}

tl::expected<Ledger, std::string> read_ledger(const std::string& file) {
  const std::string name = tools::printable(file);
  const auto text = tools::read_bounded(file, kMostLedgerMiB);
  if (!text) return tl::make_unexpected("cannot read " + name + ": " + text.error());
  Ledger read;
  std::istringstream lines(*text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const bool deep = tools::is_nested_deeper(line, 2);
    const ordered_json found = deep ? ordered_json() : ordered_json::parse(line, nullptr, false);
    if (found.is_object()) {
      Fields fields(found);
      if (found.contains("rule"))
        read.cases.push_back(case_of(fields));
      else
        read.sweeps.push_back(sweep_of(fields));
      if (fields.good) continue;
    }
    return tl::make_unexpected(name + ": line " + std::to_string(number) +
                               " is neither a case nor a sweep of a ledger; correct or remove it");
  }
  return read;
}

namespace {

// Quotes a word of a command that people copy to a shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+,./:=@-";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_of(const LedgerCase& one) {
  return one.choices.empty() ? run_command(one.rule, one.world, one.seed, one.worlds)
                             : "urtrs-sim run --choices " + quoted(one.choices);
}

std::string to_text(const Ledger& ledger) {
  std::string all;
  for (const LedgerSweep& one : ledger.sweeps) all += tools::json_text(line_of(one)) + "\n";
  for (const LedgerCase& one : ledger.cases) all += tools::json_text(line_of(one)) + "\n";
  return all;
}

}  // namespace rtrs::sim_tool
