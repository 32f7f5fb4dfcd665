// The processes of a simulated run: each with its fabric, its driver and the load on top.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/keyed/keyed_fabric.hpp"
#include "core/record/recorder.hpp"
#include "sim/net/basic/corrupting_fabric.hpp"
#include "sim/net/basic/preflush_fabric.hpp"
#include "sim/oracles/client_oracle.hpp"
#include "sim/oracles/client_promises.hpp"
#include "sim/oracles/close_watch.hpp"
#include "sim/oracles/heartbeat_watch.hpp"
#include "sim/oracles/pathless_wait.hpp"
#include "sim/world/clock_rate.hpp"
#include "sim/world/endpoints.hpp"
#include "sim/world/gate_watch.hpp"
#include "sim/world/named_fabric.hpp"
#include "sim/world/script.hpp"
#include "sim/world/storage_model.hpp"
#include "sim/world/watched_fabric.hpp"

namespace rtrs::sim {

struct Node {
  NodeId id = 0;
  bool up = false;
  Nanos paused_until = 0;
  ClockRate clock;
  // next_deadline() of its driver at the last Timeline::next_time().
  Nanos deadline = kNever;
  unsigned idle_polls = 0;  // consecutive polls at one instant that did nothing
  unsigned overdue = 0;     // consecutive polls that left a timer due
  std::unique_ptr<Fabric> sim;
  std::unique_ptr<CorruptingFabric> lies;  // nullptr if the node obeys the protocol
  std::unique_ptr<NamedFabric> names;      // nullptr if the run has no host names
  std::unique_ptr<PreflushFabric> preflushes;
  std::unique_ptr<GateWatch> gate;            // set for a server that requires keys
  std::unique_ptr<keyed::KeyedFabric> keyed;  // nullptr if the run has no keys
  std::unique_ptr<WatchedFabric> fabric;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<HeartbeatWatch> hearts;
  unsigned starts = 0;
  std::optional<CloseWatch> closing;  // set when close() is called
  bool comes_back = false;            // restarts after it has closed

  std::string name() const { return id == 0 ? "server" : "client " + std::to_string(id); }

  // Returns the outermost existing fabric, on which the next layer is built.
  Fabric& outermost_fabric() {
    if (keyed) return *keyed;
    if (preflushes) return *preflushes;
    if (names) return *names;
    return lies ? static_cast<Fabric&>(*lies) : *sim;
  }
  // Frees the fabrics of a process that has ended, outermost first.
  void free_fabrics() {
    fabric.reset();
    keyed.reset();
    gate.reset();
    preflushes.reset();
    lies.reset();
    sim.reset();
  }
};

inline constexpr std::uint32_t kMaxUnits = kLongestRequest;  // maximum request size in units

struct AppBuffer {
  std::uint32_t io = 0;  // the last request that used the buffer; 0: none yet
  bool busy = false;
  std::uint64_t left = 0;  // digest of the buffer when its last request completed
  std::span<std::byte> bytes;
};

// A scripted request, in sectors or, on a block device, in blocks.
struct WantedRequest {
  Direction direction = Direction::write;
  std::uint32_t units = 1;
  std::uint32_t first = 0;
  bool service = false;
  std::uint16_t affinity = 0;
};

struct ClientNode : Node {
  std::unique_ptr<ClientEnd> driver;
  std::unique_ptr<DiskBook> disks;  // set for an application on block devices
  ClientOracles oracles;
  std::unique_ptr<ClientPromises> promises;
  Nanos last_connected = 0;  // time at which a path last connected
  PathlessWait without_path;
  Nanos without_permits_since = kNever;  // start of the time without free permits; kNever: there are some
  std::vector<AppBuffer> buffers;
  // Application memory of all processes so far, because late writes may still land there.
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory;
  RegionId region = kNoRegion;
  std::uint32_t left = 0;  // requests still to submit
  std::uint32_t under_way = 0;
  Nanos next_submit = 0;
  std::deque<WantedRequest> wanted;
  std::deque<Step> disk_steps;                    // script steps for the application on disks
  std::vector<PathAddress> missing;               // removed paths that are to be added again
  std::array<PathAddress, kMaxPaths> address_of;  // indexed by path
  std::uint64_t failovers_seen = 0;
  std::array<std::uint64_t, kMaxPaths> loss_reasons{};  // indexed by path; one bit per Reason
  std::uint32_t losses = 0;                             // number of lost connected paths
  std::uint32_t reads_in_flight = 0;
  bool probing = false;
  bool link_lost_once = false;
  bool leaving = false;  // a script closed the client
  bool split_over_servers = false;

  bool is_missing(const PathAddress& address) const {
    return std::any_of(missing.begin(), missing.end(),
                       [&](const PathAddress& one) { return one.source == address.source; });
  }
};
using Clients = std::vector<std::unique_ptr<ClientNode>>;

struct ServerNode : Node {
  std::unique_ptr<ServerEnd> driver;
  std::vector<StorageModel::Op> answers;  // storage completions received during a pause
  std::vector<std::uint32_t> session_of;  // index of the client, indexed by session
  std::vector<bool> session_up;
  std::vector<unsigned> came_up;            // indexed by session: number of paths that connected
  std::vector<PathState> path_state;        // indexed by ConKey::place()
  std::vector<std::uint64_t> loss_reasons;  // indexed by link; one bit per Reason
  bool retired = false;                     // a script closed the server
};

}  // namespace rtrs::sim
