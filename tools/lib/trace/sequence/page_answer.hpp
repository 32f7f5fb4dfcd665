// JSON of the upper part of the page: the answer, and the figures over time.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/lib/trace/sequence/answer.hpp"

namespace rtrs::tools::sequence {

// `facts.summary` must not be nullptr.
nlohmann::json answer_json(const Story& story, const PageFacts& facts);

}  // namespace rtrs::tools::sequence
