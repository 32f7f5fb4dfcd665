// The nodes of a run, the network and the disks between them, and the shared state of the run. The other
// parts of World decide what happens.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/choices/choice.hpp"
#include "sim/faults/faults.hpp"
#include "sim/net/basic/net.hpp"
#include "sim/oracles/history_log.hpp"
#include "sim/world/journal.hpp"
#include "sim/world/nodes.hpp"
#include "sim/world/other_server.hpp"
#include "sim/world/scenario.hpp"
#include "sim/world/world_run.hpp"

namespace rtrs::sim {

class Cluster {
 public:
  Cluster(const WorldOptions&, ChoiceSource&);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  std::string describe() const;  // the scenario, and settings drawn by the network
  Nanos now() const noexcept { return network.now(); }
  // Current time on the node's clock.
  Nanos now(const Node& node) const noexcept { return node.clock.local_time(now()); }
  void note(Journal::Kind kind, std::uint32_t node, std::uint64_t a = 0, std::uint64_t b = 0,
            std::uint64_t c = 0) {
    journal.add(Journal::Entry{now(), kind, node, a, b, c});
  }
  // Fails the run for lack of progress.
  void stalled(const std::string& what);
  std::string unfinished();

  // --- traces and laws ---
  // Creates the node's recorder unless it has one; a restarted node keeps its recorder.
  void record(Node&, const char* role, const std::string& file);
  void save_traces() noexcept;
  void complete_traces();
  void check_laws();

  // --- nodes ---
  Node& node(NodeId id) { return id == 0 ? static_cast<Node&>(server) : *clients[id - 1]; }
  std::unique_ptr<Fabric> open_fabric(NodeId);
  bool has_events(const Node&) const noexcept;
  // True if the node has to be polled at this deadline, given on the node's clock.
  bool due(const Node&, Nanos deadline) const;
  ClientNode* client_of(const Step&);  // nullptr if the client is down
  std::uint32_t client_named(std::string_view name) const;
  // True if all permits of the client belong to requests that it gave up without proof.
  bool out_of_permits(const ClientNode&) const;
  // True if the fabric of one end of this client's session falsifies messages.
  bool has_misbehaving_end(std::uint32_t client) const noexcept {
    return scenario.liar == 0 || scenario.liar == client + 1;
  }
  bool honest() const noexcept { return scenario.fenced && scenario.liar == kNone; }
  // True if the client's application submits requests now. The session itself accepts requests only
  // while a path is connected.
  bool takes_requests(const ClientNode& client) const {
    return scenario.workload.block_device || disks != nullptr || client.driver->session().link_up() ||
           (scenario.submits_always && client.driver->session().depth() != 0);
  }
  // Smallest request size in sectors: one sector, or one block.
  std::uint32_t unit() const noexcept { return scenario.workload.block_device ? kSectorsPerBlock : 1; }
  std::size_t max_io_bytes() const noexcept { return std::size_t{kMaxUnits} * unit() * kSectorBytes; }
  std::size_t in_storage() const noexcept;  // number of storage operations in flight
  void check_closed_disks();

  // --- links, defined in cluster_links.cpp ---
  PathAddress address(std::uint32_t client, std::uint32_t path) const;
  LinkId link_of(const Step&);
  // Returns the link under a server path; kNone if the path has no connection.
  LinkId server_link(std::size_t path) const;
  // Returns the state of the server's end of the path on each link, indexed by LinkId. Valid until the next
  // call.
  std::span<const PathState> server_states();
  void kill_links(), cut_live_links();
  void kill_addresses(bool at_the_end);
  // True if the link of this client path is permanently dead now.
  bool is_dead(const ClientNode&, unsigned path) const;
  // True if the link of the port is not permanently dead and the path on it was not removed.
  bool lives(const ClientNode&, std::uint32_t port) const;
  std::uint32_t live_paths(const ClientNode&) const;
  bool leads_to_other_server(const ClientNode&, unsigned path) const;

  const WorldOptions options;
  ChoiceSource& choice;
  Scenario scenario;
  const std::unique_ptr<Net> owned_network;
  Net& network;
  FaultDriver faults;
  Judge judge;
  std::unique_ptr<HistoryLog> history;  // nullptr: no history is written
  Journal journal;
  StorageModel storage;
  std::unique_ptr<Disks> disks;  // nullptr if the load does not use block devices with caches
  ServerNode server;
  Clients clients;
  std::unique_ptr<OtherServer> other_server;  // nullptr if there is none
  std::string trace_file;                     // first trace file that could not be written
  int trace_errno = 0;
  bool links_killed = false;
  bool reconfigured = false;  // the server restarted with other limits
  bool healed = false;        // all faults have ended
  bool closing = false;       // the run closes everything
  bool has_stalled = false;
  std::uint64_t hash = 0;

 private:
  std::vector<PathState> server_states_;  // result of the last server_states()

 private:
  void make_disks();
  void begin_history();
  void note_trace(int error, const std::string& file);
  std::string trace_path(const std::string& node) const { return options.trace + "." + node + ".rtrc"; }
};

// Base class of the parts of a world: references to the shared state.
class Part {
 protected:
  explicit Part(Cluster& cluster) noexcept
      : cluster_(cluster),
        choice_(cluster.choice),
        scenario_(cluster.scenario),
        network_(cluster.network),
        judge_(cluster.judge),
        disks_(cluster.disks),
        server_(cluster.server),
        clients_(cluster.clients) {}

  Nanos now() const noexcept { return cluster_.now(); }
  Nanos now(const Node& node) const noexcept { return cluster_.now(node); }
  void note(Journal::Kind kind, std::uint32_t node, std::uint64_t a = 0, std::uint64_t b = 0,
            std::uint64_t c = 0) {
    cluster_.note(kind, node, a, b, c);
  }

  Cluster& cluster_;
  ChoiceSource& choice_;
  Scenario& scenario_;
  Net& network_;
  Judge& judge_;
  const std::unique_ptr<Disks>& disks_;
  ServerNode& server_;
  Clients& clients_;
};

}  // namespace rtrs::sim
