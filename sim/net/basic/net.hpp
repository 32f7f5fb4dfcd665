// Interface of a simulated network for worlds and faults. Messages are carried by queue pairs (Network), by
// byte streams below the TCP fabric (sim/net/streams) or by in-memory adapters (sim/net/verbs). A QpId names
// one end of a connection.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "sim/choices/choice.hpp"
#include "sim/net/basic/law_monitor.hpp"
#include "sim/net/basic/network_config.hpp"
#include "sim/net/basic/network_event.hpp"

namespace rtrs::sim {

class Net {
 public:
  virtual ~Net() = default;
  Net() = default;
  Net(const Net&) = default;
  Net& operator=(const Net&) = default;
  Net(Net&&) = default;
  Net& operator=(Net&&) = default;

  // --- topology and time ---
  virtual NodeId add_node() = 0;
  // Returns the fabric of a process that starts on the node. poll() reports at most `batch` events per call.
  // The fabric must not outlive the network or `choice`.
  virtual std::unique_ptr<Fabric> open(NodeId, ChoiceSource& choice, std::size_t batch) = 0;
  std::unique_ptr<Fabric> open(NodeId node, ChoiceSource& choice) {
    return open(node, choice, ~std::size_t{0});
  }
  // Settings that the network itself has drawn, as text; empty if there are none.
  virtual std::string describe() const { return {}; }
  virtual Nanos now() const noexcept = 0;
  // Time of the next event; kNever if none is scheduled.
  virtual Nanos next_time() const noexcept = 0;
  // Processes all events due at or before `time`, then sets the clock to `time` unless it is later already.
  virtual void run_until(Nanos time, ChoiceSource&) = 0;
  // True if poll() of this node would report an event or has other work to do.
  virtual bool has_events(NodeId) const noexcept = 0;
  // Number of events that poll() would report now; 0 if the network cannot know it.
  virtual std::size_t event_count(NodeId) const noexcept = 0;
  // True if a message for this path of the node has arrived and poll() has not reported it yet.
  virtual bool holds_message(NodeId, std::size_t path) const noexcept = 0;

  // --- faults ---
  virtual Rates& rates() noexcept = 0;
  virtual const NetworkConfig& config() const noexcept = 0;
  // Returns the link between two ports; creates it if it does not exist.
  virtual LinkId link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) = 0;
  virtual std::size_t link_count() const noexcept = 0;
  virtual LinkInfo link_info(LinkId) const noexcept = 0;
  virtual void cut(LinkId, Way) = 0;
  virtual void heal(LinkId, Way, ChoiceSource&) = 0;
  virtual void heal_all(ChoiceSource&) = 0;
  // Cuts the link permanently: heal() and heal_all() do not heal it.
  virtual void kill(LinkId, Way) = 0;
  virtual void set_latency(LinkId, Nanos latency, Nanos jitter) = 0;
  // Delays heartbeats, and all messages queued behind them, until `until`.
  virtual void starve(LinkId, Way, Nanos until) = 0;
  virtual std::size_t qp_count() const noexcept = 0;
  virtual QpInfo qp_info(QpId) const noexcept = 0;
  // Drops all traffic of one connection in both directions, whatever the state of its link. No effect on a
  // dead connection.
  virtual void swallow(QpId, bool on, ChoiceSource&) = 0;
  // Delivers only one byte per interval `apart` from this end; 0: no limit. Returns false if the network
  // carries no bytes but messages.
  virtual bool trickle(QpId, Nanos /*apart*/) { return false; }
  // Drops all traffic of one connection permanently and without a retry budget: neither end breaks, and no
  // disconnect arrives. Returns false for a dead connection.
  virtual bool hang(QpId, ChoiceSource&) = 0;
  // True if a request or a response that this end of a hung connection posted has not arrived.
  virtual bool has_undelivered(QpId) const noexcept = 0;
  // Number of SEND messages (such as fences and their replies) that this end posted and that have not
  // arrived.
  virtual std::uint32_t undelivered_messages(QpId) const noexcept = 0;
  // True if everything that this end posted was delivered and acknowledged.
  virtual bool all_delivered(QpId) const noexcept = 0;
  // Client ends of hung connections that the client has not closed, oldest first.
  virtual const std::vector<QpId>& hung() noexcept = 0;
  // Removes the adapter of a port: its connections break, no connection can be opened on it, and its links
  // are cut. Memory and keys of the node stay.
  virtual void unplug(NodeId, std::uint32_t port, ChoiceSource&) = 0;
  virtual void plug(NodeId, std::uint32_t port, ChoiceSource&) = 0;
  virtual bool is_unplugged(NodeId, std::uint32_t port) const noexcept = 0;
  // Makes `count` consecutive resource requests of the node fail, after `skip` that succeed.
  virtual void plan_shortage(NodeId, std::uint32_t skip, std::uint32_t count) = 0;
  // Breaks one end now; the other end has to detect it. No effect on a dead connection.
  virtual void break_qp(QpId, ChoiceSource&) = 0;
  // Crashes the node: all its connections and keys are lost, and its process gets no event. With `orderly`
  // the operating system survives: it disconnects the peers and refuses new connections. Otherwise the node
  // is silent. Fabrics created before the crash become inert. Their memory stays readable until restart(), so
  // that drivers can be destroyed in between.
  virtual void crash(NodeId, bool orderly, ChoiceSource&) = 0;
  virtual void restart(NodeId) = 0;
  virtual bool is_up(NodeId) const noexcept = 0;
  virtual QpId find_qp(NodeId, ConKey) const noexcept = 0;  // kNone if there is none

  // --- observation ---
  virtual const Capabilities& capabilities() const noexcept = 0;
  // Hash of all network events so far, in order.
  virtual std::uint64_t hash() const noexcept = 0;
  // The first few violations of network laws.
  virtual const std::vector<Violation>& violations() const noexcept = 0;
  virtual const NetworkStats& stats() const noexcept = 0;
};

// Function that creates a network from outside this library (sim/net/verbs). Such a network sets its own
// capabilities.
using MakeNet = std::unique_ptr<Net> (*)(const NetworkConfig&, std::uint64_t seed);

}  // namespace rtrs::sim
