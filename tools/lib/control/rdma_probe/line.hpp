// What a probe of RDMA devices says: a line each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rtrs::probe {

struct Line {
  enum class Grade : std::uint8_t { ok, failed, absent };
  enum class Part : std::uint8_t { report, test, measurement, peer };
  Part part = Part::report;
  std::string device{};  // empty: of the host
  std::string check{};
  Grade grade = Grade::ok;
  std::string what{};
  std::string remedy{};            // what to do; empty where there is nothing
  std::optional<double> number{};  // of a measurement, or of a limit
  const char* unit = "";           // of the number
};

using Lines = std::vector<Line>;

inline const char* to_string(Line::Grade grade) noexcept {
  return grade == Line::Grade::ok ? "ok" : grade == Line::Grade::failed ? "failed" : "not there";
}
inline const char* to_string(Line::Part part) noexcept {
  switch (part) {
    case Line::Part::report:
      return "report";
    case Line::Part::test:
      return "test";
    case Line::Part::measurement:
      return "measurement";
    case Line::Part::peer:
      return "peer";
  }
  return "";
}

}  // namespace rtrs::probe
