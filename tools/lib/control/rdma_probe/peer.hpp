// Test between two hosts: one probe listens; the other one connects to it with the connection manager and
// writes.
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

// Returns all addresses of a name or of a numeric address; see verbs::resolve_addresses().
using Resolve = std::function<std::vector<net::SocketAddress>(std::string_view text, std::uint16_t port)>;

struct PeerWanted {
  std::string address;  // PEER or OWN@PEER; if PEER is a name, each of its addresses is tried
  std::uint16_t port = kPeerPort;
  std::uint64_t rounds = 1000;  // number of rounds; hello.hpp describes a round
  Resolve resolve = verbs::resolve_addresses;
};

struct PeerLines {
  Lines lines;
  bool silent = false;  // the peer did not answer in time
};
// Runs the test against a listening probe. Messages of the peer are not trusted.
PeerLines probe_peer(const PeerWanted&, const Pace&);

struct Listening {
  std::string address{};  // empty: all addresses of this host
  std::uint16_t port = kPeerPort;
  std::chrono::milliseconds lasts{600'000};  // time to listen
  // Time limit for each peer.
  std::chrono::milliseconds each{120'000};
  // Called once with the port, when peers can connect.
  std::function<void(std::uint16_t port)> ready = [](std::uint16_t) {};
  Resolve resolve = verbs::resolve_addresses;
};
// Serves one peer at a time, for the duration `lasts` or until pace.stop() returns true. Returns one line per
// peer.
Lines listen_for_peers(const Listening&, const Pace&);

}  // namespace rtrs::probe
