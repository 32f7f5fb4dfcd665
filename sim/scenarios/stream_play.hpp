// A directed world without drivers: two TCP fabrics over simulated streams. The world makes any valid calls
// in random order, including orders that no session uses. Keys are revoked while a write with them is in
// flight, messages arrive without receives, connections end at any time. The laws of sim/net/streams check
// everything. At the end everything on live connections must arrive, and nothing may be left.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/net/streams/pipe_network.hpp"
#include "sim/world/world.hpp"

namespace rtrs::sim {

inline constexpr std::string_view kRandomStreams = "TS01";
inline constexpr std::string_view kStreamsTitle = "two TCP fabrics with random calls in any order";

// Draws the scenario. The run uses a different ChoiceSource.
Scenario make_stream_world(ChoiceSource&);
void drive_streams(Scenario&);

class StreamPlay {
 public:
  explicit StreamPlay(World&);
  void run();

 private:
  static constexpr NodeId kServer = 0, kClient = 1;
  static constexpr std::uint32_t kSourceBytes = 65'536;
  static constexpr std::uint32_t kTargetBytes = 24'576;
  static constexpr std::uint32_t kMessageBytes = 512;

  struct Side {
    NodeId id = kNone;
    std::unique_ptr<Fabric> fabric;
    Region source;
  };
  struct End {
    bool asked = false;   // connect() or accept() was called
    bool up = false;      // may post work
    bool left = false;    // disconnect() was called
    bool closed = false;  // ConnectionClosed was reported
    std::uint64_t receives = 0;
  };
  // A connection. Both ends use the same ConKey; the client writes to the server's memory.
  struct Link {
    ConKey key{};
    End ends[2];  // indexed by node
    Region target;
    RemoteKey remote;
    std::uint32_t rkey = 0;  // rkey that the client knows
    bool has_key = false;    // `remote` has not been released
  };

  std::uint32_t draw(std::uint32_t n) { return choice_.draw(n, Label::test); }
  bool failed() const noexcept;
  void pass(Nanos time);
  void poll(Side&);
  void take(Side&, const FabricEvent&);
  void slow_down(const Link&);
  void requested(const event::ConnectRequested&);
  Link* link_of(ConKey);
  Link* any_link();
  Side& side(std::uint32_t node) { return node == kServer ? server_ : client_; }

  // Defined in stream_steps.cpp.
  void step();
  void connect();
  void write(Link&);
  void message(Link&, std::uint32_t node);
  void toggle_key(Link&);
  void leave(Link&, std::uint32_t node);
  void network_fault();
  void receives(Link&, std::uint32_t node, unsigned count);
  void finish();
  void check_arrived();

  World& w_;
  // In a quarter of the seeds some connections carry one byte at a time. Derived from the client seed instead
  // of a draw, so that the draws of all other seeds stay the same.
  bool slow_readers_;
  ChoiceSource& choice_;
  PipeNetwork& network_;
  Side server_, client_;
  std::vector<Link> links_;
  std::vector<LinkId> cut_;
};

}  // namespace rtrs::sim
