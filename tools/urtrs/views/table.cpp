#include "tools/urtrs/views/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/nearest_word.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

std::string cell(const json& row, const Field& field, char unit) {
  const auto found = row.find(field.name);
  if (found == row.end()) return "";
  if (found->is_null()) return field.kind == Field::Kind::seconds ? "never" : "";
  if (field.kind == Field::Kind::seconds) return fmt::format("{}", found->get<double>());
  if (field.kind == Field::Kind::bytes && found->is_number_unsigned())
    return bytes_text(found->get<std::uint64_t>(), unit);
  if (found->is_string()) return printable(found->get<std::string>());
  if (found->is_number_float()) return fmt::format("{:.1f}", found->get<double>());
  return printable(tools::json_text(*found));
}

// Number of characters in a UTF-8 text.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t to, bool right) {
  const std::string space(to - std::min(to, width(text)), ' ');
  return right ? space + text : text + space;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    const std::vector<Field>& fields) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], fields[i].kind != Field::Kind::text);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::vector<std::string> totals_of(const Table& table, const std::vector<Field>& fields, char unit) {
  std::vector<std::string> cells;
  for (const Field& field : fields) {
    std::uint64_t sum = 0;
    for (const Row& row : table.rows)
      if (row.values.contains(field.name) && row.values[field.name].is_number_unsigned()) {
        const auto more = row.values[field.name].get<std::uint64_t>();
        sum = more > UINT64_MAX - sum ? UINT64_MAX : sum + more;
      }
    cells.push_back(cells.empty() ? "total" : field.summed ? cell(json{{field.name, sum}}, field, unit) : "");
  }
  return cells;
}

std::string as_table(const Table& table, const std::vector<Field>& fields, const Options& options) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Field& field : fields) lines[0].emplace_back(field.header);
  for (const Row& row : table.rows) {
    lines.emplace_back();
    for (const Field& field : fields) lines.back().push_back(cell(row.values, field, options.unit));
  }
  const bool sums = std::any_of(fields.begin(), fields.end(), [](const Field& one) { return one.summed; });
  const bool totals = options.totals && sums && table.rows.size() > 1;
  if (totals) lines.push_back(totals_of(table, fields, options.unit));
  std::vector<std::size_t> widths(fields.size());
  for (std::size_t at = options.headers ? 0 : 1; at < lines.size(); ++at)
    for (std::size_t i = 0; i < fields.size(); ++i) widths[i] = std::max(widths[i], width(lines[at][i]));
  std::string text = options.headers ? line_of(lines[0], widths, fields) : "";
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    text += line_of(lines[i + 1], widths, fields);
    if (!options.tree) continue;
    const auto& children = table.rows[i].children;
    for (std::size_t j = 0; j < children.size(); ++j)
      text += (j + 1 == children.size() ? "`- " : "|- ") + printable(children[j]) + "\n";
  }
  if (totals) text += line_of(lines.back(), widths, fields);
  return text;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    most = std::max(most, width(text.substr(at, end - at)));
    at = end + 1;
  }
  return most;
}

std::string csv_cell(const json& row, const Field& field) {
  const auto found = row.find(field.name);
  if (found == row.end() || found->is_null()) return "";
  if (!found->is_string()) return printable(tools::json_text(*found));
  const std::string text = printable(found->get<std::string>());
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string as_csv(const Table& table, const std::vector<Field>& fields, bool headers) {
  const auto line = [&fields](auto of) {
    std::string text;
    for (std::size_t i = 0; i < fields.size(); ++i) text += (i == 0 ? "" : ",") + of(fields[i]);
    return text + "\n";
  };
  std::string text = headers ? line([](const Field& field) { return std::string(field.name); }) : "";
  for (const Row& row : table.rows)
    text += line([&row](const Field& field) { return csv_cell(row.values, field); });
  return text;
}

std::string as_json(const Table& table, const std::vector<Field>& fields, int schema_version) {
  json rows = json::array();
  for (const Row& row : table.rows) {
    json one = json::object();
    for (const Field& field : fields)
      if (row.values.contains(field.name)) one[field.name] = row.values[field.name];
    rows.push_back(std::move(one));
  }
  const json all{{"schema_version", schema_version}, {table.name, std::move(rows)}};
  return tools::json_text(all, 2) + "\n";
}

}  // namespace

std::string bytes_text(std::uint64_t bytes, char unit) {
  std::size_t power = 0;
  if (unit != '\0') {
    power = kUnits.find(unit);
  } else {
    for (std::uint64_t left = bytes; left >= 1024 && power + 1 < kUnits.size(); left /= 1024) ++power;
  }
  if (power == 0) return std::to_string(bytes);
  const auto divisor = static_cast<double>(std::uint64_t{1} << (10 * power));
  return fmt::format("{:.3f}{}", static_cast<double>(bytes) / divisor, kUnits[power]);
}

tl::expected<std::vector<Field>, Mistake> choose(const std::vector<Field>& fields,
                                                 const std::vector<std::string>& wanted) {
  const bool replaces = std::any_of(wanted.begin(), wanted.end(), [](const std::string& one) {
    return one[0] != '+' && one[0] != '-' && one != "all";
  });
  const bool everything = std::find(wanted.begin(), wanted.end(), "all") != wanted.end();
  std::vector<Field> chosen;
  for (const Field& field : fields)
    if (everything || (!replaces && field.by_default)) chosen.push_back(field);
  for (const std::string& one : wanted) {
    if (one == "all") continue;
    const std::string name = one[0] == '+' || one[0] == '-' ? one.substr(1) : one;
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return name == field.name; });
    if (found == fields.end()) {
      std::vector<std::string> names;
      for (const Field& field : fields) names.emplace_back(field.name);
      const std::string near = tools::nearest_word(name, names);
      return tl::unexpected(Mistake{fmt::format("unknown field \"{}\"", name),
                                    near.empty() ? fmt::format("expected one of {}", fmt::join(names, ", "))
                                                 : fmt::format("did you mean \"{}\"?", near),
                                    false});
    }
    const auto same = [&found](const Field& field) { return field.name == found->name; };
    const bool there = std::any_of(chosen.begin(), chosen.end(), same);
    if (one[0] == '-')
      chosen.erase(std::remove_if(chosen.begin(), chosen.end(), same), chosen.end());
    else if (!there)
      chosen.push_back(*found);
  }
  if (chosen.empty()) return tl::unexpected(Mistake{"no field is left to show", "", false});
  return chosen;
}

tl::expected<std::string, Mistake> render(const Table& table, const Options& options, int schema_version) {
  // JSON is for programs, so it contains all fields unless the user selected fields.
  const bool all = options.format == Format::json && options.fields.empty();
  const auto fields = choose(table.fields, all ? std::vector<std::string>{"all"} : options.fields);
  if (!fields) return tl::unexpected(fields.error());
  switch (options.format) {
    case Format::json:
      return as_json(table, *fields, schema_version);
    case Format::csv:
      return as_csv(table, *fields, options.headers);
    case Format::table:
      break;
  }
  std::string text = as_table(table, *fields, options);
  if (options.width == 0 || !options.fields.empty()) return text;
  auto left = *fields;
  for (const char* spare : table.spare) {
    if (widest(text) <= options.width) break;
    left.erase(std::remove_if(left.begin(), left.end(),
                              [spare](const Field& one) { return std::string_view(one.name) == spare; }),
               left.end());
    text = as_table(table, left, options);
  }
  return text;
}

}  // namespace rtrs::admin
