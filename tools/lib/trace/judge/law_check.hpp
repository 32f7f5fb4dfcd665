// Checks the laws of reliable connections on recorded traces. If both ends of a connection recorded what they
// sent and received, the law monitor checks whether a reliable connection could have delivered it. Times are
// not compared, because the two ends have different clocks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance/spec/event.hpp"
#include "tools/lib/trace/judge/law_messages.hpp"

namespace rtrs::trace {

// A record of one of the traces, which are numbered from 0.
struct LawPlace {
  unsigned trace = 0;
  std::uint64_t record = 0;
  std::uint64_t time = 0;
};

struct LawFinding {
  unsigned law = 0;  // number of the law, A1 to A18
  std::string text;
  LawPlace received;             // the message that should not have arrived
  std::optional<LawPlace> sent;  // what was sent in its place, if anything was
};

struct LawCheck {
  std::uint64_t pairs = 0;     // connections with both ends in the traces
  std::uint64_t messages = 0;  // messages that arrived
  std::uint64_t contents = 0;  // messages whose content was compared with the sent message
  // Messages whose content was not compared, because the ends recorded it differently or not at all.
  std::uint64_t uncompared = 0;
  // Messages whose content differs without proving a violation, because another request may have written to
  // the same chunk: a late copy of an older request, or a request that is not in the traces.
  std::uint64_t unproven = 0;
  // Traces (indexes from 0) that match no other trace. Such a trace has connections with messages, and traces
  // of the opposite side exist, but none of them contains the other end of these connections.
  std::vector<unsigned> strangers;
  // Captures that were left out, because the trace of a client that they show was given too.
  std::vector<unsigned> shadowed;
  // Traces without the setup of any connection, so that their connections cannot be paired.
  std::vector<unsigned> without_setup;
  bool one_sided = false;  // all connections were recorded by clients, or all by servers
  bool clients = false;    // a client recorded the setup of a connection
  bool silent = false;     // there are connections, but none has a recorded message
  int error = 0;  // errno with which the temporary file of the messages failed: nothing else is valid
  std::uint64_t violations = 0;
  std::vector<LawFinding> findings;  // the first findings, at most 64
};

// Collects the wire notes of any number of traces. Memory is bounded: the notes of long traces are in a
// temporary file.
class LawCollector {
 public:
  static constexpr std::size_t kInMemory = std::size_t{1} << 18;  // messages
  explicit LawCollector(std::size_t in_memory = kInMemory)
      : store_(std::make_unique<LawMessageStore>(in_memory)) {}
  // Call before the records of each trace. `capture`: it has the messages of both sides, as a client's.
  void begin_trace(bool capture = false) {
    trace_ = traces_++;
    if (capture) captures_.insert(trace_);
    first_end_ = ends_.size();
  }
  // Assigns the next records to trace `trace`, numbered from 0 in the order of first use. Replaces
  // begin_trace() and end_trace() for traces that are recorded at the same time. These traces count as
  // complete.
  void continue_trace(unsigned trace) noexcept {
    trace_ = trace;
    if (trace >= traces_) traces_ = trace + 1;
  }
  // Call after the records of each trace. `whole`: false if the end of the trace may be missing.
  void end_trace(bool whole);
  void on(unsigned machine, const spec::Event&);
  // ignore: the content of messages is not compared.
  enum class Contents : bool { ignore, compare };
  LawCheck judge(Contents contents = Contents::compare) const;

 private:
  using Message = LawMessage;
  struct End {
    spec::Key key;
    unsigned trace = 0;
    unsigned machine = 0;
    bool client = false;
    LawMessages sent;
    LawMessages received;
    std::uint32_t depth = 0;  // number of chunks; 0: unknown
    bool accepted = false;
    bool gapped = false;
    bool cut = false;  // the trace ends earlier than the process did
  };
  // Identifies a connection at both ends: uuids of path and session, reconnect counter, cid.
  struct Name {
    spec::Uuid path{};
    spec::Uuid session{};
    std::uint16_t recon_cnt = 0;
    std::uint16_t cid = 0;
    auto operator<=>(const Name&) const = default;
  };
  using Place = std::pair<unsigned, unsigned>;  // number of the trace, number of the machine
  class Direction;
  class Chunks;

  void connected(const std::pair<Place, spec::Key>& key, const spec::Event&);
  void pair_traces(LawCheck& check) const;

  Message sent(const End& end, std::size_t index) const { return end.sent.at(*store_, index); }
  Message received(const End& end, std::size_t index) const { return end.received.at(*store_, index); }

  std::unique_ptr<LawMessageStore> store_;
  unsigned trace_ = 0;
  unsigned traces_ = 0;
  std::size_t first_end_ = 0;  // index in ends_ of the first connection end in the current trace
  std::uint64_t records_ = 0;
  std::set<unsigned> captures_;
  std::vector<End> ends_;
  std::map<std::pair<Place, spec::Key>, std::size_t> current_;
  std::map<Name, std::vector<std::size_t>> named_;
  std::set<unsigned>
      traces_without_beginning_;  // traces that have messages of a connection, but not its beginning
};

}  // namespace rtrs::trace
