// Chooses the steps of a page.
#include <algorithm>
#include <map>
#include <utility>

#include "tools/lib/trace/sequence/page.hpp"

namespace rtrs::tools::sequence {

namespace {

constexpr std::size_t kLeast = 20;  // steps around a place, at least

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

PlaceFinder::PlaceFinder(const std::vector<Place>& places, std::size_t files)
    : records_(files), next_(files) {
  for (const auto& [file, record] : places) records_[static_cast<std::size_t>(file)].push_back(record);
  for (auto& one : records_) std::sort(one.begin(), one.end());
}

void PlaceFinder::on(const Step& step, std::size_t number) {
  const auto file = static_cast<std::size_t>(step.file);
  for (; next_[file] < records_[file].size() && records_[file][next_[file]] <= step.record; ++next_[file])
    steps_.try_emplace({step.file, records_[file][next_[file]]}, number);
}

unsigned usual_groups(const Story& story) {
  constexpr unsigned kQuiet =
      1U << static_cast<unsigned>(Group::local) | 1U << static_cast<unsigned>(Group::wire);
  constexpr unsigned kControl = 1U << static_cast<unsigned>(Group::control);
  return (story.groups & ~(kQuiet | kControl)) != 0 ? ~kQuiet : ~0U;
}

std::vector<Range> choose_ranges(const Story& story, const PageFacts& facts, const Window& window,
                                 std::size_t limit) {
  PlaceFinder finder(places_of(story, facts), story.files.size());
  for (std::size_t at = 0; at < story.steps.size(); ++at) finder.on(story.steps[at], at);
  return choose_ranges(places_of(story, facts), finder.steps(), window, limit);
}

std::vector<Range> choose_ranges(const std::vector<Place>& places, const std::map<Place, std::size_t>& steps,
                                 const Window& window, std::size_t limit) {
  if (limit == 0 || window.to - window.from <= limit) return {{window.from, window.to}};
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

Kept steps_of_page(const std::vector<Range>& ranges, const Story& outline) {
  Kept kept{false, ranges};
  const std::size_t last = outline.steps.size() - 1;
  const auto add = [&kept](std::size_t step) { kept.ranges.push_back({step, step + 1}); };
  add(0);
  add(last);
  for (const Mark& mark : outline.marks) add(static_cast<std::size_t>(mark.step));
  for (const Range& one : ranges) {
    add(one.from == 0 ? 0 : one.from - 1);
    add(std::min(one.to, last));
  }
  kept.ranges = joined(std::move(kept.ranges));
  return kept;
}

}  // namespace rtrs::tools::sequence
