// Faults of a run: which classes are on, how often they strike, and when. Everything is drawn, under labels,
// from the ChoiceSource of the run. Whoever runs the world arms the driver, calls advance() whenever
// next_time() is due, carries out the WorldFaults it returns, and ends the phase with stop_and_heal().
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/choices/choice.hpp"
#include "sim/net/basic/net.hpp"

namespace rtrs::sim {

// Append only. Some strike at drawn times, the others are chances at each opportunity (Rates): see
// is_timed().
enum class FaultClass : std::uint8_t {
  cut_both,  // both directions of one link, for a while
  cut_one_way,
  cut_port,       // every link of one port, both directions
  break_qp,       // one end of one connection
  break_path,     // all connections of one link
  starve,         // heartbeats of one link and direction wait
  latency,        // one link becomes slow for a while
  crash,          // a node dies in silence and restarts later
  crash_orderly,  // its operating system disconnects for it
  pause,          // a node is not polled for a while
  flap,           // a train of cuts over all links, each link on its own beat
  qp_error_at_step,
  request_lost_or_late,
  reply_lost_or_late,
  reject_lost_or_late,
  disconnect_lost_or_late,
  info_cut,
  torn_writes,
  ghosts,
  slow_drain,
  black_hole,   // one connection of many gets nothing through, for a while
  device_gone,  // an adapter is taken out of a node and comes back
  resource_short,
  resolve_failed,
  accept_failed,
  post_short,
  crowd,     // somebody opens sessions without end and completes none, for a while
  hang,      // one connection gets nothing through any more, for good, and nothing but a probe finds it
  blackout,  // a client loses all its connections at once; each of its links comes back in its own time
  count_,
};
inline constexpr unsigned kFaultClasses = static_cast<unsigned>(FaultClass::count_);
const char* to_string(FaultClass) noexcept;
// Strikes at drawn times.
constexpr bool is_timed(FaultClass c) noexcept {
  return c < FaultClass::qp_error_at_step || c == FaultClass::black_hole || c == FaultClass::device_gone ||
         c == FaultClass::crowd || c == FaultClass::hang || c == FaultClass::blackout;
}

struct FaultOptions {
  std::array<std::uint32_t, kFaultClasses> weight{};  // 0: off
  std::uint32_t budget = 0;                           // timed faults at most; kUnlimited: no bound
  Nanos mean_gap = seconds(2);                        // between timed faults
  Nanos min_hold = milliseconds(10);
  Nanos mean_hold = seconds(3);    // on top of min_hold, exponential
  std::uint32_t pause_factor = 1;  // how many times as long as other faults a pause takes
  bool crash_client = true, crash_server = true;
  // While something rare is going on (see FaultDriver::bias) chances are this many times as high and the next
  // timed fault comes soon; 1: as always.
  std::uint32_t bias = 1;
  static constexpr std::uint32_t kUnlimited = ~std::uint32_t{0};

  bool has(FaultClass c) const noexcept { return weight[static_cast<unsigned>(c)] != 0; }
  std::string describe() const;
};
// Swarm: each class off with p = 1/2, else a weight of 1..100; budget of 0, 1, 2, 3 or no bound. All calm
// draws give no faults. `time_scale`: typical time between interesting things, e.g. the heartbeat interval.
FaultOptions draw_fault_options(ChoiceSource&, Nanos time_scale);
// The classes from black_hole to post_short and the bias: none of them in half of all cases.
void draw_rare_faults(ChoiceSource&, FaultOptions&);
// Off in three quarters of all cases.
void draw_crowd(ChoiceSource&, FaultOptions&);
// The class hang: in a quarter of all cases. Only for worlds in which every hang is found.
void draw_hangs(ChoiceSource&, FaultOptions&);

// The class blackout, and enough faults that it strikes.
void draw_blackouts(ChoiceSource&, FaultOptions&);

// What the network cannot do alone.
struct WorldFault {
  enum class Kind : std::uint8_t {
    crash,    // destroy the node's driver; the network has been told already
    restart,  // make a new one; the network has been told already
    pause,    // do not poll the node before `until`
    crowd,    // send connect requests that lead to nothing until `until`; no node
  };
  Kind kind = Kind::crash;
  NodeId node = kNone;
  Nanos until = 0;
};

// A timed fault that struck.
struct Strike {
  FaultClass which = FaultClass::cut_both;
  std::uint32_t target = kNone;  // link, queue pair or node; kNone: all links
  Way way = Way::to_server;      // of those that have one
  Nanos until = 0;               // 0: nothing to end
};

class FaultDriver {
 public:
  FaultDriver() = default;
  // `clients` and `servers`: nodes that may crash or pause.
  FaultDriver(const FaultOptions&, std::vector<NodeId> clients, std::vector<NodeId> servers);

  // From now on faults happen: sets the network's rates and the time of the first fault.
  void arm(Net&, ChoiceSource&);
  Nanos next_time() const noexcept;
  // Does what is due at network.now().
  void advance(Net&, ChoiceSource&, std::vector<WorldFault>& out);
  // Something rare begins or ends: a path is on its way up or down.
  void bias(bool armed, Net&, ChoiceSource&);
  // Ends all faults: rates to zero, links healed, latency restored, crashed nodes restarted. Pauses end by
  // themselves.
  void stop_and_heal(Net&, ChoiceSource&, std::vector<WorldFault>& out);

  // What struck in the last advance().
  const std::vector<Strike>& strikes() const noexcept { return strikes_; }
  bool armed() const noexcept { return armed_; }
  const FaultOptions& options() const noexcept { return options_; }
  std::uint64_t struck(FaultClass c) const noexcept { return struck_[static_cast<unsigned>(c)]; }
  // When the last timed fault ended or will end; liveness is promised from then on.
  Nanos quiet_since() const noexcept { return quiet_since_; }

 private:
  struct Ending {  // a timed fault to be undone, or a beat of a flap train
    enum class Kind : std::uint8_t { heal, latency, restart, flap_cut, flap_heal, pass, plug };
    Nanos time = 0;
    Kind kind = Kind::heal;
    std::uint32_t target = 0;  // link, node or queue pair
    std::uint32_t ways = 0;    // bit per Way; plug: the port
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
  // Overlapping cuts of one direction are counted, so that the end of one does not end the other.
  std::vector<std::array<std::uint32_t, 2>> cuts_;
  std::array<std::uint64_t, kFaultClasses> struck_{};
  Nanos next_ = kNever;
  Nanos quiet_since_ = 0;
  std::uint32_t left_ = 0;
  bool armed_ = false;
  bool biased_ = false;
};

}  // namespace rtrs::sim
