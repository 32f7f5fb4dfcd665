#include "tools/urtrs-sim/result_command.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "tools/lib/text/printable.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/replace_file.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/sweep_result.hpp"
#include "tools/urtrs-sim/version_comment.hpp"

namespace rtrs::sim_tool {

namespace {

// Writes the file of the times before the result: whoever finds a result also finds its times.
int write_result(const std::string& file, const SweepResult& result, const SweepTimes& times) {
  for (const auto& [name, text] :
       {std::pair{file + kTimesEnding, to_text(times)}, std::pair{file, to_text(result)}})
    if (const int error = replace_file(name, text))
      return usage(cannot_write(name, error) + "; name another file");
  answer()["result"] = file;
  answer()["failures"] = result.failures.json();
  const std::uint64_t failed = result.failures.total();
  std::printf("%llu failure%s; result of seeds %s: %s\n", static_cast<unsigned long long>(failed),
              failed == 1 ? "" : "s", text_of(result.seeds).c_str(), file.c_str());
  return failed == 0 ? kOk : kViolated;
}

// Command and options, without the range of seeds.
std::string options_of(const SweepResult& result) {
  return result.command + result.worlds + result.checks;
}

struct Part {
  std::string file;
  SweepResult result;
};

// Replaces folders by their files *.json. Returns false after printing an error.
bool list_files(const std::vector<std::string>& given, std::vector<std::string>& files) {
  for (const std::string& one : given) {
    std::error_code error;
    if (!std::filesystem::is_directory(one, error)) {
      files.push_back(one);
      continue;
    }
    const std::size_t before = files.size();
    for (auto at = std::filesystem::directory_iterator(one, error);
         !error && at != std::filesystem::directory_iterator(); at.increment(error))
      if (at->path().extension() == ".json" && at->is_regular_file(error)) files.push_back(at->path());
    if (error) return usage("cannot read the folder " + one + ": " + error.message()), false;
    if (files.size() == before)
      return usage("there is no file *.json in " + one + "; name the results"), false;
  }
  return true;
}

bool read_parts(const std::vector<std::string>& files, std::vector<Part>& parts) {
  for (const std::string& file : files) {
    auto result = read_result(file);
    if (!result) return usage(tools::printable(file) + ": " + result.error()), false;
    parts.push_back({file, std::move(*result)});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::pair(a.result.seeds.first, a.result.seeds.end) <
           std::pair(b.result.seeds.first, b.result.seeds.end);
  });
  return true;
}

// Leaves out the parts that are the file `out`, if other parts have its seeds: an earlier merge has written
// it. Returns why this is impossible; empty: it is possible.
std::string leave_out_output(std::vector<Part>& parts, const std::string& out) {
  const auto is_output = [&out](const Part& part) {
    std::error_code error;
    return part.file == out || std::filesystem::equivalent(part.file, out, error);
  };
  const auto old = std::find_if(parts.begin(), parts.end(), is_output);
  if (old == parts.end()) return "";
  const SeedRange range = old->result.seeds;
  SeedRange others{~std::uint64_t{0}, 0};
  bool overlap = false;
  for (const Part& part : parts) {
    if (is_output(part)) continue;
    const SeedRange& seeds = part.result.seeds;
    others = {std::min(others.first, seeds.first), std::max(others.end, seeds.end)};
    overlap = overlap || (seeds.first < range.end && range.first < seeds.end);
  }
  if (!overlap) return "";
  const std::string name = tools::printable(out);
  if (range.first < others.first || range.end > others.end)
    return name + " has the seeds " + text_of(range) + ", and the other results only " + text_of(others) +
           "; write to another file";
  std::printf("%s is the output of an earlier merge, and is written again\n", name.c_str());
  parts.erase(std::remove_if(parts.begin(), parts.end(), is_output), parts.end());
  return "";
}

// Returns what prevents adding two parts; empty: nothing.
std::string difference(const Part& one, const Part& other) {
  const auto differ = [&](const char* what, const std::string& first, const std::string& second) {
    return tools::printable(other.file) + " has " + what + " \"" + second + "\", and " +
           tools::printable(one.file) + " \"" + first +
           "\"; only results of one version and of the same options can be merged";
  };
  if (one.result.version != other.result.version)
    return differ("version", one.result.version, other.result.version);
  const std::string options = options_of(one.result);
  if (options != options_of(other.result)) return differ("options", options, options_of(other.result));
  return "";
}

// Removes parts that occur twice. Returns the reason why the ranges of the parts cannot be added; empty:
// none.
std::string check_ranges(std::vector<Part>& parts) {
  for (std::size_t at = 1; at < parts.size();) {
    const Part& before = parts[at - 1];
    const Part& now = parts[at];
    if (std::string why = difference(before, now); !why.empty()) return why;
    const SeedRange& left = before.result.seeds;
    const SeedRange& right = now.result.seeds;
    const std::string both = tools::printable(before.file) + " and " + tools::printable(now.file);
    if (left.first == right.first && left.end == right.end) {
      if (to_text(before.result) != to_text(now.result))
        return both + " are different results of the seeds " + text_of(left) +
               "; the same seeds must give the same result, so find the first difference with diff";
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    if (right.first < left.end)
      return both + " overlap: seeds " + text_of(left) + " and " + text_of(right) + "; leave one of them out";
    ++at;
  }
  return "";
}

// Prints the ranges of `whole` that no part has. Returns true if there is none.
bool check_gaps(const std::vector<Part>& parts, const SeedRange& whole) {
  constexpr std::size_t kMostPrinted = 20;
  std::vector<SeedRange> gaps;
  std::uint64_t next = whole.first;
  for (const Part& part : parts) {
    if (part.result.seeds.first > next) gaps.push_back({next, part.result.seeds.first});
    next = part.result.seeds.end;
  }
  if (next < whole.end) gaps.push_back({next, whole.end});
  if (gaps.empty()) return true;
  std::string text = std::to_string(gaps.size()) + " range" + (gaps.size() == 1 ? "" : "s") +
                     " of seeds missing; make " + (gaps.size() == 1 ? "it" : "them") + " with";
  const SweepResult& like = parts.front().result;
  for (std::size_t at = 0; at < std::min(gaps.size(), kMostPrinted); ++at)
    text += "\n  urtrs-sim " + options_of(like) + " --seeds " + text_of(gaps[at]) + " --result " +
            text_of(gaps[at]) + ".json";
  if (gaps.size() > kMostPrinted) text += "\n  ...";
  complain(text);
  return false;
}

// Returns the times of all parts; nullopt after printing an error.
std::optional<SweepTimes> add_times(const std::vector<Part>& parts) {
  SweepTimes sum;
  for (const Part& part : parts) {
    const auto times = read_times(part.file);
    if (!times) return usage(times.error()), std::nullopt;
    sum.seeds += times->seeds;
    sum.process_s += times->process_s;
  }
  return sum;
}

void print_reached(const char* what, const std::vector<Reached>& all) {
  const auto reached =
      std::count_if(all.begin(), all.end(), [](const Reached& one) { return one.seeds != 0; });
  std::printf("%td of %zu %s reached\n", reached, all.size(), what);
}

// An unwritable file should not be reported only after hours of work.
int check_file(const std::string& result) {
  for (const std::string& file : {result, result + kTimesEnding})
    if (const int error = can_replace(file))
      return usage(cannot_write(file, error) + "; name a file in a folder that exists and can be written");
  return kOk;
}

}  // namespace

int sweep_to_result(const Arguments& given, SweepOptions options) {
  for (const auto& [option, used] :
       {std::pair{"--state", !given.state.empty()}, std::pair{"--time", !given.time.empty()},
        std::pair{"--artifacts", !given.artifacts.empty()}})
    if (used)
      return usage(std::string("--result excludes ") + option +
                   "; a result has all seeds of its range, and only their numbers");
  if (const int code = check_file(given.result)) return code;
  SweepResult result;
  result.version = this_version();
  result.worlds = filter_text(given);
  // Files of histories do not change the result.
  Arguments checks = given;
  checks.histories.clear();
  result.checks = check_text(checks);
  result.seeds = options.seeds;
  options.result = &result;
  const auto began = std::chrono::steady_clock::now();
  const int code = sweep(options);
  if (code != kOk) return code;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
  result.failures.print(result.worlds, version_comment());
  return write_result(given.result, result, {result.count("seeds"), elapsed.count() * options.jobs});
}

int scenarios_to_result(const Arguments& given, ScenarioOptions options) {
  for (const auto& [option, used] :
       {std::pair{"--file", !given.file.empty()}, std::pair{"--no-fence", given.no_fence}})
    if (used)
      return usage(std::string("--result excludes ") + option +
                   "; a result has scenarios that every machine has, as they are meant");
  if (const int code = check_file(given.result)) return code;
  SweepResult result;
  result.version = this_version();
  result.command = "scenarios";
  result.checks = given.only.empty() ? "" : " --only " + given.only;
  result.seeds = options.seeds;
  result.counts = {{"seeds", options.seeds.size()}, {"runs", 0}, {"events", 0}};
  options.result = &result;
  const auto began = std::chrono::steady_clock::now();
  if (const int code = play_scenarios(options)) return code;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
  result.failures.print("", version_comment());
  return write_result(given.result, result, {result.count("seeds"), elapsed.count()});
}

int merge_results(const MergeCommand& command) {
  std::vector<std::string> files;
  std::vector<Part> parts;
  if (!list_files(command.files, files) || !read_parts(files, parts)) return kUsage;
  if (const std::string why = leave_out_output(parts, command.out); !why.empty()) return usage(why);
  if (const std::string why = check_ranges(parts); !why.empty()) return usage(why);
  SeedRange whole{parts.front().result.seeds.first, parts.back().result.seeds.end};
  if (!command.seeds.empty()) {
    const auto wanted = parse_seed_range(command.seeds);
    if (!wanted) return wrong_seeds(command.seeds);
    if (whole.first < wanted->first || whole.end > wanted->end)
      return usage("the results have the seeds " + text_of(whole) + ", which --seeds " + text_of(*wanted) +
                   " does not contain; leave some of the files out");
    whole = *wanted;
  }
  if (!check_gaps(parts, whole)) return kUsage;
  const auto times = add_times(parts);
  if (!times) return kUsage;
  SweepResult sum = parts.front().result;
  sum.seeds = whole;
  for (std::size_t at = 1; at < parts.size(); ++at)
    if (!add_result(sum, parts[at].result))
      return usage(tools::printable(parts[at].file) + ": its names or numbers do not fit those of " +
                   tools::printable(parts.front().file) + "; write it again");
  answer() = {{"command", "merge"}, {"results", parts.size()}, {"seeds", text_of(whole)}};
  if (times->seeds != 0) {
    answer()["seeds_per_process_s"] = times->rate();
    std::printf("%llu seeds in %.1f s of processes, %.0f seeds/s each\n",
                static_cast<unsigned long long>(times->seeds), times->process_s, times->rate());
  }
  if (!sum.marks.empty()) print_reached("marks", sum.marks);
  if (!sum.pairs.empty()) print_reached("pairs of states", sum.pairs);
  sum.failures.print(sum.worlds, "# " + sum.version);
  return write_result(command.out, sum, *times);
}

CLI::App* merge_options(CLI::App& app, MergeCommand& command) {
  CLI::App* merge = app.add_subcommand("merge", "add the results of ranges of seeds");
  merge
      ->add_option(
          "results", command.files,
          "files that sweep --result or scenarios --result wrote, and folders with such files *.json")
      ->required()
      ->type_name("FILE");
  merge->add_option("--out", command.out, "the result to write")->required()->type_name("FILE");
  merge->add_option("--seeds", command.seeds,
                    "A..B, without B: fail if the results do not have all these seeds");
  merge->add_flag_callback(
      "--json", [] {}, "one object instead of the text");
  return merge;
}

}  // namespace rtrs::sim_tool
