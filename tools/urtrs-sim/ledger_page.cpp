#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "tools/lib/text/printable.hpp"
#include "tools/urtrs-sim/ledger.hpp"

namespace rtrs::sim_tool {

namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>urtrs-sim ledger</title><style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .8em; text-align: left }
th { border-bottom: 1px solid #888 } td.n { text-align: right } tr.open td { background: #fdecea }
figure { display: inline-block; margin: 0 2em 1em 0 } polyline { fill: none; stroke: #06c; stroke-width: 2 }
circle { fill: #06c } line { stroke: #ccc } text { font-size: 11px; fill: #555 }
</style></head><body>
<h1>urtrs-sim ledger</h1>
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : tools::printable(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string number_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 && value != static_cast<int>(value) ? "%.1f" : "%.0f", value);
  return text;
}

using Value = std::function<double(const LedgerSweep&)>;

// Returns a chart with one point per sweep; the tooltip of a point has its version and value. A line joins
// the sweeps with the same options and number of seeds; others cannot be compared.
std::string chart(const std::string& title, const std::vector<const LedgerSweep*>& sweeps,
                  const Value& value) {
  constexpr double kWidth = 320;
  constexpr double kHeight = 120;
  double most = 1;
  for (const LedgerSweep* one : sweeps) most = std::max(most, value(*one));
  std::map<std::pair<std::string, std::uint64_t>, std::string> lines;
  std::string dots;
  for (std::size_t at = 0; at < sweeps.size(); ++at) {
    const double share =
        sweeps.size() == 1 ? 0.5 : static_cast<double>(at) / static_cast<double>(sweeps.size() - 1);
    const std::string x = std::to_string(10 + share * (kWidth - 20));
    const std::string y = std::to_string(kHeight - 5 - value(*sweeps[at]) / most * (kHeight - 25));
    lines[{sweeps[at]->checks, parse_seed_range(sweeps[at]->seeds)->size()}] += x + "," + y + " ";
    dots += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"3\"><title>" + escaped(sweeps[at]->version) +
            ", seeds " + escaped(sweeps[at]->seeds) + ": " + number_of(value(*sweeps[at])) +
            "</title></circle>\n";
  }
  std::string joined;
  for (const auto& [what, points] : lines) joined += "<polyline points=\"" + points + "\"/>\n";
  const std::string base = std::to_string(kHeight - 5);
  return "<figure><figcaption>" + title +
         "</figcaption><svg width=\"320\" height=\"120\"><line x1=\"0\" x2=\"320\" y1=\"" + base +
         "\" y2=\"" + base + "\"/><text x=\"0\" y=\"11\">" + number_of(most) + "</text>\n" + joined + dots +
         "</svg></figure>\n";
}

std::string row(const std::vector<std::string>& texts, const std::vector<std::string>& numbers,
                bool open = false) {
  std::string out = open ? "<tr class=\"open\">" : "<tr>";
  for (const std::string& text : texts) out += "<td>" + escaped(text) + "</td>";
  for (const std::string& number : numbers) out += "<td class=\"n\">" + number + "</td>";
  return out + "</tr>\n";
}

std::string sweeps_of(const std::string& worlds, const std::vector<const LedgerSweep*>& sweeps) {
  std::string out = "<h2>Sweeps" + (worlds.empty() ? "" : ":" + escaped(worlds)) + "</h2>\n";
  out += chart("seeds per second of one process", sweeps, [](const LedgerSweep& one) { return one.rate; });
  out +=
      chart("marks reached", sweeps, [](const LedgerSweep& one) { return static_cast<double>(one.marks); });
  out += chart("pairs of states reached", sweeps,
               [](const LedgerSweep& one) { return static_cast<double>(one.pairs); });
  out += chart("failures", sweeps, [](const LedgerSweep& one) { return static_cast<double>(one.failures); });
  out +=
      "<table><tr><th>version</th><th>seeds</th><th>options</th><th>rate</th><th>marks</th><th>pairs</th>"
      "<th>failures</th></tr>\n";
  for (const LedgerSweep* one : sweeps)
    out += row(
        {one->version, one->seeds, one->checks},
        {one->rate > 0 ? number_of(one->rate) : "unknown",
         std::to_string(one->marks) + "/" + std::to_string(one->all_marks),
         std::to_string(one->pairs) + "/" + std::to_string(one->all_pairs), std::to_string(one->failures)});
  return out + "</table>\n";
}

}  // namespace

std::string ledger_page(const Ledger& ledger) {
  std::string page = kHead;
  std::map<std::string, std::vector<const LedgerSweep*>> groups;
  for (const LedgerSweep& one : ledger.sweeps) groups[one.worlds].push_back(&one);
  for (const auto& [worlds, sweeps] : groups) page += sweeps_of(worlds, sweeps);
  page +=
      "<h2>Failing seeds</h2>\n<table><tr><th>case</th><th>command</th><th>rule</th><th>place</th><th>shown "
      "by</th>"
      "<th>fixed by</th></tr>\n";
  for (std::size_t at = 0; at < ledger.cases.size(); ++at) {
    const LedgerCase& one = ledger.cases[at];
    page += row({std::to_string(at + 1), command_of(one), one.rule, one.place, one.shown,
                 one.fixed.empty() ? "open" : one.fixed},
                {}, one.fixed.empty());
  }
  return page + "</table>\n</body></html>\n";
}

}  // namespace rtrs::sim_tool
