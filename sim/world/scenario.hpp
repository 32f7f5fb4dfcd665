// What one seed plays: the shape of the system, its timers, its load and its faults, all drawn. Calm choices
// give one path, one client, no faults.
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
  std::uint32_t requests = 20;     // of each client during the faults
  std::uint32_t window = 1;        // under way or waiting for a permit, at most
  Nanos gap = 0;                   // between submissions, up to
  std::uint32_t burst_rate = 0;    // per million: the whole window at once
  std::uint32_t service_rate = 0;  // per million: over the service connection
  std::uint32_t write_percent = 50;
  bool own_region = false;  // the application registers its memory
  // Requests go through a block device of a block client and a block server; otherwise to the session itself.
  bool block_device = false;
  // Instead of those: so many block devices with caches that can be lost, of each client (sim/disks).
  std::uint32_t disks = 0;
  Nanos disk_time = 0;  // an operation of theirs takes up to
  Nanos opening = 0;    // and an export until it is open; 0: none
  // The same, with the disks that a play adds.
  bool own_disks = false;
  std::uint32_t max_requests = 65536;  // of a client, under way together
  std::uint32_t max_queued = 4096;     // that wait for a permit
  std::uint32_t server_actions = 64;   // that one poll of the server may hand out
  bool one_export = false;             // all disks are parts of one, with one cache
  bool replaces = false;               // the medium of a disk is replaced in the middle of a write
  bool preflushes = false;             // every second write is marked with PREFLUSH
};

inline constexpr std::uint32_t kMaxClients = 4;

// Links that nothing heals. At least one link of each client lives, and what is left has to work.
struct DeadLinks {
  std::array<std::uint32_t, kMaxClients> paths{};  // by client: bit i stands for its path i
  std::uint32_t ways = 3;    // 1: nothing goes to the server, 2: nothing to the client, 3: both
  bool from_start = false;   // otherwise from the end of the other faults on
  bool others_late = false;  // the links that live are cut until then
  bool any() const noexcept { return paths != decltype(paths){}; }
  bool holds(std::uint32_t client, std::uint32_t path) const noexcept {
    return path < 32 && (paths[client] >> path & 1U) != 0;
  }
};

class World;
// What drives a directed world instead of its script; see sim/blocks.
struct Play {
  std::string id;                   // of the directed scenario
  std::function<void(World&)> run;  // empty: the script does
  bool adds_disks = false;          // it is one of block devices: workload.own_disks
};

// Addresses of the host name that a path leads to, beside the one that its link leads to.
struct Names {
  std::uint32_t before = 0, after = 0;  // dead from the start, in front of that one and behind it
  // One more address follows that of the link. The address of the link dies when the faults end, and the path
  // must reconnect at the other one.
  bool dies = false;
  bool any() const noexcept { return before != 0 || after != 0 || dies; }
  std::uint32_t addresses() const noexcept { return before + 1 + (dies ? 1 : 0) + after; }
};

struct Scenario {
  std::uint32_t paths = 1;
  std::uint32_t clients = 1;
  Nanos interval = seconds(1);  // of the heartbeat: the unit of all other times
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
  bool same_identity = false;  // a client that died comes back with the uuids that it had
  Nanos admin_gap = kNever;    // between operations of an operator, mean
  Nanos recover_gap = kNever;  // between recoveries of a session, mean
  Nanos close_gap = kNever;    // between closings of a client or the server, which comes back, mean
  // The server never executes a request after the client gave its path up: replays wait for proof.
  bool fenced = true;
  // A directed world: what happens besides the load. `safety` bounds how long its waits may take.
  Script script;
  Play play;
  bool directed = false;
  // This node says what its protocol machine does not (see sim/net/basic/lying_fabric.hpp). kNone: nobody.
  NodeId liar = kNone;
  std::uint32_t poll_batch = 0;   // events that a poll of a fabric reports at most; 0: no bound
  bool server_changes = false;    // a server that died may come back with other limits
  bool disks_change = false;      // or with other disks behind the names of its exports
  bool disks_late = false;        // or before some of its disks
  bool submits_always = false;    // applications do not wait for a path
  bool other_server = false;      // each client has one more path, to another server by mistake
  bool removes_all = false;       // an operator may remove the last path too, and adds one again later
  bool removes_for_good = false;  // what an operator removes does not come back
  // The TCP fabric that ships, over simulated streams of octets (sim/net/streams); otherwise queue pairs.
  bool over_tcp = false;
  // The verbs backend that ships, on adapters in memory (sim/net/verbs). Each process asks for what
  // its adapters can do.
  bool over_adapters = false;
  // Judged as strictly as with a fence although there is none: the data must show what the fence is for.
  bool fence_off = false;
  // Each client shares a key with the server, which asks for it (core/keyed). Not over TCP.
  bool keys = false;
  // Each path leads to a host name whose other addresses are dead.
  Names names;

  // Both ends agree that the answer of a READ carries its data.
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
// What the TCP fabric of such a world may take and how long it waits.
tcp::TcpOptions tcp_options(const Scenario&);
// The same world with requests that go to the session itself.
void take_block_device_away(Scenario&);
// The same world with the fence taken away, and judged as if it were there.
void take_fence_away(Scenario&);

// When, after the last fault, everything has to be well again, term by term.
struct LivenessBound {
  Nanos detect = 0;    // the longer of retry budget and dead-peer time
  Nanos teardown = 0;  // slow drains, storage
  Nanos stale = 0;     // the server lets go of a half-open or dead path
  Nanos lead = 0;      // the turn to create the session, behind all other paths
  Nanos attempt = 0;   // one more attempt, with the wait before it and one that fails
  Nanos request = 0;   // a held request: fence, storage, those before it in the queue
  Nanos paths() const noexcept { return detect + teardown + stale + lead + 3 * attempt; }
  Nanos requests() const noexcept { return paths() + request; }
  std::string describe() const;
};
LivenessBound liveness_bound(const Scenario&);
// From the end of a connection, asked for by its user, to the last event of it.
Nanos drain_bound(const Scenario&);

}  // namespace rtrs::sim
