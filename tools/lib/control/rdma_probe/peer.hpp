// Two probes on two hosts: one listens, the other one connects to it by the connection manager and writes.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/verbs/verbs_address.hpp"
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"

namespace rtrs::probe {

constexpr std::uint16_t kPeerPort = 18516;

// All addresses of a name or of an address in figures, see verbs::resolve_addresses().
using Resolve = std::function<std::vector<net::SocketAddress>(std::string_view text, std::uint16_t port)>;

struct PeerWanted {
  std::string address;  // of the peer, or OWN@PEER; of a name each address is tried until one answers
  std::uint16_t port = kPeerPort;
  std::uint64_t rounds = 1000;  // of a pattern, an immediate and the answer to it
  Resolve resolve = verbs::resolve_addresses;
};

struct PeerLines {
  Lines lines;
  bool silent = false;  // the peer did not answer in time
};
// Names and addresses come from the user; what the peer says is not trusted.
PeerLines probe_peer(const PeerWanted&, const Pace&);

struct Listening {
  std::string address{};  // empty: every one of this host
  std::uint16_t port = kPeerPort;
  std::chrono::milliseconds lasts{600'000};
  // No peer is served for longer.
  std::chrono::milliseconds each{120'000};
  // Once it can be reached, with its port.
  std::function<void(std::uint16_t port)> ready = [](std::uint16_t) {};
  Resolve resolve = verbs::resolve_addresses;
};
// Serves one peer at a time, until its time is over or pace.stop() says so. A line for each.
Lines listen_for_peers(const Listening&, const Pace&);

}  // namespace rtrs::probe
