// Explains a request: its way through client, wire, server and storage, and what took the time.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/trace/hangs/stages.hpp"
#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/why/facts.hpp"

namespace rtrs::tools::why {

using trace::Stage;

struct Span {
  Stage stage = Stage::queue;
  std::int64_t from = 0, to = 0;     // common time
  Index begin = kNone, end = kNone;  // steps; `end` is kNone at the end of the traces
  std::int64_t length() const noexcept { return to - from; }
};

// One sending of a request, and how far it came. Each member is a step or kNone.
struct Try {
  Index posted = kNone, arrived = kNone, delivered = kNone, stored = kNone, answered = kNone,
        received = kNone;
  Index path_lost = kNone;  // client: the state change that ended the try
};

struct Course {
  Index io = kNone;
  Index first = kNone, last = kNone;  // steps; `last` is kNone if the request has no end
  std::vector<Span> spans;
  std::vector<Try> tries;
  std::vector<Index> moves;  // FailedOver
  trace::StageTimes times;
  std::int64_t took = 0;
  // Returns the longest span of the stage that took most; null if there is none.
  const Span* longest() const;
};

Course course_of(const Facts&, Index io);
// Returns, for example, "WRITE 4096 B at sector 8 of device 3, permit 5".
std::string request_name(const Facts&, const Course&);
// Returns "client queue 12.0 us, wire out 5.0 us, ..."; stages without time are left out.
std::string stage_words(const trace::StageTimes&);

// Explains what took the time in a span; no value if no record tells.
std::optional<Sentence> cause_of(const Facts&, const Course&, const Span&);
// `hang`: from the unanswered requests of the traces, if it is one.
Answer why_request(const Facts&, Index io, const trace::Unanswered* hang);
// Returns the request of the record, or kNone.
Index request_at(const Facts&, Index file, std::uint64_t record);
// Returns the finished requests that took at least `least` ns, slowest first, at most `most`.
std::vector<Index> slowest(const Facts&, std::int64_t least, std::size_t most);

// Returns the longest time in which the process that recorded the file did not run, if it is at least half of
// the range.
std::optional<Sentence> pause_in(const Facts&, Index file, std::int64_t from, std::int64_t to);

}  // namespace rtrs::tools::why
