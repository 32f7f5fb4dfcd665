// Faults of a run: which classes are enabled, how often they occur, and when. Everything is drawn from the
// ChoiceSource of the run, under labels. The owner of the world arms the driver, calls advance() when
// next_time() is due, executes the returned WorldFaults, and ends the phase with stop_and_heal().
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/choices/choice.hpp"
#include "sim/net/basic/net.hpp"

namespace rtrs::sim {

// Append only. Timed faults (see is_timed()) occur at drawn times; the others are probabilities at each
// opportunity (Rates).
enum class FaultClass : std::uint8_t {
  cut_both,  // cuts both directions of a link for some time
  cut_one_way,
  cut_port,       // cuts every link of a port in both directions
  break_qp,       // breaks one end of a connection
  break_path,     // breaks all connections of a link
  starve,         // delays heartbeats of one direction of a link
  latency,        // slows down a link for some time
  crash,          // a node crashes silently and restarts later
  crash_orderly,  // a process crashes; its operating system disconnects its peers
  pause,          // a node is not polled for some time
  flap,           // series of cuts of all links, each at its own times
  qp_error_at_step,
  request_lost_or_late,
  reply_lost_or_late,
  reject_lost_or_late,
  disconnect_lost_or_late,
  info_cut,
  torn_writes,
  ghosts,
  slow_drain,
  black_hole,   // drops all traffic of one connection for some time
  device_gone,  // an adapter is removed and returns later
  resource_short,
  resolve_failed,
  accept_failed,
  post_short,
  crowd,     // a client continuously opens sessions and completes none, for some time
  hang,      // drops all traffic of one connection permanently; only a probe detects it
  blackout,  // a client loses all connections at once; its links return at different times
  count_,
};
inline constexpr unsigned kFaultClasses = static_cast<unsigned>(FaultClass::count_);
const char* to_string(FaultClass) noexcept;
// True if faults of the class occur at drawn times.
constexpr bool is_timed(FaultClass c) noexcept {
  return c < FaultClass::qp_error_at_step || c == FaultClass::black_hole || c == FaultClass::device_gone ||
         c == FaultClass::crowd || c == FaultClass::hang || c == FaultClass::blackout;
}

struct FaultOptions {
  std::array<std::uint32_t, kFaultClasses> weight{};  // relative frequency; 0: disabled
  std::uint32_t budget = 0;                           // maximum number of timed faults; kUnlimited: no limit
  Nanos mean_gap = seconds(2);                        // mean time between timed faults
  Nanos min_hold = milliseconds(10);
  Nanos mean_hold = seconds(3);    // in addition to min_hold, exponentially distributed
  std::uint32_t pause_factor = 1;  // duration of a pause as a multiple of that of other faults
  bool crash_client = true, crash_server = true;
  // During a rare situation (see FaultDriver::bias), probabilities are multiplied by this and the next timed
  // fault comes soon; 1: no effect.
  std::uint32_t bias = 1;
  static constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};

  bool has(FaultClass c) const noexcept { return weight[static_cast<unsigned>(c)] != 0; }
  std::string describe() const;
};
// Swarm testing: each class is disabled with probability 1/2, otherwise its weight is 1 to 100; the budget is
// 0, 1, 2, 3 or unlimited. All calm draws give no faults. `time_scale`: typical time between events, for
// example the heartbeat interval.
FaultOptions draw_fault_options(ChoiceSource&, Nanos time_scale);
// Draws the classes from black_hole to post_short, and the bias; none of them in half of all cases.
void draw_rare_faults(ChoiceSource&, FaultOptions&);
// Draws the class crowd; disabled in three quarters of all cases.
void draw_crowd(ChoiceSource&, FaultOptions&);
// Draws the class hang; enabled in a quarter of all cases. Only for worlds in which every hang is detected.
void draw_hangs(ChoiceSource&, FaultOptions&);

// Draws the class blackout, and raises the budget so that it occurs.
void draw_blackouts(ChoiceSource&, FaultOptions&);

// A fault that the world has to execute.
struct WorldFault {
  enum class Kind : std::uint8_t {
    crash,    // destroy the node's driver; the network knows already
    restart,  // create a new driver; the network knows already
    pause,    // do not poll the node before `until`
    crowd,    // send connect requests that are never completed, until `until`; no node
  };
  Kind kind = Kind::crash;
  NodeId node = kNone;
  Nanos until = 0;
};

// A timed fault that occurred.
struct Strike {
  FaultClass which = FaultClass::cut_both;
  std::uint32_t target = kNone;  // link, queue pair or node; kNone: all links
  Way way = Way::to_server;      // for faults with a direction
  Nanos until = 0;               // end of the fault; 0: none
};

class FaultDriver {
 public:
  FaultDriver() = default;
  // `clients` and `servers`: nodes that may crash or pause.
  FaultDriver(const FaultOptions&, std::vector<NodeId> clients, std::vector<NodeId> servers);

  // Enables faults: sets the rates of the network and the time of the first fault.
  void arm(Net&, ChoiceSource&);
  Nanos next_time() const noexcept;
  // Executes everything that is due at network.now().
  void advance(Net&, ChoiceSource&, std::vector<WorldFault>& out);
  // A rare situation begins or ends: a path is connecting or going down.
  void bias(bool armed, Net&, ChoiceSource&);
  // Ends all faults: sets rates to zero, heals links, restores latency, restarts crashed nodes. Pauses end at
  // their own time.
  void stop_and_heal(Net&, ChoiceSource&, std::vector<WorldFault>& out);

  // Faults that occurred in the last advance().
  const std::vector<Strike>& strikes() const noexcept { return strikes_; }
  bool armed() const noexcept { return armed_; }
  const FaultOptions& options() const noexcept { return options_; }
  std::uint64_t struck(FaultClass c) const noexcept { return struck_[static_cast<unsigned>(c)]; }
  // Time at which the last timed fault ended or will end; liveness is required from then on.
  Nanos quiet_since() const noexcept { return quiet_since_; }

 private:
  struct Ending {  // a timed fault to be undone, or one cut or heal of a flap series
    enum class Kind : std::uint8_t { heal, latency, restart, flap_cut, flap_heal, pass, plug };
    Nanos time = 0;
    Kind kind = Kind::heal;
    std::uint32_t target = 0;  // link, node or queue pair
    std::uint32_t ways = 0;    // one bit per Way; for plug: the port
    std::uint32_t beats = 0;
  };
  void strike(Net&, ChoiceSource&, std::vector<WorldFault>& out);
  bool strike_link(FaultClass, Net&, ChoiceSource&, Nanos hold);
  bool strike_qp(FaultClass, Net&, ChoiceSource&, Nanos hold);
  bool strike_node(FaultClass, Net&, ChoiceSource&, Nanos hold, std::vector<WorldFault>& out);
  bool strike_device(Net&, ChoiceSource&, Nanos hold);
  bool strike_client(Net&, ChoiceSource&, Nanos hold);
  void strike_flap(Net&, ChoiceSource&, Nanos hold);
  void end(const Ending&, Net&, ChoiceSource&, std::vector<WorldFault>& out);
  void set_rates(Net&) const;
  void undo_at(const Ending&);
  void cut(Net&, LinkId, std::uint32_t ways);
  void heal(Net&, LinkId, std::uint32_t ways, ChoiceSource&);

  FaultOptions options_;
  std::vector<NodeId> clients_, servers_;
  std::vector<Ending> endings_;
  std::vector<Strike> strikes_;
  // Number of overlapping cuts per direction, so that the end of one does not end another.
  std::vector<std::array<std::uint32_t, 2>> cuts_;
  std::array<std::uint64_t, kFaultClasses> struck_{};
  Nanos next_ = kNever;
  Nanos quiet_since_ = 0;
  std::uint32_t left_ = 0;
  bool armed_ = false;
  bool biased_ = false;
};

}  // namespace rtrs::sim
