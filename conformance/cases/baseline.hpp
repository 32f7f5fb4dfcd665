// What a peer is known to do differently, so that only news counts: a file in JSON.
//     {"schema_version": 1, "peer": "Linux 6.12", "deviations": [{"case": "C038-path-half-open", "seen":
//     "..."}]}
#pragma once
#include <map>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/cases/result.hpp"

namespace rtrs::conformance {

struct Baseline {
  std::string peer;                         // whom it describes
  std::map<std::string, std::string> seen;  // case id: what it does instead
  std::set<std::string> hazards;            // of these: those that it does not survive
};

// Errors are sentences with the file's name.
tl::expected<Baseline, std::string> load_baseline(const std::string& file);
// The failures of these results as a baseline; a deviation that was known and not looked at now is kept.
Baseline make_baseline(const std::string& peer, const std::vector<Result>&, const Baseline* before);
// 0 or an errno.
int save_baseline(const std::string& file, const Baseline&);

}  // namespace rtrs::conformance
