// Published vulnerabilities (CVEs) of Linux's RTRS and RNBD servers, and the cases that detect them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "conformance/cases/result.hpp"

namespace rtrs::conformance {

// Defined in server_cases_cve.cpp.
std::span<const Case> cve_cases();

struct Cve {
  const char* id;
  const char* number;  // number of the case; null: a client cannot detect it
  const char* what;
  const char* fixed;  // Linux versions with the fix, from the CVE record
};
std::span<const Cve> cves() noexcept;
// All cases that detect a CVE, sorted by number.
std::vector<const Case*> cases_of_cves();

enum class Exposure : std::uint8_t { not_vulnerable, vulnerable, unknown };
const char* to_string(Exposure) noexcept;
Exposure exposure(const Cve&, const std::vector<Result>&) noexcept;

// One line for each CVE: id, exposure, description.
std::string cve_text(const std::vector<Result>&);
// kSomeFailed: the server is vulnerable to a CVE. kNothingRun: no CVE case was run. kAllPassed: no case
// detected a CVE.
int cve_exit_code(const std::vector<Result>&) noexcept;

}  // namespace rtrs::conformance
