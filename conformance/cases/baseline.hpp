// Known deviations of a peer, stored as JSON, so that only new deviations fail a run:
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
  std::string peer;                         // name of the peer that the file describes
  std::map<std::string, std::string> seen;  // case id: what the peer does instead
  std::set<std::string> hazards;            // ids of those cases that crash the peer
};

// The error is a human-readable message that names the file.
tl::expected<Baseline, std::string> load_baseline(const std::string& file);
// Makes a baseline from the failures in these results. Keeps the deviations in `before` (may be null) whose
// case was not run.
Baseline make_baseline(const std::string& peer, const std::vector<Result>&, const Baseline* before);
// Returns 0 or an errno.
int save_baseline(const std::string& file, const Baseline&);

}  // namespace rtrs::conformance
