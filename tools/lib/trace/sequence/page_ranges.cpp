// Chooses the steps of a page.
#include <algorithm>
#include <map>
#include <utility>

#include "tools/lib/trace/sequence/page.hpp"

namespace rtrs::tools::sequence {

namespace {

constexpr std::size_t kLeast = 20;  // steps around a place, at least

using Place = std::pair<Index, std::uint64_t>;  // file, record

// Returns the records that the answer names, the most important first.
std::vector<Place> places_of(const Story& story, const PageFacts& facts) {
  std::vector<Place> places;
  for (const Mark& mark : story.marks) {
    const Step& step = story.steps[static_cast<std::size_t>(mark.step)];
    places.emplace_back(step.file, step.record);
  }
  if (facts.summary == nullptr) return places;
  std::vector<AnswerRow> rows = make_answer(story, facts).rows;
  // First one item of each kind, then the others.
  for (std::size_t item = 0, left = rows.size(); left != 0; ++item) {
    left = 0;
    for (const AnswerRow& row : rows) {
      if (item >= row.items.size()) continue;
      ++left;
      if (row.items[item].file == kNone) continue;
      places.emplace_back(row.items[item].file, row.items[item].record);
      places.emplace_back(row.items[item].file, row.items[item].end_record);
    }
  }
  return places;
}

// Returns the step of each place. A record without a step counts as the next step of its file.
std::map<Place, std::size_t> steps_of(const Story& story, const std::vector<Place>& places) {
  std::vector<std::vector<std::uint64_t>> records(story.files.size());
  for (const auto& [file, record] : places) records[static_cast<std::size_t>(file)].push_back(record);
  for (auto& one : records) std::sort(one.begin(), one.end());
  std::vector<std::size_t> next(story.files.size());
  std::map<Place, std::size_t> steps;
  for (std::size_t i = 0; i < story.steps.size(); ++i) {
    const auto file = static_cast<std::size_t>(story.steps[i].file);
    for (; next[file] < records[file].size() && records[file][next[file]] <= story.steps[i].record;
         ++next[file])
      steps.try_emplace({story.steps[i].file, records[file][next[file]]}, i);
  }
  return steps;
}

// Joins ranges that overlap or touch.
std::vector<Range> joined(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.from < b.from; });
  std::vector<Range> out;
  for (const Range& one : ranges) {
    if (!out.empty() && one.from <= out.back().to)
      out.back().to = std::max(out.back().to, one.to);
    else if (one.from < one.to)
      out.push_back(one);
  }
  return out;
}

std::size_t length_of(const std::vector<Range>& ranges) {
  std::size_t length = 0;
  for (const Range& one : ranges) length += one.to - one.from;
  return length;
}

}  // namespace

unsigned usual_groups(const Story& story) {
  constexpr unsigned kQuiet =
      1U << static_cast<unsigned>(Group::local) | 1U << static_cast<unsigned>(Group::wire);
  const bool other = std::any_of(story.steps.begin(), story.steps.end(), [](const Step& step) {
    return step.group != Group::control && (kQuiet >> static_cast<unsigned>(step.group) & 1U) == 0;
  });
  return other ? ~kQuiet : ~0U;
}

std::vector<Range> choose_ranges(const Story& story, const PageFacts& facts, const Window& window,
                                 std::size_t limit) {
  if (limit == 0 || window.to - window.from <= limit) return {{window.from, window.to}};
  const std::vector<Place> places = places_of(story, facts);
  const std::map<Place, std::size_t> steps = steps_of(story, places);
  std::vector<std::size_t> centers;
  const auto add = [&centers](std::size_t step) {
    if (std::find(centers.begin(), centers.end(), step) == centers.end()) centers.push_back(step);
  };
  for (const Place& place : places) {
    const auto step = steps.find(place);
    if (step == steps.end() || step->second < window.from || step->second >= window.to) continue;
    add(step->second);
    if (centers.size() > 1) continue;
    add(window.from);
    add(window.to - 1);
  }
  add(window.from);
  add(window.to - 1);
  const auto around = [&](std::size_t count, std::size_t length) {
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < count; ++i)
      ranges.push_back({centers[i] - std::min(length / 2, centers[i] - window.from),
                        std::min(window.to, centers[i] + length - length / 2)});
    return joined(std::move(ranges));
  };
  // As many places as there is room for, then as many steps around each of them.
  const std::size_t count = std::min(centers.size(), std::max<std::size_t>(1, limit / kLeast));
  std::size_t least = std::max<std::size_t>(1, std::min(kLeast, limit / count)), most = limit;
  while (least < most) {
    const std::size_t middle = least + (most - least + 1) / 2;
    if (length_of(around(count, middle)) <= limit)
      least = middle;
    else
      most = middle - 1;
  }
  return around(count, least);
}

}  // namespace rtrs::tools::sequence
