// The laws of reliable connections over recorded traces: where both ends of a connection noted what they sent
// and what arrived, the law monitor judges whether a reliable connection could have done that. Times are not
// compared: the two sides have clocks of their own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "conformance/spec/event.hpp"

namespace rtrs::sim {

struct LawFinding {
  unsigned law = 0;  // A1..A18
  std::string text;
};

struct LawCheck {
  std::uint64_t pairs = 0;     // connections of which both ends were seen
  std::uint64_t messages = 0;  // that arrived
  std::vector<bool> paired;    // by number of the trace, the first is 1: one of its connections has its other
                               // end in another trace
  std::uint64_t violations = 0;
  std::vector<LawFinding> findings;  // the first ones
};

// Collects the wire notes of any number of traces.
class LawCollector {
 public:
  // Before the records of each trace.
  void begin_trace() {
    ++trace_;
    first_end_ = ends_.size();
  }
  // Where the traces are recorded at the same time: the records that follow are of trace `trace`, counted
  // from 0 in the order of first use. Such traces have no begin_trace() and end_trace(); all are whole.
  void continue_trace(unsigned trace) noexcept { trace_ = trace; }
  // After them. Not whole: what its connections sent last may be missing.
  void end_trace(bool whole);
  void on(unsigned machine, const spec::Event&);
  LawCheck judge() const;

 private:
  struct Message {
    spec::WireOp op = spec::WireOp::write;
    std::uint32_t imm = 0;
    std::uint32_t length = 0;
    bool known = true;  // the length is
  };
  struct End {
    spec::Key key;
    unsigned trace = 0;
    bool client = false;
    std::vector<Message> sent;
    std::vector<Message> received;
    bool gapped = false;
    bool cut = false;  // the trace ended before the process did
  };
  // What names a connection at both ends: uuid of the path, counter, cid.
  struct Name {
    spec::Uuid path{};
    spec::Uuid session{};
    std::uint16_t recon_cnt = 0;
    std::uint16_t cid = 0;
    auto operator<=>(const Name&) const = default;
  };
  using Place = std::pair<unsigned, unsigned>;  // trace, machine

  class Direction;

  unsigned trace_ = 0;
  std::size_t first_end_ = 0;  // of this trace
  std::vector<End> ends_;
  std::map<std::pair<Place, spec::Key>, std::size_t> current_;
  std::map<Name, std::vector<std::size_t>> named_;
};

}  // namespace rtrs::sim
