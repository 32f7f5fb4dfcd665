#include "tools/urtrs/doctor/rdma_lines.hpp"

#include <algorithm>

namespace rtrs::admin {

using probe::Line;

Table rdma_checks(const probe::Lines& lines) {
  Table table{"checks",
              {{"grade", "Result", "ok, warn or fail; with --rdma ok, failed or not there"},
               {"device", "Device", "of RDMA; with --rdma only, as those below with a star"},
               {"check", "Check", "what was looked at"},
               {"what", "Finding", "how it is"},
               {"remedy", "Remedy", "a command that fixes it, or what to do", Field::Kind::text, false},
               {"part", "Part", "report, test, measurement or peer", Field::Kind::text, false},
               {"number", "Number", "of a measurement or a limit", Field::Kind::text, false},
               {"unit", "Unit", "of the number", Field::Kind::text, false}},
              {}};
  for (const Line& one : lines) {
    Row row{{{"grade", to_string(one.grade)}, {"check", one.check}, {"what", one.what}}, {}};
    row.values["part"] = to_string(one.part);
    row.values["device"] = one.device;
    if (one.number) {
      row.values["number"] = *one.number;
      row.values["unit"] = one.unit;
    }
    if (!one.remedy.empty()) {
      row.values["remedy"] = one.remedy;
      row.children.push_back(one.remedy);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool any_failed(const probe::Lines& lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const Line& one) { return one.grade == Line::Grade::failed; });
}

}  // namespace rtrs::admin
