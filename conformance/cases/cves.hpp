// Published weaknesses of Linux's RTRS and RNBD servers, and the cases that tell whether a peer has them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/result.hpp"

namespace rtrs::conformance {

// In server_cases_cve.cpp.
std::span<const Case> cve_cases();

struct Cve {
  const char* id;
  const char* number;  // of the case; null: nothing that a client sends shows it
  const char* what;
  const char* fixed;  // versions of Linux, by the CVE record
};
std::span<const Cve> cves() noexcept;
// All cases that a CVE names, sorted by case number.
std::vector<const Case*> cases_of_cves();

enum class Exposure : std::uint8_t { not_vulnerable, vulnerable, unknown };
const char* to_string(Exposure) noexcept;
Exposure exposure(const Cve&, const std::vector<Result>&) noexcept;

// One line for each CVE: id, exposure, description.
std::string cve_text(const std::vector<Result>&);
// kSomeFailed: the server is vulnerable to a CVE. kNothingRun: no case of a CVE was run. kAllPassed: the
// server has no CVE that a client can see.
int cve_exit_code(const std::vector<Result>&) noexcept;

}  // namespace rtrs::conformance
