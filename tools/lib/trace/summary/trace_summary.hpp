// Summary of one trace, made while its records are read: figures over time, lost paths, failed requests.
// Memory does not grow with the trace, except for the latencies that LatencyMeter keeps.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/record/format.hpp"
#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/summary/latency.hpp"
#include "tools/lib/trace/summary/timeline.hpp"

namespace rtrs::trace {

// A record of the trace at which something begins or ends.
struct At {
  std::uint64_t record = 0;
  Nanos time = 0;
};

// A path of a client was connected, and then was not, before the session was to close.
struct PathLoss {
  InstanceId instance = 0;
  std::uint16_t path = 0;
  At from;
  std::optional<At> to;           // connected again; nullopt: not in the trace
  std::string reason;             // word of the trace (docs/reasons.md); empty: none
  std::uint64_t attempts = 0;     // failed attempts to connect
  std::uint64_t failovers = 0;    // requests that were sent again over another path
  std::optional<At> failed_over;  // first of them
};

// No path of a client was connected, after one had been.
struct LinkLoss {
  InstanceId instance = 0;
  At from;
  std::optional<At> to;
  std::uint64_t waiting = 0;  // requests in flight when it began
};

// Keeps the first and the last elements of a list that may be long.
template <class T>
class Ends {
 public:
  static constexpr std::size_t kKept = 128;
  // The reference is valid until the next call.
  T& add(T one) {
    ++count_;
    if (kept_.size() == kKept) kept_.erase(kept_.begin() + kKept / 2);
    return kept_.emplace_back(std::move(one));
  }
  const std::vector<T>& kept() const noexcept { return kept_; }
  std::vector<T>& kept() noexcept { return kept_; }
  std::uint64_t count() const noexcept { return count_; }  // with those that are not kept

 private:
  std::vector<T> kept_;
  std::uint64_t count_ = 0;
};

class TraceSummary {
 public:
  struct PathName {
    InstanceId instance = 0;
    std::uint16_t path = 0;
    bool operator==(const PathName&) const = default;
  };
  // All figures of the clients, or of the servers in the trace.
  struct Side {
    Timeline timeline;
    std::vector<PathName> paths;  // those of the timeline, in its order
    std::uint64_t completed = 0, failed = 0;
    std::optional<At> first_failed;
    std::optional<Slow> slowest;
  };

  // `header` must outlive the calls of add(). `hangs`: receives the records, too; may be nullptr.
  explicit TraceSummary(const Header& header, HangCollector* hangs = nullptr);
  void add(const Record& record);
  // Call after the last record.
  void finish();

  const Side& clients() const noexcept { return sides_[1]; }
  const Side& servers() const noexcept { return sides_[0]; }
  const Ends<PathLoss>& path_losses() const noexcept { return path_losses_; }
  const Ends<LinkLoss>& link_losses() const noexcept { return link_losses_; }
  const LatencyMeter& latency() const noexcept { return meter_; }
  // Ends of sessions of clients that nobody asked for, with their reason.
  const Ends<std::pair<At, std::string>>& broken_sessions() const noexcept { return broken_; }
  // True for a dump of the ring, which has no actions: it tells neither ends of requests nor states of paths.
  bool counts_only() const noexcept { return counts_only_; }

 private:
  struct Machine {
    bool begun = false;
    bool client = false;
    bool closing = false;                             // a close was requested
    std::map<std::uint16_t, spec::PathState> states;  // by path
  };
  void take(const Record& record, const spec::Event& event);
  void path_changed(const Record& record, const spec::Event& event, Machine& machine);
  void link_changed(const Record& record, const spec::Event& event, const Machine& machine);
  void forget(InstanceId instance, At at);
  PathLoss* last_loss(InstanceId instance, std::uint16_t path);
  std::size_t number_of(Side& side, PathName name);

  const Header& header_;
  HangCollector* hangs_;
  Translator translator_;
  LatencyMeter meter_;
  Side sides_[2];
  std::map<InstanceId, Machine> machines_;
  Ends<PathLoss> path_losses_;
  Ends<LinkLoss> link_losses_;
  Ends<std::pair<At, std::string>> broken_;
  bool counts_only_ = false;
};

// Summaries of the traces of one run.
struct RunSummary {
  std::vector<std::unique_ptr<TraceSummary>> traces;
  HangCollector hangs;
  // Call before the records of each trace; then pass the records to the result.
  TraceSummary& begin_trace(const Header& header);
};

}  // namespace rtrs::trace
