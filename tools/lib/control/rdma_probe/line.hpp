// Results of a probe of RDMA devices. Each result is one line of the output.
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
  std::string device{};  // empty: the line is about the host
  std::string check{};
  Grade grade = Grade::ok;
  std::string what{};
  std::string remedy{};            // advice to the user; empty: none needed
  std::optional<double> number{};  // value of a measurement or a limit
  const char* unit = "";           // unit of `number`
};

using Lines = std::vector<Line>;

inline const char* to_string(Line::Grade grade) noexcept {
  return grade == Line::Grade::ok ? "ok" : grade == Line::Grade::failed ? "failed" : "not available";
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
