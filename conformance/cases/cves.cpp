#include "conformance/cases/cves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "conformance/cases/report.hpp"

namespace rtrs::conformance {
namespace {

constexpr Cve kCves[] = {
    {"CVE-2024-50062", "C113",
     "INFO_REQ before all connections exist: the server dereferences a null pointer",
     "5.15.168, 6.1.113, 6.6.57, 6.11.4"},
    {"CVE-2026-43184", "C248", "uninitialised bytes of an answer show the former content of its chunk",
     "5.10.252, 5.15.202, 6.1.165, 6.6.128, 6.12.75, 6.18.16, 6.19.6"},
    {"CVE-2026-64033", nullptr, "use after free if the sysfs files of a path cannot be created",
     "5.15.209, 6.1.175, 6.6.142, 6.12.92, 6.18.34, 7.0.11"},
    {"CVE-2026-64269", "C247", "a read of more than a chunk sends memory behind the chunk",
     "5.10.266, 5.15.212, 6.1.178, 6.6.145, 6.12.96, 6.18.39, 7.1.4"},
    {"CVE-2026-97413", "C246", "a user header longer than its offset is read from before the chunk",
     "mainline commit 54bf38b27afc; stable versions unknown"},
};

// True if the server was still serving when the case of `result` began.
bool was_serving(const Result& result, const std::vector<Result>& results) noexcept {
  return std::none_of(results.data(), &result, [](const Result& earlier) { return earlier.gone; });
}

const Result* result_of(const Cve& cve, const std::vector<Result>& results) noexcept {
  if (cve.number == nullptr) return nullptr;
  const auto found = std::find_if(results.begin(), results.end(), [&cve](const Result& one) {
    return one.about->number() == std::string_view(cve.number);
  });
  return found == results.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Cve> cves() noexcept {
  return kCves;
}

std::vector<const Case*> cases_of_cves() {
  std::vector<const Case*> found = cases(Role::server);
  std::erase_if(found, [](const Case* one) {
    return std::none_of(std::begin(kCves), std::end(kCves), [one](const Cve& cve) {
      return cve.number != nullptr && one->number() == std::string_view(cve.number);
    });
  });
  return found;
}

const char* to_string(Exposure exposure) noexcept {
  switch (exposure) {
    case Exposure::not_vulnerable:
      return "not vulnerable";
    case Exposure::vulnerable:
      return "VULNERABLE";
    case Exposure::unknown:
      return "not known";
  }
  return "unknown";
}

Exposure exposure(const Cve& cve, const std::vector<Result>& results) noexcept {
  const Result* const result = result_of(cve, results);
  if (result == nullptr || result->outcome == Outcome::not_run || !was_serving(*result, results))
    return Exposure::unknown;
  return result->outcome == Outcome::failed ? Exposure::vulnerable : Exposure::not_vulnerable;
}

std::string cve_text(const std::vector<Result>& results) {
  std::string out;
  for (const Cve& cve : kCves) {
    const Exposure found = exposure(cve, results);
    out += fmt::format("{:<14}  {:<14}  {}\n", cve.id, to_string(found), cve.what);
    const Result* const result = result_of(cve, results);
    if (found == Exposure::vulnerable) out += fmt::format("     seen: {}\n", result->detail);
    if (found == Exposure::unknown)
      out += fmt::format("     {}\n", cve.number == nullptr
                                          ? "a client cannot detect it; compare the version of the kernel"
                                      : result == nullptr || result->outcome == Outcome::not_run
                                          ? (result == nullptr ? "its case was not run" : result->detail)
                                          : "the server stopped earlier; start it, and run --case " +
                                                std::string(cve.number));
    if (found != Exposure::not_vulnerable) out += fmt::format("     fixed in Linux: {}\n", cve.fixed);
  }
  return out;
}

int cve_exit_code(const std::vector<Result>& results) noexcept {
  bool known = false;
  for (const Cve& cve : kCves) {
    const Exposure found = exposure(cve, results);
    if (found == Exposure::vulnerable) return kSomeFailed;
    known = known || found == Exposure::not_vulnerable;
  }
  return known ? kAllPassed : kNothingRun;
}

}  // namespace rtrs::conformance
