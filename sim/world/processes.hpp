// Starts, crashes, pauses, closes and restarts the processes of a run.
#pragma once
#include <optional>

#include "sim/world/books.hpp"
#include "sim/world/cluster.hpp"
#include "sim/world/crowd.hpp"

namespace rtrs::sim {

class Processes : private Part {
 public:
  Processes(Cluster& cluster, Books& books, Crowd& crowd)
      : Part(cluster), books_(books), crowd_(crowd), default_server_config_(cluster.scenario.server) {}

  void start_server(), start_client(std::uint32_t index);
  void carry_out(const WorldFault&);
  void restart_now(NodeId);
  // Starts all nodes that are down after the script, and puts all removed adapters back.
  void restart_all();
  // Ends the violations of the protocol: restarts the process that violated it. If this is the server, also
  // restarts all clients, because they have limits from the server.
  void replace_liar();
  // Restores the server's default limits, and restarts the nodes that use other limits.
  void restore_limits();
  void begin_close(ClientNode&), begin_shutdown();
  // Releases the memory region of a closed client's application, then checks that the client holds nothing
  // more.
  void release_client(ClientNode&);
  // Restarts a client that has closed.
  void rejoin(ClientNode&);
  // Sets how the server dies at its next crash; by default this is drawn.
  void set_next_death(Death death) { next_death_ = death; }
  // Ends all processes of a run over in-memory adapters, so that leaked objects are detected.
  void end_all();

 private:
  std::unique_ptr<HeartbeatWatch> watch_of(const Node&, HeartbeatConfig);
  ClientOptions client_options(ClientNode&, std::uint32_t index);
  void pause(Node&, Nanos until), restart(NodeId), crash(Node&), lie(), oversleep(Node&);
  void ask_for_keys(Fabric& outermost_fabric);
  void prove_key(ClientNode&, Fabric&), resolve_names(ClientNode&);
  void draw_limits();
  void change_disks(), delay_disks(), crash_disks(NodeId);

  Books& books_;
  Crowd& crowd_;
  const ServerConfig default_server_config_;  // configuration at the end of the run
  std::optional<Death> next_death_;
};

}  // namespace rtrs::sim
