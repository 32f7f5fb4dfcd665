#include "tools/urtrs/views/fact_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

using Pointer = json::json_pointer;

bool has(const json& shown, const Field& field) {
  return shown.contains(field.name) || (field.old_name != nullptr && shown.contains(Pointer(field.old_name)));
}

json value_of(const json& shown, const Field& field) {
  const json* of = &shown;
  const char* key = field.name;
  if (!shown.contains(key) && field.old_name != nullptr) {
    const Pointer parent = Pointer(field.old_name).parent_pointer();
    if (!shown.contains(parent)) return {};
    of = &shown[parent];
    key = std::strrchr(field.old_name, '/') + 1;
  }
  if (field.kind != Field::Kind::text && field.value == Field::Value::usual && !field.optional)
    return number(*of, key);
  return of->contains(key) ? (*of)[key] : json();
}

json values_of(const Fields& fields, const json& shown) {
  json values = json::object();
  for (const Field& field : fields)
    if (json value = value_of(shown, field); !value.is_null()) values[field.name] = std::move(value);
  return values;
}

Table table_of(const char* name, const Fields& fields) {
  Table table{name, {}, {}};
  std::copy_if(fields.begin(), fields.end(), std::back_inserter(table.fields),
               [](const Field& one) { return one.in_tables; });
  return table;
}

json row_of(const Table& table, const Fields& fields, const json& shown, bool whole) {
  json row = whole ? shown : json::object();
  row.update(values_of(whole ? fields : table.fields, shown));
  return row;
}

}  // namespace

std::string sessname_of(const json& session) {
  return session.value("sessname", session.value("name", ""));
}

std::string pathname_of(const json& path) {
  return path.contains("pathname") ? path.value("pathname", "")
                                   : path.value("src_addr", "") + "@" + path.value("dst_addr", "");
}

std::string path_line(const json& path) {
  const std::string device = path.value("hca_name", "");
  std::string line = fmt::format("path {}  {}  {}{}{}", number(path, "path"), pathname_of(path), device,
                                 device.empty() ? "" : "  ", path.value("state", ""));
  if (path.contains("silent_s")) line += fmt::format("  silent for {:.0f} s", path.value("silent_s", 0.0));
  return line;
}

Table session_table(const Fields& session_fields, const Fields& path_fields, const json& shown,
                    std::string (*below)(const json& path)) {
  Table table = table_of("sessions", session_fields);
  for (const json& session : shown.at("sessions")) {
    Row row{values_of(table.fields, session), {}};
    std::string up;
    for (const json& path : session.value("paths", json::array())) {
      const json values = values_of(path_fields, path);
      up += values.value("state", "") == "connected" ? 'U' : '_';
      for (const Field& field : table.fields)
        if (field.summed && !has(session, field))
          row.values[field.name] = number(row.values, field.name) + number(values, field.name);
      row.children.push_back(below(values));
    }
    row.values["path_cnt"] = up.size();
    row.values["act_path_cnt"] = static_cast<std::uint64_t>(std::count(up.begin(), up.end(), 'U'));
    row.values["path_uu"] = std::move(up);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table path_table(const Fields& fields, const json& shown, const std::string& session, bool whole) {
  Table table = table_of("paths", fields);
  for (const json& one : shown.at("sessions")) {
    const std::string name = sessname_of(one);
    if (!session.empty() && name != session) continue;
    for (const json& path : one.value("paths", json::array())) {
      json row = row_of(table, fields, path, whole);
      row["sessname"] = name;
      row["pathname"] = pathname_of(path);
      row.emplace("posting", "");
      table.rows.push_back({std::move(row), {}});
    }
  }
  return table;
}

Table object_table(const char* name, const Fields& fields, const json& objects, const std::string& session,
                   bool whole) {
  Table table = table_of(name, fields);
  for (const json& object : objects) {
    json row = row_of(table, fields, object, whole);
    if (session.empty() || row.value("sessname", "") == session) table.rows.push_back({std::move(row), {}});
  }
  return table;
}

}  // namespace rtrs::admin
