// Judges a recorded trace: checks its state machines and wire notes against the specification. With traces of
// both sides, also checks the laws of reliable connections.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "conformance/spec/checker.hpp"
#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/judge/law_check.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/time_base.hpp"

namespace rtrs::trace {

enum class CheckVerdict : std::uint8_t { conforming, violating, inconclusive };
const char* to_string(CheckVerdict) noexcept;

struct TraceCheck {
  CheckVerdict verdict = CheckVerdict::inconclusive;
  std::vector<spec::Finding> findings;  // the first findings; `violations` counts all
  std::uint64_t violations = 0;
  std::size_t most_states = 0;
  spec::Coverage coverage;
  spec::WireCounts wire;
  std::uint64_t records = 0;
  trace::TimeBase times;
  std::uint64_t skipped = 0;  // records of a ring dump before the first state of their machine
  std::string difference;     // ring dump: where this core took another number of actions; empty: nowhere
  trace::Reader::Status status = trace::Reader::Status::ok;
  trace::Reader::Stop stop;
  std::vector<std::string> judged;  // descriptions of the parts of the trace that were judged
  // Reasons why a conforming trace proves less than it could. If not empty, the result is inconclusive.
  std::vector<std::string> doubts;
};

// Reads a trace only for its unanswered requests. The error says why the header cannot be read; after a
// damage, the records before it count.
tl::expected<HangCollector, std::string> hangs_of(trace::Source& source);

using CheckProgress = std::function<void(std::uint64_t bytes)>;
// `laws`: receives the wire notes, to be judged after all traces are read; may be nullptr.
// `capture_heartbeat`: heartbeat interval of both peers in ns, for traces made from captures; 0: unknown, so
// the timing of heartbeats is not judged. `hangs`: receives the records as another trace; may be nullptr.
TraceCheck check_trace(trace::Source& source, LawCollector* laws = nullptr,
                       const CheckProgress& progress = {}, std::uint64_t capture_heartbeat = 0,
                       HangCollector* hangs = nullptr);

}  // namespace rtrs::trace
