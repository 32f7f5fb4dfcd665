#include "tools/lib/control/metrics/families.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/lib/text/printable.hpp"

namespace rtrs::metrics {

namespace {

std::string escaped(const std::string& text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c;
  }
  return out;
}

// Returns the labels in the form {session="web1",path="..."}; an empty string without labels.
std::string label_text(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "{" : ",", name, escaped(tools::printable(value), true));
  return out.empty() ? out : out + "}";
}

}  // namespace

Families::Family& Families::family(const char* name, const char* help, const char* type) {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [name](const Family& one) { return one.name == name; });
  if (found != all_.end()) return *found;
  return all_.emplace_back(Family{name, help, type, {}});
}

void Families::gauge(const char* name, const char* help, double value, Labels labels) {
  family(name, help, "gauge").lines += fmt::format("{}{} {}\n", name, label_text(labels), value);
}

void Families::counter(const char* name, const char* help, std::uint64_t value, Labels labels) {
  family(name, help, "counter").lines += fmt::format("{}{} {}\n", name, label_text(labels), value);
}

void Families::histogram(const char* name, const char* help, const ServiceTimes::Times& times,
                         Labels labels) {
  std::string& lines = family(name, help, "histogram").lines;
  const std::string all = label_text(labels);
  lines += fmt::format("{}_count{} {}\n{}_sum{} {}\n", name, all, times.count(), name, all,
                       static_cast<double>(times.sum()) / 1e9);
  labels.emplace_back("le", "");
  const auto bucket = [&](std::string le, std::uint64_t count) {
    labels.back().second = std::move(le);
    lines += fmt::format("{}_bucket{} {}\n", name, label_text(labels), count);
  };
  for (const unsigned power : {13U, 15U, 17U, 19U, 21U, 23U, 25U, 27U, 29U, 31U, 33U, 35U}) {
    const std::uint64_t edge = std::uint64_t{1} << power;
    bucket(fmt::format("{}", static_cast<double>(edge) / 1e9), times.count_below(edge));
  }
  bucket("+Inf", times.count());
}

std::string Families::text() const {
  std::string out;
  for (const Family& one : all_)
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n{}", one.name, escaped(one.help, false), one.name,
                       one.type, one.lines);
  return out;
}

}  // namespace rtrs::metrics
