#include "conformance/cases/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "conformance/cases/cves.hpp"

namespace rtrs::conformance {

namespace {

constexpr unsigned kVerdicts = 6;
// TAP directive for an expected failure.
const std::string kExpected =
    " # TO"
    "DO ";

double seconds_of(Nanos time) {
  return static_cast<double>(time) / 1e9;
}

std::array<unsigned, kVerdicts> count(const Run& run, const std::vector<Result>& results) {
  std::array<unsigned, kVerdicts> counted{};
  for (const Result& one : results) ++counted[static_cast<unsigned>(judge(one, run.baseline))];
  return counted;
}

std::string xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// Escapes text for a Markdown table cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '|' || c == '<' || c == '>' || c == '*' || c == '_' || c == '`' || c == '[')
      out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// Appends `text` to `head`, wrapped between words at `columns`; continuation lines are indented by the length
// of `head`.
std::string wrapped(const std::string& head, const std::string& text, std::size_t columns) {
  std::string out = head;
  std::size_t column = head.size();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > head.size()) {
      const bool fits = column + 1 + (end - at) <= columns;
      out += fits ? " " : "\n" + std::string(head.size(), ' ');
      column = fits ? column + 1 : head.size();
    }
    out += text.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out;
}

nlohmann::ordered_json about(const Case& one) {
  return {{"id", one.id},
          {"title", one.title},
          {"source", one.source},
          {"level", to_string(one.level)},
          {"role", to_string(one.role())},
          {"slow", one.slow}};
}

}  // namespace

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::mended:
      return "passed, was known to deviate";
    case Verdict::failed:
      return "failed";
    case Verdict::differs:
      return "differs";
    case Verdict::deviates:
      return "deviates, known";
    case Verdict::not_run:
      return "not run";
  }
  return "unknown";
}

Verdict judge(const Result& result, const Baseline* baseline) noexcept {
  const bool known = baseline != nullptr && baseline->seen.count(result.about->id) != 0;
  switch (result.outcome) {
    case Outcome::passed:
      return known ? Verdict::mended : Verdict::passed;
    case Outcome::not_run:
      return Verdict::not_run;
    case Outcome::failed:
      break;
  }
  if (known) return Verdict::deviates;
  return result.about->level == Level::quirk ? Verdict::differs : Verdict::failed;
}

std::string text_head(const Case& one) {
  return fmt::format("{:<88}", fmt::format("{} ({})", one.number(), one.title));
}

std::string text_line(const Result& result, const Baseline* baseline) {
  const Verdict verdict = judge(result, baseline);
  std::string line = fmt::format("{} [{}]", text_head(*result.about), to_string(verdict));
  if (result.outcome != Outcome::not_run) line += fmt::format("  {:.2f}s", seconds_of(result.took));
  line += '\n';
  if (verdict == Verdict::not_run) line += fmt::format("     {}\n", result.detail);
  if (result.outcome == Outcome::failed)
    line += fmt::format("     {} ({}, {})\n", result.detail, to_string(result.about->level),
                        result.about->source);
  return line;
}

std::string text_summary(const Run& run, const std::vector<Result>& results) {
  const auto counted = count(run, results);
  std::string out;
  for (unsigned i = 0; i < kVerdicts; ++i) {
    if (counted[i] == 0) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", counted[i], to_string(static_cast<Verdict>(i)));
  }
  return out.empty() ? "nothing was run\n" : out + "\n";
}

std::string tap(const Run& run, const std::vector<Result>& results) {
  std::string out = fmt::format("TAP version 13\n1..{}\n", results.size());
  unsigned number = 0;
  for (const Result& one : results) {
    const Verdict verdict = judge(one, run.baseline);
    out += fmt::format("{} {} - {} {}", one.outcome == Outcome::failed ? "not ok" : "ok", ++number,
                       one.about->number(), one.about->title);
    if (verdict == Verdict::not_run) out += " # SKIP " + one.detail;
    if (verdict == Verdict::deviates) out += kExpected + "known of " + run.baseline->peer;
    if (verdict == Verdict::differs) out += kExpected + "a quirk";
    out += '\n';
    if (one.outcome == Outcome::failed)
      out += fmt::format("  ---\n  message: {}\n  source: {}\n  ...\n", nlohmann::json(one.detail).dump(),
                         one.about->source);
  }
  return out;
}

std::string junit(const Run& run, const std::vector<Result>& results) {
  const auto counted = count(run, results);
  const auto of = [&counted](Verdict verdict) { return counted[static_cast<unsigned>(verdict)]; };
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"urtrs-conform {} {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
      to_string(run.role), xml(run.target), results.size(), of(Verdict::failed),
      of(Verdict::not_run) + of(Verdict::deviates) + of(Verdict::differs));
  for (const Result& one : results) {
    const Verdict verdict = judge(one, run.baseline);
    out += fmt::format("  <testcase name=\"{}\" classname=\"{}\" time=\"{:.3f}\"", xml(one.about->id),
                       to_string(one.about->level), seconds_of(one.took));
    const std::string detail = xml(one.detail + " (" + one.about->source + ")");
    if (verdict == Verdict::failed) {
      out += fmt::format("><failure message=\"{}\"/></testcase>\n", detail);
    } else if (verdict == Verdict::passed || verdict == Verdict::mended) {
      out += "/>\n";
    } else {
      out += fmt::format("><skipped message=\"{}: {}\"/></testcase>\n", to_string(verdict), detail);
    }
  }
  return out + "</testsuite>\n";
}

std::string json(const Run& run, const std::vector<Result>& results) {
  nlohmann::ordered_json all{{"schema_version", 1},  {"tool", "urtrs-conform"},     {"version", run.version},
                             {"target", run.target}, {"role", to_string(run.role)}, {"fabric", run.fabric}};
  if (run.baseline != nullptr) all["baseline"] = run.baseline->peer;
  const auto counted = count(run, results);
  for (unsigned i = 0; i < kVerdicts; ++i) all["summary"][to_string(static_cast<Verdict>(i))] = counted[i];
  all["cases"] = nlohmann::ordered_json::array();
  for (const Result& one : results) {
    nlohmann::ordered_json entry = about(*one.about);
    entry["verdict"] = to_string(judge(one, run.baseline));
    entry["seconds"] = seconds_of(one.took);
    entry["detail"] = one.detail;
    all["cases"].push_back(std::move(entry));
  }
  if (!run.cve) return all.dump(2) + "\n";
  all["cves"] = nlohmann::ordered_json::array();
  for (const Cve& one : cves())
    all["cves"].push_back(
        {{"id", one.id},
         {"verdict", one.number == nullptr ? "not known" : to_string(exposure(one, results))},
         {"what", one.what},
         {"fixed", one.fixed}});
  return all.dump(2) + "\n";
}

std::string markdown(const Run& run, const std::vector<Result>& results) {
  std::string out = fmt::format("# Conformance of {} {}\n\nurtrs-conform {}, fabric {}", to_string(run.role),
                                cell(run.target), cell(run.version), run.fabric);
  if (run.baseline != nullptr) out += ", baseline " + cell(run.baseline->peer);
  out += ": " + text_summary(run, results);
  std::string rest;
  std::string all;
  for (const Result& one : results) {
    const Verdict verdict = judge(one, run.baseline);
    const std::string row = fmt::format("| {} | {} | {} | {} |", one.about->number(), cell(one.about->title),
                                        to_string(one.about->level), to_string(verdict));
    all += fmt::format("{} {:.2f} |\n", row, seconds_of(one.took));
    if (one.outcome == Outcome::failed)
      rest += fmt::format("{} {} | {} |\n", row, cell(one.detail), cell(one.about->source));
  }
  if (!rest.empty())
    out +=
        "\n## What did not pass\n\n| case | title | level | verdict | what happened | rule "
        "|\n|---|---|---|---|---|---|\n" +
        rest;
  if (run.cve) {
    out += "\n## CVEs\n\n| CVE | verdict | what | fixed |\n|---|---|---|---|\n";
    for (const Cve& one : cves())
      out += fmt::format("| {} | {} | {} | {} |\n", one.id,
                         one.number == nullptr ? "not known" : to_string(exposure(one, results)),
                         cell(one.what), cell(one.fixed));
  }
  return out + "\n## All cases\n\n| case | title | level | verdict | seconds |\n|---|---|---|---|---|\n" +
         all;
}

std::string list_text(const std::vector<const Case*>& all) {
  constexpr std::size_t kColumns = 120;
  std::string out;
  for (const Case* one : all)
    out += wrapped(fmt::format("{:<34} {:<7} {:<7} ", one->id, to_string(one->role()), to_string(one->level)),
                   fmt::format("{} [{}]{}", one->title, one->source, one->slow ? " slow" : ""), kColumns) +
           "\n";
  return out;
}

std::string list_json(const std::vector<const Case*>& all) {
  nlohmann::ordered_json list{{"schema_version", 1}};
  list["cases"] = nlohmann::ordered_json::array();
  for (const Case* one : all) list["cases"].push_back(about(*one));
  return list.dump(2) + "\n";
}

int exit_code(const std::vector<Result>& results, const Baseline* baseline) noexcept {
  bool ran = false;
  for (const Result& one : results) {
    if (judge(one, baseline) == Verdict::failed) return kSomeFailed;
    ran = ran || one.outcome != Outcome::not_run;
  }
  return ran ? kAllPassed : kNothingRun;
}

}  // namespace rtrs::conformance
