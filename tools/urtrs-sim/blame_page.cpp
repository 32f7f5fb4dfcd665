#include "tools/urtrs-sim/blame_page.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "tools/lib/trace/choice_log/trace_judge.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/page.hpp"
#include "tools/urtrs-sim/run_page.hpp"

namespace rtrs::sim_tool {

namespace sequence = tools::sequence;

namespace {

constexpr double kWidth = 300, kHeight = 900, kLeft = 70, kTop = 20;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// The curve with events from top to bottom, like the diagram beside it, and the rate from left to right.
std::string curve_svg(const BlameResult& result) {
  const double events = static_cast<double>(std::max<std::uint64_t>(result.events, 1));
  const auto x = [](double rate) { return number(kLeft + rate * (kWidth - kLeft - 10)); };
  const auto y = [events](std::uint64_t event) {
    return number(kTop + static_cast<double>(event) / events * (kHeight - 2 * kTop));
  };
  std::string svg = "<svg viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) + "\">\n";
  std::string line, dots;
  for (const BlamePoint& point : result.points) {
    const std::string at = x(point.rate.rate()), down = y(point.rate.event);
    line += at + "," + down + " ";
    dots += "<circle cx=\"" + at + "\" cy=\"" + down + "\" r=\"3\"><title>event " +
            std::to_string(point.rate.event) + ", " + sim::to_seconds(point.time) + ": " +
            std::to_string(point.rate.failed) + " of " + std::to_string(point.rate.redraws) +
            " redraws fail\n" + escaped(point.said) + "</title></circle>\n";
    if (point.coarse)
      dots += "<text x=\"2\" y=\"" + down + "\">" + sim::to_seconds(point.time).substr(0, 8) + "</text>\n";
  }
  if (result.step) {
    const std::string down = y(result.points[result.step->point].rate.event);
    svg += "<line class=\"step\" x1=\"0\" x2=\"" + number(kWidth) + "\" y1=\"" + down + "\" y2=\"" + down +
           "\"/>\n";
  }
  return svg + "<polyline points=\"" + line + "\"/>\n" + dots + "</svg>\n";
}

// Marks the last recorded step of the diagram before the time of the named step.
std::vector<sequence::WantedMark> mark_of(const sequence::Story& story, const BlameResult& result) {
  if (!result.step || story.steps.empty()) return {};
  const Nanos time = result.points[result.step->point].time;
  const sequence::Step* last = &story.steps.front();
  for (const sequence::Step& step : story.steps)
    if (step.time <= time) last = &step;
  return {{static_cast<std::size_t>(last->file), last->record, step_text(result)}};
}

std::string page_of(const std::string& diagram, const tools::IsolatedResult& failure,
                    const BlameResult& result) {
  return R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>urtrs-sim blame</title>
<style>
body { margin: 0; display: flex; height: 100vh; font: 13px sans-serif; }
#curve { flex: 0 0 320px; padding: 8px; overflow-y: auto; box-sizing: border-box; }
#curve p { margin: 4px 0; overflow-wrap: anywhere; white-space: pre-line; }
iframe { flex: 1; border: 0; border-left: 1px solid #888; }
polyline { fill: none; stroke: #36c; stroke-width: 1.5; }
circle { fill: #36c; }
.step { stroke: #c00; stroke-width: 1.5; }
text { font-size: 10px; fill: #555; }
</style>
</head>
<body>
<div id="curve">
<p><b>)" +
         escaped(failure.signature) + "</b> " + escaped(failure.seen) + "</p>\n<p>" +
         (result.step ? escaped(step_text(result))
                      : "The failure was as likely at the beginning of the run as at its end.") +
         "</p>\n<p>Time of the run downwards; to the right, the part of the redraws that fail (0 to 100 "
         "%).</p>\n" +
         curve_svg(result) + "</div>\n<iframe title=\"sequence diagram\" srcdoc=\"" + escaped(diagram) +
         "\"></iframe>\n</body>\n</html>\n";
}

}  // namespace

std::string write_blame_page(const std::string& file, tools::IsolatedRunner& runner, const OneRun& run,
                             const tools::IsolatedResult& failure, const BlameResult& result) {
  const tools::TraceScratch scratch;
  if (scratch.prefix().empty()) return "no folder in memory for the traces of the run";
  sim::WorldOptions world = run.world;
  world.trace = scratch.prefix();
  runner.run(world, run.choice);
  const std::vector<std::string> traces = tools::traces_of(scratch.prefix());
  int code = 0;
  sequence::Story story = sequence::build_story(traces, {}, code);
  if (story.steps.empty()) return "the run recorded nothing that a diagram could show";
  story = sequence::build_story(traces, mark_of(story, result), code);
  sequence::PageContent content;
  content.ranges = sequence::choose_ranges(story, content.facts, {0, story.steps.size(), ~0U}, kMostSteps);
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << page_of(sequence::story_page(story, content), failure, result);
  if (out.flush()) return "";
  return "cannot write " + file + ": " + std::strerror(errno) + " (errno " + std::to_string(errno) + ")";
}

}  // namespace rtrs::sim_tool
