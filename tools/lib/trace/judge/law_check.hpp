// The laws of reliable connections over recorded traces: where both ends of a connection noted what they sent
// and what arrived, the law monitor judges whether a reliable connection could have done that. Times are not
// compared: the two sides have clocks of their own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
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
  std::uint64_t contents = 0;  // of these, whose content was compared with what was sent
  // Arrived, and their content was not compared: recorded differently at the two ends, or not at all.
  std::uint64_t uncompared = 0;
  // Compared and different, where another request for the same chunk may have written into it meanwhile: an
  // older copy that acts late, or a request that the traces do not have. Proves nothing.
  std::uint64_t unproven = 0;
  // Traces by their number, from 0, that have connections with messages while other traces are of the other
  // side, and no connection of theirs has its other end there.
  std::vector<unsigned> strangers;
  bool one_sided = false;  // all connections were recorded by clients, or all by servers
  bool silent = false;     // there are connections, and no message of any of them was recorded
  std::uint64_t violations = 0;
  std::vector<LawFinding> findings;  // the first ones
};

// Collects the wire notes of any number of traces.
class LawCollector {
 public:
  // Before the records of each trace.
  void begin_trace() {
    trace_ = traces_++;
    first_end_ = ends_.size();
  }
  // Where the traces are recorded at the same time: the records that follow are of trace `trace`, counted
  // from 0 in the order of first use. Such traces have no begin_trace() and end_trace(); all are whole.
  void continue_trace(unsigned trace) noexcept {
    trace_ = trace;
    if (trace >= traces_) traces_ = trace + 1;
  }
  // After them. Not whole: what its connections sent last may be missing.
  void end_trace(bool whole);
  void on(unsigned machine, const spec::Event&);
  // Contents::ignore: what messages say is not compared.
  enum class Contents : bool { ignore, compare };
  LawCheck judge(Contents contents = Contents::compare) const;

 private:
  struct Message {
    spec::WireOp op = spec::WireOp::write;
    std::uint32_t imm = 0;
    std::uint32_t length = 0;
    bool known = true;  // the length is
    std::uint32_t head_size = 0;
    std::uint64_t head = 0;   // digest of what a machine parses
    std::uint64_t data = 0;   // digest of the rest, 0: none
    std::uint64_t order = 0;  // of its record among all records
  };
  struct End {
    spec::Key key;
    unsigned trace = 0;
    unsigned machine = 0;
    bool client = false;
    std::vector<Message> sent;
    std::vector<Message> received;
    std::uint32_t depth = 0;  // chunks; 0: not known
    bool accepted = false;
    bool gapped = false;
    bool cut = false;  // the trace ended before the process did
  };
  // Identifies a connection at both ends: uuids of path and session, reconnect counter, cid.
  struct Name {
    spec::Uuid path{};
    spec::Uuid session{};
    std::uint16_t recon_cnt = 0;
    std::uint16_t cid = 0;
    auto operator<=>(const Name&) const = default;
  };
  using Place = std::pair<unsigned, unsigned>;  // trace, machine
  class Direction;
  class Chunks;

  void connected(const std::pair<Place, spec::Key>& key, const spec::Event&);
  void pair_traces(LawCheck& check) const;

  unsigned trace_ = 0;
  unsigned traces_ = 0;
  std::size_t first_end_ = 0;  // of this trace
  std::uint64_t records_ = 0;
  std::vector<End> ends_;
  std::map<std::pair<Place, spec::Key>, std::size_t> current_;
  std::map<Name, std::vector<std::size_t>> named_;
  std::set<unsigned> blind_;  // traces with messages of connections whose beginning they do not have
};

}  // namespace rtrs::sim
