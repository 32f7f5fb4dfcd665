// The scenario of a seed: topology, timers, load and faults, all drawn. Calm choices give one client with one
// path and no faults.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/proto/config.hpp"
#include "core/tcp/tcp_options.hpp"
#include "sim/choices/choice.hpp"
#include "sim/faults/faults.hpp"
#include "sim/net/queue_pairs/network.hpp"
#include "sim/world/clock_rate.hpp"
#include "sim/world/script.hpp"
#include "sim/world/storage_model.hpp"

namespace rtrs::sim {

struct WorkloadOptions {
  std::uint32_t requests = 20;     // number of requests per client during the faults
  std::uint32_t window = 1;        // maximum number of requests in flight or waiting for a permit
  Nanos gap = 0;                   // maximum time between submissions
  std::uint32_t burst_rate = 0;    // probability per million that the whole window is submitted at once
  std::uint32_t service_rate = 0;  // probability per million that a request uses the service connection
  std::uint32_t write_percent = 50;
  bool own_region = false;  // the application registers its memory
  // Requests use a block device (block client and block server) instead of the session directly.
  bool block_device = false;
  // Number of block devices with volatile caches per client (sim/disks), used instead of `block_device`; 0:
  // none.
  std::uint32_t disks = 0;
  Nanos disk_time = 0;  // maximum duration of a disk operation
  Nanos opening = 0;    // maximum time to open an export
  // True: a Play adds block devices with volatile caches.
  bool own_disks = false;
  std::uint32_t max_requests = 65536;  // maximum number of requests that a client has in flight
  std::uint32_t max_queued = 4096;     // maximum number of requests waiting for a permit
  std::uint32_t server_actions = 64;   // maximum number of actions per server poll
  bool one_export = false;             // all disks share one export with one cache
  bool replaces = false;               // a disk's medium is replaced in the middle of a write
  bool preflushes = false;             // every second write is marked with PREFLUSH
};

inline constexpr std::uint32_t kMaxClients = 4;

// Permanently dead links. At least one link of each client stays alive, and the rest of the system must work.
struct DeadLinks {
  std::array<std::uint32_t, kMaxClients> paths{};  // indexed by client: bit i stands for path i
  std::uint32_t ways = 3;    // dead directions: 1: to the server, 2: to the client, 3: both
  bool from_start = false;   // false: the links die when the other faults end
  bool others_late = false;  // the other links are cut until the other faults end
  bool any() const noexcept { return paths != decltype(paths){}; }
  bool holds(std::uint32_t client, std::uint32_t path) const noexcept {
    return path < 32 && (paths[client] >> path & 1U) != 0;
  }
};

class World;
// Function that replaces the script of a directed world; see sim/blocks.
struct Play {
  std::string id;                   // id of the directed scenario
  std::function<void(World&)> run;  // empty: the script is played
  bool adds_disks = false;          // the play adds block devices: sets workload.own_disks
};

// Addresses to which a path's host name resolves in addition to the address of its link.
struct Names {
  std::uint32_t before = 0, after = 0;  // number of dead addresses before and after the link's address
  // The host name has a second working address, after the link's address. When the faults end, the link's
  // address dies, and the path must reconnect at the second address.
  bool dies = false;
  bool any() const noexcept { return before != 0 || after != 0 || dies; }
  std::uint32_t addresses() const noexcept { return before + 1 + (dies ? 1 : 0) + after; }
};

struct Scenario {
  std::uint32_t paths = 1;
  std::uint32_t clients = 1;
  Nanos interval = seconds(1);  // heartbeat interval, and unit of all other times
  NetworkConfig network;
  ClientConfig client;
  ServerConfig server;
  StorageOptions storage;
  WorkloadOptions workload;
  FaultOptions faults;
  DeadLinks dead_links;
  Nanos safety = 0;  // length of the phase with faults
  bool faults_from_start = false;
  ClockRate client_clock, server_clock;
  bool same_identity = false;  // a restarted client keeps its uuids
  Nanos admin_gap = kNever;    // mean time between operations of an operator
  Nanos recover_gap = kNever;  // mean time between recoveries of a session
  // Mean time between closings of a client or the server, which restarts afterwards.
  Nanos close_gap = kNever;
  // True: no request executes after the client gave up its path, because a replay waits for a proof.
  bool fenced = true;
  // Events of a directed world in addition to the load. `safety` limits how long a step may wait.
  Script script;
  Play play;
  bool directed = false;
  // Node whose fabric violates the protocol (see sim/net/basic/corrupting_fabric.hpp). kNone: none.
  NodeId liar = kNone;
  std::uint32_t poll_batch = 0;   // maximum number of events per fabric poll; 0: no limit
  bool server_changes = false;    // a restarted server may have other limits
  bool disks_change = false;      // a restarted server may have other disks behind its export names
  bool disks_late = false;        // a restarted server may start before some of its disks are available
  bool submits_always = false;    // applications submit without waiting for a path
  bool other_server = false;      // each client has one more path, which leads to another server by mistake
  bool removes_all = false;       // an operator may also remove the last path, and adds one later
  bool removes_for_good = false;  // removed paths are not added again
  // Uses the production TCP fabric over simulated byte streams (sim/net/streams); otherwise queue pairs.
  bool over_tcp = false;
  // Uses the production verbs backend on in-memory adapters (sim/net/verbs). Each process uses the options
  // that its adapters support.
  bool over_adapters = false;
  // Judges the run as if it had a fence although it has none, to show that data is lost without a fence.
  bool fence_off = false;
  // Each client shares a key with the server, which requires it (core/keyed). Not over TCP.
  bool keys = false;
  // Host names of the paths. Only the link's address works, and a second one if `dies` is set.
  Names names;

  // Both ends agree that the response of a READ carries its data.
  bool data_with_answer() const noexcept {
    return has(client.extensions & server.extensions, wire::Extensions::data_with_answer);
  }
  // Both ends agree that READs with NEED_INVAL complete without an invalidation by the server.
  bool keys_stay() const noexcept {
    return has(client.extensions & server.extensions, wire::Extensions::keys_stay);
  }
  bool can_fence() const noexcept {
    return has(client.extensions & server.extensions, wire::Extensions::fence);
  }
  bool can_probe() const noexcept {
    return has(client.extensions & server.extensions, wire::Extensions::probe);
  }
  std::string describe() const;
};
Scenario draw_scenario(ChoiceSource&, bool over_tcp = false, bool over_adapters = false);
// Returns the options of the TCP fabric in this world: CRC and timeouts.
tcp::TcpOptions tcp_options(const Scenario&);
// Changes the scenario so that requests go directly to the session.
void remove_block_device(Scenario&);
// Disables the fence, but judges the world as if it were enabled.
void disable_fence(Scenario&);

// Time limits for the recovery after the last fault, term by term.
struct LivenessBound {
  Nanos detect = 0;    // maximum of retry budget and dead-peer time
  Nanos teardown = 0;  // time for slow drains and for storage
  Nanos stale = 0;     // time until the server closes a half-open or dead path
  Nanos lead = 0;      // time that a path may wait for other paths to create the session
  Nanos attempt = 0;   // one attempt: its reconnect delay, and a failed attempt before it
  Nanos request = 0;   // a waiting request: fence, storage, and the requests before it in the queue
  Nanos paths() const noexcept { return detect + teardown + stale + lead + 3 * attempt; }
  Nanos requests() const noexcept { return paths() + request; }
  std::string describe() const;
};
LivenessBound liveness_bound(const Scenario&);
// Maximum time from a disconnect by the user to the connection's last event.
Nanos drain_bound(const Scenario&);

}  // namespace rtrs::sim
