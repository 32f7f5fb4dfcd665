// Published weaknesses of Linux's RTRS and RNBD servers, and the cases that tell whether a peer has them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "conformance/wire/result.hpp"

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
// The cases of all of them, in the order of their numbers.
std::vector<const Case*> cases_of_cves();

enum class Exposure : std::uint8_t { not_vulnerable, vulnerable, unknown };
const char* to_string(Exposure) noexcept;
Exposure exposure(const Cve&, const std::vector<Result>&) noexcept;

// A line for each, with what was seen.
std::string cve_text(const std::vector<Result>&);
// kSomeFailed: it has at least one of them. kNothingRun: no case of them was run. kAllPassed: it has none
// that a client can see.
int cve_exit_code(const std::vector<Result>&) noexcept;

}  // namespace rtrs::conformance
