// Faults of a run: which classes are on, how often they strike, and when. All of this is drawn from the run's
// ChoiceSource. The owner of the world arms the driver, calls advance() when next_time() is due, carries out
// the WorldFaults that it returns, and ends the phase with stop_and_heal().
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/choices/choice.hpp"
#include "sim/faults/fault_list.hpp"
#include "sim/net/basic/net.hpp"

namespace rtrs::sim {

enum class FaultClass : std::uint8_t {
#define RTRS_SIM_FAULT(name, text) name,
  RTRS_SIM_FAULTS(RTRS_SIM_FAULT)
#undef RTRS_SIM_FAULT
      count_,
};
inline constexpr unsigned kFaultClasses = static_cast<unsigned>(FaultClass::count_);
// Name as in fault_list.hpp.
const char* to_string(FaultClass) noexcept;
const char* text_of(FaultClass) noexcept;

struct FaultOptions {
  std::array<std::uint32_t, kFaultClasses> weight{};  // indexed by class; 0: off
  std::uint32_t budget = 0;                           // maximum number of timed faults, or kUnlimited
  Nanos mean_gap = seconds(2);                        // mean time between timed faults
  Nanos min_hold = milliseconds(10);                  // minimum duration of a timed fault
  Nanos mean_hold = seconds(3);                       // mean of the exponential time on top of min_hold
  std::uint32_t pause_factor = 1;                     // a pause lasts this many times as long as other faults
  bool crash_client = true, crash_server = true;
  // While a path connects or disconnects (see FaultDriver::bias), probabilities are multiplied by this number
  // and the next timed fault comes sooner. 1: no effect.
  std::uint32_t bias = 1;
  static constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};

  bool has(FaultClass c) const noexcept { return weight[static_cast<unsigned>(c)] != 0; }
  std::string describe() const;
};
// Turns each class up to slow_drain off with p = 1/2, else gives it a weight of 1..100; draws a budget of 0,
// 1, 2, 3 or kUnlimited. A source of zeros gives no faults. `time_scale`: typical time between events, such
// as the heartbeat interval.
FaultOptions draw_fault_options(ChoiceSource&, Nanos time_scale);
// Draws the classes from black_hole to post_short, and the bias; with p = 1/2 all of them are off.
void draw_rare_faults(ChoiceSource&, FaultOptions&);
// Turns the class `crowd` (connect requests that never complete a path) on with p = 1/4.
void draw_crowd(ChoiceSource&, FaultOptions&);
// Turns the class hang on with p = 1/4. Only for worlds in which a probe or a timeout detects every hang.
void draw_hangs(ChoiceSource&, FaultOptions&);
// Turns the class blackout on, with a budget of at least 3.
void draw_blackouts(ChoiceSource&, FaultOptions&);
// Turns each class after blackout in fault_list.hpp on with p = 1/8. Uses a separate random stream.
void draw_late_faults(ChoiceSource&, FaultOptions&);

// A fault that the owner of the world carries out.
struct WorldFault {
  enum class Kind : std::uint8_t {
    crash,      // destroy the node's driver; the network has crashed the node already
    restart,    // create a new driver; the network has restarted the node already
    pause,      // do not poll the node before `until`
    crowd,      // send connect requests but complete no path until `until`; has no node
    lie,        // violate the protocol; has no node
    oversleep,  // do not poll the node until one of its time limits has passed
  };
  Kind kind = Kind::crash;
  NodeId node = kNone;
  Nanos until = 0;
};

// A timed fault that struck, for the journal of the run.
struct FaultRecord {
  enum class Target : std::uint8_t { everything, node, link, path, connection };
  FaultClass which = FaultClass::cut_both;
  Nanos until = 0;  // end of the fault; 0: no end
  Target target = Target::everything;
  std::uint32_t id = kNone;  // NodeId, LinkId, or QpId of the connection or of one connection of the path
  bool one_way = false;
  Way way = Way::to_server;  // direction, if `one_way`
};

class FaultDriver;

// Passed to a fault when it strikes and when it ends: the network, the random draws and the journal.
class FaultContext {
 public:
  FaultContext(FaultDriver& driver, FaultClass which, Net& network_, ChoiceSource& choice_,
               std::vector<WorldFault>& world, Nanos hold_)
      : network(network_), choice(choice_), hold(hold_), driver_(driver), world_(world), which_(which) {}

  Net& network;
  ChoiceSource& choice;
  const Nanos hold;  // duration drawn for this fault; 0 while it ends
  Nanos until() const { return network.now() + hold; }
  const FaultOptions& options() const noexcept;
  const std::vector<NodeId>& clients() const noexcept;
  const std::vector<NodeId>& servers() const noexcept;

  // Draws an index below `count`.
  std::uint32_t pick(std::size_t count) {
    return choice.draw(static_cast<std::uint32_t>(count), Label::fault_target);
  }
  // Records the strike in the journal. Call once per strike.
  void note(FaultRecord::Target, std::uint32_t id, Nanos until);
  void note_one_way(FaultRecord::Target, std::uint32_t id, Way, Nanos until);
  // Cuts the link directions until `until`, or until the phase ends if that is earlier. Cuts are
  // counted for each direction: when one ends, an overlapping one stays in force.
  void cut_until(LinkId, std::initializer_list<Way>, Nanos until);
  void cut(LinkId, std::initializer_list<Way>);
  void heal(LinkId, std::initializer_list<Way>);
  void world(const WorldFault& fault) { world_.push_back(fault); }
  // Calls the function, which must undo the fault, at `time`, or when the phase ends if that is earlier.
  void undo_at(Nanos time, std::function<void(FaultContext&)>);
  // Calls the function, which continues the fault, at `time`, unless the phase has ended before.
  void continue_at(Nanos time, std::function<void(FaultContext&)>);
  // Makes the time limits for recovery start at `time` or later. Called by undo_at, continue_at and
  // cut_until.
  void delay_liveness_until(Nanos time);

 private:
  FaultDriver& driver_;
  std::vector<WorldFault>& world_;
  FaultClass which_;
};
inline constexpr std::initializer_list<Way> kBothWays{Way::to_server, Way::to_client};

// A class of faults. Exactly one of the two functions is set.
struct FaultKind {
  // Fault at drawn times: strikes once per call. Returns false if there was nothing to strike.
  bool (*strike)(FaultContext&) = nullptr;
  // Fault at each opportunity: sets its probabilities for a weight of 1..100.
  void (*set_rates)(Rates&, std::uint32_t weight) = nullptr;
  // Strikes only where connections are byte streams: over tcp.
  bool streams_only = false;
};
const FaultKind& kind_of(FaultClass) noexcept;
#define RTRS_SIM_FAULT(name, text) extern const FaultKind name##_fault;
RTRS_SIM_FAULTS(RTRS_SIM_FAULT)
#undef RTRS_SIM_FAULT

class FaultDriver {
 public:
  FaultDriver() = default;
  // `clients` and `servers`: nodes that may crash or pause.
  FaultDriver(const FaultOptions&, std::vector<NodeId> clients, std::vector<NodeId> servers);

  // Starts the faults: sets the network's fault probabilities and draws the time of the first timed
  // fault.
  void arm(Net&, ChoiceSource&);
  Nanos next_time() const noexcept;
  // Carries out everything due at network.now().
  void advance(Net&, ChoiceSource&, std::vector<WorldFault>& out);
  // `armed`: a path connects or disconnects; see FaultOptions::bias.
  void bias(bool armed, Net&, ChoiceSource&);
  // Ends all faults: sets probabilities to zero, heals links, restores latency, restarts crashed nodes.
  // Pauses end at their own time.
  void stop_and_heal(Net&, ChoiceSource&, std::vector<WorldFault>& out);

  // Faults that struck in the last advance().
  const std::vector<FaultRecord>& strikes() const noexcept { return fault_records_; }
  bool armed() const noexcept { return armed_; }
  const FaultOptions& options() const noexcept { return options_; }
  std::uint64_t struck(FaultClass c) const noexcept { return fault_counts_[static_cast<unsigned>(c)]; }
  // Time at which the last timed fault ended or will end. Time limits for recovery start then.
  Nanos quiet_since() const noexcept { return quiet_since_; }

 private:
  friend class FaultContext;
  struct Ending {
    Nanos time = 0;
    FaultClass which = FaultClass::cut_both;
    bool with_phase = true;  // also called when the phase ends
    std::function<void(FaultContext&)> act;
  };
  void strike(Net&, ChoiceSource&, std::vector<WorldFault>& out);
  void set_rates(Net&) const;
  void end_at(Ending);

  FaultOptions options_;
  std::vector<NodeId> clients_, servers_;
  std::vector<Ending> endings_;
  std::vector<FaultRecord> fault_records_;
  std::vector<std::array<std::uint32_t, 2>> cuts_;  // indexed by link and direction
  std::array<std::uint64_t, kFaultClasses> fault_counts_{};
  Nanos next_ = kNever;
  Nanos quiet_since_ = 0;
  std::uint32_t left_ = 0;
  bool armed_ = false;
  bool biased_ = false;
};

}  // namespace rtrs::sim
