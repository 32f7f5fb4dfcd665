// Result of a case.
#pragma once
#include <string>

#include "conformance/cases/case.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::conformance {

enum class Outcome : std::uint8_t { passed, failed, not_run };

struct Result {
  const Case* about = nullptr;
  Outcome outcome = Outcome::passed;
  std::string detail;  // reason why the case failed or was not run
  Nanos took = 0;
  bool gone = false;  // the server accepted no new session afterwards
};

}  // namespace rtrs::conformance
