// The only source of randomness in a simulated run. Code that needs a decision draws a number from [0, n)
// under a label. 0 is always the calm choice (no fault, shortest delay, first in order), so that lower values
// mean fewer faults. Groups combine the draws that belong together, for shrinking.
//
// The drawn values with their labels are a choice log: the same choice log gives the same run. A source
// belongs to one run at a time and is passed by reference.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rtrs::sim {

// The order decides to which stream of SeededChoice a label belongs. Choice logs name their labels.
#define RTRS_SIM_LABELS(X)                                                                      \
  X(none)                                                                                       \
  X(swarm)       /* options of a run */                                                         \
  X(latency)     /* latency of a message */                                                     \
  X(ack_latency) /* latency of an acknowledgement */                                            \
  X(source_read) /* 0: as late as possible, 1: when posted */                                   \
  X(torn_write)  /* part of the payload lands before the rest */                                \
  X(torn_range)                                                                                 \
  X(torn_delay)                                                                                 \
  X(rnr_placement) /* payload of a write arrives without a posted receive */                    \
  X(rnr_delay)                                                                                  \
  X(retransmit_delay) /* delay after a link is healed */                                        \
  X(retry_budget)                                                                               \
  X(ghost_count) /* messages in flight when their queue pair broke */                           \
  X(ghost_delay)                                                                                \
  X(drain_delay)    /* time from disconnect to ConnectionClosed */                              \
  X(late_placement) /* a write arrives between disconnect and ConnectionClosed */               \
  X(qp_error)       /* a queue pair breaks at a post or a delivery */                           \
  X(qp_error_side)                                                                              \
  X(cm_lost)                                                                                    \
  X(cm_late)                                                                                    \
  X(cm_latency)                                                                                 \
  X(info_cut)    /* the link is cut while a message (not an immediate) is in flight */          \
  X(fault_class) /* enables a class of faults in a run */                                       \
  X(fault_weight)                                                                               \
  X(fault_budget)                                                                               \
  X(fault_gap)    /* time until the next fault */                                               \
  X(fault_pick)   /* class of the next fault */                                                 \
  X(fault_target) /* link, queue pair or node of a fault */                                     \
  X(fault_direction)                                                                            \
  X(fault_hold)                                                                                 \
  X(fault_flaps)                                                                                \
  X(fault_span) /* group: one fault */                                                          \
  X(storage_delay)                                                                              \
  X(storage_error)                                                                              \
  X(storage_order)                                                                              \
  X(workload) /* group and draws of the application */                                          \
  X(workload_op)                                                                                \
  X(workload_block)                                                                             \
  X(workload_length)                                                                            \
  X(workload_gap)                                                                               \
  X(admin)      /* operations on paths and sessions */                                          \
  X(poll_order) /* order in which nodes run */                                                  \
  X(test)                                                                                       \
  X(option)  /* group: one option of a run */                                                   \
  X(request) /* group: one request of an application */                                         \
  X(planned) /* group: one step of a directed scenario */                                       \
  /* Second stream of SeededChoice. A new stream keeps all other draws of a seed unchanged. */  \
  X(rare_swarm)     /* options of a run: rare faults */                                         \
  X(resource_short) /* allocation of memory, a key or a connection fails */                     \
  X(resolve_failed) /* an address does not resolve */                                           \
  X(accept_failed)  /* accept() of a connect request fails */                                   \
  X(post_short)     /* post() accepts fewer work requests than offered */                       \
  X(armed)          /* the next fault comes soon, during a rare situation */                    \
  X(clock_rate)     /* a clock is fast or slow */                                               \
  X(channel)        /* additional latency of one connection */                                  \
  /* Third stream. */                                                                           \
  X(dead_link) /* permanently dead links */                                                     \
  X(crowd)     /* connect requests of clients that never complete a path */                     \
  /* Fourth stream. */                                                                          \
  X(hang) /* permanently hung connections, and support of the probe */                          \
  /* Fifth stream. */                                                                           \
  X(disk) /* block devices: operations, operators, server deaths */                             \
  /* Sixth stream. */                                                                           \
  X(cruel) /* options that leave no slack: short times, small limits, all paths lost at once */ \
  /* Seventh stream. */                                                                         \
  X(closing) /* clients and servers that close during the run and restart */                    \
  /* Eighth stream. */                                                                          \
  X(recover) /* operators recover a session */                                                  \
  /* Ninth stream: byte streams below the TCP fabric. */                                        \
  X(pipe_size)  /* buffer sizes of a socket */                                                  \
  X(pipe_cut)   /* number of bytes that one step transfers */                                   \
  X(pipe_order) /* order of ready sockets */                                                    \
  X(pipe_break) /* a stream is reset, or a byte of it changed */                                \
  /* Tenth stream. */                                                                           \
  X(late_disk) /* a server restarts before its disks are available */                           \
  /* Eleventh stream. */                                                                        \
  X(host_name) /* host names with several addresses */                                          \
  /* Twelfth stream. */                                                                         \
  X(wide) /* many paths, or many connections of a path */                                       \
  /* Thirteenth stream. */                                                                      \
  X(late_fault) /* draws of the classes of faults after blackout in fault_list.hpp */

enum class Label : std::uint16_t {
#define RTRS_SIM_LABEL(name) name,
  RTRS_SIM_LABELS(RTRS_SIM_LABEL)
#undef RTRS_SIM_LABEL
};
const char* to_string(Label) noexcept;
inline constexpr std::size_t kLabels = 0
#define RTRS_SIM_LABEL(name) +1
    RTRS_SIM_LABELS(RTRS_SIM_LABEL)
#undef RTRS_SIM_LABEL
    ;

struct Draw {
  Label label = Label::none;
  std::uint32_t n = 0;  // exclusive upper bound of the value
  std::uint32_t value = 0;
  bool operator==(const Draw&) const = default;
};
// A group of draws [begin, end) of a choice log; groups nest.
struct ChoiceGroup {
  Label label = Label::none;
  std::uint32_t depth = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool left_out = false;  // the optional fault or request did not happen; the group has no draws
  bool operator==(const ChoiceGroup&) const = default;
};
struct ChoiceLog {
  std::vector<Draw> draws;
  std::vector<ChoiceGroup> groups;  // in the order in which they began
  bool operator==(const ChoiceLog&) const = default;
};

// Receives each draw when it happens.
class ChoiceObserver {
 public:
  virtual ~ChoiceObserver() = default;
  virtual void drawn(const Draw&) = 0;
  virtual void opened(Label) = 0;
  virtual void closed() = 0;
  virtual void left_out(Label) = 0;
};

class ChoiceSource {
 public:
  virtual ~ChoiceSource() = default;
  // Draws a number in [0, n); n = 0 counts as 1. Always adds one entry to the choice log, so that replays
  // stay aligned.
  std::uint32_t draw(std::uint32_t n, Label label) {
    n = n == 0 ? 1 : n;
    const std::uint32_t value = below(n, label);
    note(Draw{label, n, value});
    return value;
  }
  // Returns true with probability `per_million`. Draws nothing for 0, or for a million and more.
  bool fires(std::uint32_t per_million, Label label) {
    return per_million != 0 && (per_million >= kMillion || hits(per_million, kMillion, label));
  }
  // Returns true in `rate` of `n` cases. The choice log contains only the result: 0 or n - 1.
  bool hits(std::uint32_t rate, std::uint32_t n, Label label) {
    const bool hit = below(n, label) >= n - rate;
    note(Draw{label, n, hit ? n - 1 : 0});
    return hit;
  }
  void span_begin(Label);
  void span_end();
  // Returns true if an optional group (a fault, a request) must be left out. Called before the group. Only a
  // shrunk choice log leaves groups out.
  bool skips(Label label) {
    if (!skip(label)) return false;
    note_skip(label);
    return true;
  }

  // Recording is off by default: a failing run is repeated to get its choice log.
  void record(bool on) noexcept { recording_ = on; }
  const ChoiceLog& choice_log() const noexcept { return log_; }
  // Not owned; nullptr: no observer.
  void observe(ChoiceObserver* observer) noexcept { observer_ = observer; }
  std::uint64_t drawn() const noexcept { return drawn_; }

  static constexpr std::uint32_t kMillion = 1'000'000;

 protected:
  // May return any number; n - 1 replaces a number of n or more.
  virtual std::uint32_t choose(std::uint32_t n, Label) = 0;
  virtual bool skip(Label) { return false; }
  virtual void entered(Label) {}
  virtual void left() {}

 private:
  std::uint32_t below(std::uint32_t n, Label label) {
    const std::uint32_t value = choose(n, label);
    return value < n ? value : n - 1;
  }
  void note(const Draw& draw) {
    ++drawn_;
    if (recording_) log_.draws.push_back(draw);
    if (observer_ != nullptr) observer_->drawn(draw);
  }
  void note_skip(Label);

  ChoiceLog log_;
  ChoiceObserver* observer_ = nullptr;
  std::vector<std::size_t> open_;  // indexes of the groups that have not ended
  std::uint64_t drawn_ = 0;
  bool recording_ = false;
};

// Ends its group when it leaves scope.
class ScopedGroup {
 public:
  ScopedGroup(ChoiceSource& source, Label label) : source_(source) { source_.span_begin(label); }
  ~ScopedGroup() { source_.span_end(); }
  ScopedGroup(const ScopedGroup&) = delete;
  ScopedGroup& operator=(const ScopedGroup&) = delete;

 private:
  ChoiceSource& source_;
};

// Pseudo-random numbers from a seed; the same on every platform and compiler.
class SeededChoice final : public ChoiceSource {
 public:
  explicit SeededChoice(std::uint64_t seed) noexcept
      : state_(seed),
        rare_(~seed),
        late_(seed ^ 0x6c61746500000000ULL),
        hang_(seed ^ 0x9e3779b97f4a7c15ULL),
        disk_(seed ^ 0xd1b54a32d192ed03ULL),
        cruel_(seed ^ 0x637275656c000161ULL),
        closing_(seed ^ 0x636c6f73696e6701ULL),
        recover_(seed ^ 0x7265636f76657201ULL),
        pipe_(seed ^ 0x7069706500000001ULL),
        late_disk_(seed ^ 0x6c64697300000001ULL),
        host_name_(seed ^ 0x6e616d6500000001ULL),
        wide_(seed ^ 0x7769646500000001ULL),
        late_fault_(seed ^ 0x6661756c74000001ULL) {}

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;

 private:
  std::uint64_t state_;
  std::uint64_t rare_;     // generator state for the labels in [rare_swarm, dead_link)
  std::uint64_t late_;     // generator state for the labels in [dead_link, hang)
  std::uint64_t hang_;     // generator state for the labels in [hang, disk)
  std::uint64_t disk_;     // generator state for the labels in [disk, cruel)
  std::uint64_t cruel_;    // generator state for the labels in [cruel, closing)
  std::uint64_t closing_;  // generator state for the labels in [closing, recover)
  std::uint64_t recover_;  // generator state for the labels in [recover, pipe_size)
  std::uint64_t pipe_;     // generator state for the labels in [pipe_size, late_disk)
  std::uint64_t late_disk_;
  std::uint64_t host_name_;
  std::uint64_t wide_;
  std::uint64_t late_fault_;
};

// Plays a choice log, then only calm choices. The draws are not owned.
class LoggedChoice final : public ChoiceSource {
 public:
  explicit LoggedChoice(std::span<const Draw> draws) noexcept : draws_(draws) {}
  // Number of draws whose label or range differs from the log: the run differs from the recorded one.
  std::uint64_t mismatches() const noexcept { return mismatches_; }

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;

 private:
  std::span<const Draw> draws_;
  std::size_t next_ = 0;
  std::uint64_t mismatches_ = 0;
};

// Plays a choice log, then continues at random: different futures of the same beginning. The draws are not
// owned.
class PrefixChoice final : public ChoiceSource {
 public:
  PrefixChoice(std::span<const Draw> prefix, std::uint64_t seed) noexcept : prefix_(prefix), state_(seed) {}

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;

 private:
  std::span<const Draw> prefix_;
  std::size_t next_ = 0;
  std::uint64_t state_;
};

// Forwards to another source, but returns 0 for some labels. The other source still draws for these labels,
// so that all other draws stay the same. `inner` must outlive this object.
class PartlyZeroChoice final : public ChoiceSource {
 public:
  PartlyZeroChoice(ChoiceSource& inner, std::span<const Label> calm);

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;

 private:
  ChoiceSource& inner_;
  std::vector<bool> calm_;  // indexed by label
};

// A source whose choices are all calm.
class ZeroChoice final : public ChoiceSource {
 protected:
  std::uint32_t choose(std::uint32_t, Label) override { return 0; }
};

// Draws a time of `minimum` plus an exponentially distributed time with mean `mean`, at most `minimum` + 8
// means. A draw of 0 gives `minimum`.
std::uint64_t draw_exponential(ChoiceSource&, std::uint64_t minimum, std::uint64_t mean, Label);
// Draws a time in [0, range]; coarse for ranges above 2^32.
std::uint64_t draw_time(ChoiceSource&, std::uint64_t range, Label);

}  // namespace rtrs::sim
