// Judges a recorded trace: the specification over its machines and its wire notes, the laws of reliable
// connections over what both sides noted.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/spec/checker.hpp"
#include "tools/lib/trace/judge/law_check.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::sim {

enum class CheckVerdict : std::uint8_t { conforming, violating, inconclusive };
const char* to_string(CheckVerdict) noexcept;

struct TraceCheck {
  CheckVerdict verdict = CheckVerdict::inconclusive;
  std::vector<spec::Finding> findings;  // the first ones
  std::uint64_t violations = 0;
  std::size_t most_states = 0;
  spec::Coverage coverage;
  spec::WireCounts wire;
  std::uint64_t records = 0;
  trace::Reader::Status status = trace::Reader::Status::ok;
  trace::Reader::Stop stop;
  std::vector<std::string> judged;  // in words: what the verdict is about
  // Why a conforming trace proves less than it could. Not empty: inconclusive.
  std::vector<std::string> doubts;
};

using CheckProgress = std::function<void(std::uint64_t bytes)>;
// `laws`, where given, gets the wire notes, to be judged when all traces were read. `capture_heartbeat`: the
// heartbeat interval of both peers in ns, for traces that were made from captures; 0: not known, so how often
// heartbeats come is not judged there.
TraceCheck check_trace(trace::Source& source, LawCollector* laws = nullptr,
                       const CheckProgress& progress = {}, std::uint64_t capture_heartbeat = 0);

}  // namespace rtrs::sim
