// What a world and its faults need of a simulated network, whatever carries the messages: queue pairs
// (Network) or streams of octets under the TCP fabric (sim/net/streams). A QpId names one end of a
// connection.
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
  // The fabric of a process that starts on the node. It reports no more than `batch` events in one poll(). It
  // must not outlive the network or `choice`.
  virtual std::unique_ptr<Fabric> open(NodeId, ChoiceSource& choice, std::size_t batch) = 0;
  std::unique_ptr<Fabric> open(NodeId node, ChoiceSource& choice) {
    return open(node, choice, ~std::size_t{0});
  }
  // What it has drawn so far beside the scenario, in words; empty: nothing.
  virtual std::string describe() const { return {}; }
  virtual Nanos now() const noexcept = 0;
  // When the next event is due; kNever when nothing is under way.
  virtual Nanos next_time() const noexcept = 0;
  // Processes everything due at or before `time`, then sets the clock to it (never back).
  virtual void run_until(Nanos time, ChoiceSource&) = 0;
  // True when poll() of this node would report something, or has something to do.
  virtual bool has_events(NodeId) const noexcept = 0;
  // Events that poll() would report now, as far as that is known.
  virtual std::size_t event_count(NodeId) const noexcept = 0;
  // A message for this path of the node has arrived, and poll() has not reported it yet.
  virtual bool holds_message(NodeId, std::size_t path) const noexcept = 0;

  // --- faults ---
  virtual Rates& rates() noexcept = 0;
  virtual const NetworkConfig& config() const noexcept = 0;
  // The link between two ports, made when it does not exist.
  virtual LinkId link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) = 0;
  virtual std::size_t link_count() const noexcept = 0;
  virtual LinkInfo link_info(LinkId) const noexcept = 0;
  virtual void cut(LinkId, Way) = 0;
  virtual void heal(LinkId, Way, ChoiceSource&) = 0;
  virtual void heal_all(ChoiceSource&) = 0;
  // Cuts the link for good: heal() and heal_all() leave it cut.
  virtual void kill(LinkId, Way) = 0;
  virtual void set_latency(LinkId, Nanos latency, Nanos jitter) = 0;
  // Heartbeats, and what is behind them, wait until `until`.
  virtual void starve(LinkId, Way, Nanos until) = 0;
  virtual std::size_t qp_count() const noexcept = 0;
  virtual QpInfo qp_info(QpId) const noexcept = 0;
  // One connection gets nothing through in either direction, whatever its link does. No effect on a dead one.
  virtual void swallow(QpId, bool on, ChoiceSource&) = 0;
  // The same for good, and without a budget of retries: neither end breaks, and no disconnect gets through.
  // False for a dead one.
  virtual bool hang(QpId, ChoiceSource&) = 0;
  // Whether this end of a hung connection has a request or a response that did not arrive.
  virtual bool withholds(QpId) const noexcept = 0;
  // The same of messages of the session, as fences and their answers: how many.
  virtual std::uint32_t withheld_messages(QpId) const noexcept = 0;
  // Everything that this end posted was delivered, and it was told so.
  virtual bool all_delivered(QpId) const noexcept = 0;
  // Client ends of connections that hang and are still open there, oldest first.
  virtual const std::vector<QpId>& hung() noexcept = 0;
  // An adapter is taken out of its node: what is open on the port breaks, nothing can be opened there, and
  // the port's links are cut. The memory of the node and its keys stay.
  virtual void unplug(NodeId, std::uint32_t port, ChoiceSource&) = 0;
  virtual void plug(NodeId, std::uint32_t port, ChoiceSource&) = 0;
  virtual bool is_unplugged(NodeId, std::uint32_t port) const noexcept = 0;
  // Of what the node asks for from now on, `count` in a row cannot be had after `skip` that can.
  virtual void plan_shortage(NodeId, std::uint32_t skip, std::uint32_t count) = 0;
  // Breaks one end now; the other learns by its own means. No effect on a dead one.
  virtual void break_qp(QpId, ChoiceSource&) = 0;
  // Crash: everything of the node is gone and nobody is told. With `orderly` the operating system lives on:
  // it disconnects and refuses new connections; without, the node is silent. Fabrics made before the crash
  // are inert; their memory stays readable until restart(), so that drivers can be destroyed in between.
  virtual void crash(NodeId, bool orderly, ChoiceSource&) = 0;
  virtual void restart(NodeId) = 0;
  virtual bool is_up(NodeId) const noexcept = 0;
  virtual QpId find_qp(NodeId, ConKey) const noexcept = 0;  // kNone when there is none

  // --- observation ---
  virtual const Capabilities& capabilities() const noexcept = 0;
  // Of everything that happened so far, in order.
  virtual std::uint64_t hash() const noexcept = 0;
  // The first few laws that were broken.
  virtual const std::vector<Violation>& violations() const noexcept = 0;
  virtual const NetworkStats& stats() const noexcept = 0;
};

// Makes a network that is part of neither this folder nor sim/net/streams. Its capabilities are its own.
using MakeNet = std::unique_ptr<Net> (*)(const NetworkConfig&, std::uint64_t seed);

}  // namespace rtrs::sim
