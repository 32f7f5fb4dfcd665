#include "tools/lib/trace/choice_log/choice_log_file.hpp"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "sim/choices/grouped_choice.hpp"
#include "tools/lib/files/read_bounded.hpp"
#include "tools/lib/trace/choice_log/scenario_json.hpp"

namespace rtrs::tools {

namespace {

using Json = nlohmann::ordered_json;
using sim::Draw;
using sim::Label;

// Maximum number of draws in a choice log (120 MB).
constexpr std::uint64_t kMaxDraws = 10'000'000;

std::optional<Label> label_named(const std::string& name) {
  static constexpr auto kLabels = std::to_array<Label>({
#define RTRS_SIM_LABEL(one) Label::one,
      RTRS_SIM_LABELS(RTRS_SIM_LABEL)
#undef RTRS_SIM_LABEL
  });
  for (const Label label : kLabels)
    if (name == to_string(label)) return label;
  return std::nullopt;
}

// Converts a choice log to text lines, in the order of the draws.
class Lines {
 public:
  explicit Lines(const sim::ChoiceLog& choice_log) : log_(choice_log) {}
  std::vector<std::string> all() {
    std::vector<std::size_t> ends;
    for (const sim::ChoiceGroup& group : log_.groups) {
      while (ends.size() > group.depth) close(ends);
      draws(group.begin);
      if (group.left_out) {
        lines_.push_back(std::string("- ") + to_string(group.label));
        continue;
      }
      lines_.push_back(std::string("( ") + to_string(group.label));
      ends.push_back(group.end);
    }
    while (!ends.empty()) close(ends);
    draws(log_.draws.size());
    return std::move(lines_);
  }

 private:
  void close(std::vector<std::size_t>& ends) {
    draws(ends.back());
    ends.pop_back();
    lines_.emplace_back(")");
  }
  void draws(std::size_t end) {
    while (next_ < end) {
      const Draw& draw = log_.draws[next_];
      std::size_t same = next_;
      while (same < end && log_.draws[same] == draw) ++same;
      std::string line = std::string(to_string(draw.label)) + " " + std::to_string(draw.n) + " " +
                         std::to_string(draw.value);
      if (same - next_ > 1) line += " x" + std::to_string(same - next_);
      lines_.push_back(std::move(line));
      next_ = same;
    }
  }

  const sim::ChoiceLog& log_;
  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

// Parses a line. Returns nullptr, or an error message.
const char* read_line(const std::string& line, sim::ChoiceLog& choice_log, std::vector<std::size_t>& open) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  const std::size_t at = choice_log.draws.size();
  if (word == ")") {
    if (open.empty()) return "no group is open";
    choice_log.groups[open.back()].end = at;
    open.pop_back();
    return nullptr;
  }
  const bool group = word == "(" || word == "-";
  const bool left_out = word == "-";
  if (group && !(words >> word)) return "a group needs a label";
  const std::optional<Label> label = label_named(word);
  if (!label) return "unknown label";
  if (group) {
    if (!left_out) open.push_back(choice_log.groups.size());
    const auto depth = static_cast<std::uint32_t>(open.size() - (left_out ? 0 : 1));
    choice_log.groups.push_back({*label, depth, at, at, left_out});
    return nullptr;
  }
  std::uint64_t n = 0;
  std::uint64_t value = 0;
  if (!(words >> n >> value) || n == 0 || n > 0xffff'ffff || value >= n)
    return "a value must be below its range";
  std::uint64_t repeats = 1;
  if (words >> word) {
    const char* end = word.data() + word.size();
    if (word[0] != 'x' || std::from_chars(word.data() + 1, end, repeats).ptr != end || repeats > kMaxDraws)
      return "a repeat looks like x12";
  }
  if (repeats > kMaxDraws - choice_log.draws.size()) return "a choice log has at most 10,000,000 values";
  choice_log.draws.insert(choice_log.draws.end(), repeats,
                          Draw{*label, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(value)});
  return nullptr;
}

}  // namespace

std::string to_json(const ChoiceLogFile& file) {
  Json json = {{"urtrs_choices", ChoiceLogFile::kVersion},
               {"seed", file.seed},
               {"oracle", file.oracle},
               {"seen", file.seen}};
  if (file.over_tcp) json["fabric"] = "tcp";
  if (file.over_adapters) json["fabric"] = "verbs-mock";
  if (file.scenario) json["scenario"] = scenario_json(*file.scenario);
  json["choices"] = Lines(sim::trimmed(file.choice_log)).all();
  return json.dump(1) + "\n";
}

tl::expected<ChoiceLogFile, std::string> parse_choice_log(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto wrong = [](std::string why) { return tl::make_unexpected(std::move(why)); };
  // Older files use other names for two members: "urtrs_tape" and "tape".
  const bool older = json.is_object() && json.contains("urtrs_tape");
  const char* const version = older ? "urtrs_tape" : "urtrs_choices";
  const char* const lines = older ? "tape" : "choices";
  if (!json.is_object() || !json.contains(version)) return wrong("this is not a choice log of urtrs-sim");
  if (json[version] != ChoiceLogFile::kVersion) return wrong("this choice log belongs to another version");
  ChoiceLogFile file;
  if (!json.contains("seed") || !json["seed"].is_number_unsigned()) return wrong("\"seed\" must be a number");
  file.seed = json["seed"].get<std::uint64_t>();
  for (const auto& [name, member] : {std::pair{"oracle", &file.oracle}, {"seen", &file.seen}})
    if (json.contains(name) && json[name].is_string()) *member = json[name].get<std::string>();
  file.over_tcp = json.contains("fabric") && json["fabric"] == "tcp";
  file.over_adapters = json.contains("fabric") && json["fabric"] == "verbs-mock";
  if (json.contains("fabric") && !file.over_tcp && !file.over_adapters)
    return wrong("\"fabric\" must be \"tcp\" or \"verbs-mock\", or absent");
  if (json.contains("scenario")) {
    auto scenario = parse_scenario(json["scenario"]);
    if (!scenario) return wrong(scenario.error());
    file.scenario = std::move(*scenario);
  }
  if (!json.contains(lines) || !json[lines].is_array())
    return wrong("\"" + std::string(lines) + "\" must be a list of lines");
  std::vector<std::size_t> open;
  std::size_t number = 0;
  for (const Json& line : json[lines]) {
    ++number;
    const char* why =
        line.is_string() ? read_line(line.get<std::string>(), file.choice_log, open) : "not a text";
    if (why != nullptr) return wrong("line " + std::to_string(number) + " of the choice log: " + why);
  }
  for (const std::size_t group : open) file.choice_log.groups[group].end = file.choice_log.draws.size();
  return file;
}

int write_choice_log(const std::string& path, const ChoiceLogFile& file) {
  errno = 0;
  std::ofstream out(path, std::ios::trunc);
  out << to_json(file);
  out.close();
  return out ? 0 : (errno != 0 ? errno : EIO);
}

tl::expected<ChoiceLogFile, std::string> read_choice_log(const std::string& path) {
  constexpr std::size_t kMost = 128;  // MiB
  const auto text = read_bounded(path, kMost);
  if (!text) return tl::make_unexpected(path + ": " + text.error());
  auto file = parse_choice_log(*text);
  if (!file) return tl::make_unexpected(path + ": " + file.error());
  return file;
}

}  // namespace rtrs::tools
