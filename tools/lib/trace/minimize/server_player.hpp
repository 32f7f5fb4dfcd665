// Replays a subset of the recorded inputs on a server session, as ClientPlayer does for a client.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "core/proto/server_invariants.hpp"
#include "core/proto/server_session.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

class ServerPlayer {
 public:
  using Input = ServerInput;
  using Actions = ServerActions;
  explicit ServerPlayer(const ServerInputs& trace) : machine_(trace.config, trace.session) {}

  // Returns the input with the identifiers of this run, or nullopt if the input is impossible. `number`:
  // index of the input in the trace. The caller must pass the result to step(), because the player already
  // counts the input as executed.
  std::optional<ServerInput> prepare(const ServerInput&, std::uint32_t number, const InputMeta&);
  void step(const ServerInput&, ServerActions&);
  const char* broken_invariant() const { return rtrs::broken_invariant(machine_); }
  std::uint64_t fingerprint() const { return machine_.fingerprint(); }
  // See ClientPlayer::renamed().
  std::optional<ServerAction> renamed(const ServerAction&, const ServerPlayer& from) const;

 private:
  struct Connection {
    ConKey now;  // key in this run; its path can differ from the recorded one
    bool lost = false, disconnected = false, info = false, serving = false;
    unsigned heartbeats = 0;
    unsigned unsignalled = 0;  // work requests posted after the last signalled one
    std::deque<std::uint64_t> cookies;
  };
  struct Request {
    std::uint16_t chunk = 0;
    ConKey key;
    std::optional<std::uint16_t> delivered;  // serial of the Deliver; unset after the response
    bool invalidating = false;
  };

  Connection* find(ConKey& key);
  Connection* at(ConKey now);
  bool path_serves(const Connection&) const;
  bool can(ConnectRequested&, const InputMeta&, std::uint32_t);
  bool can(ConnectionLost&, const InputMeta&, std::uint32_t);
  bool can(ConnectionClosed&, const InputMeta&, std::uint32_t);
  bool can(InfoRequested&, const InputMeta&, std::uint32_t);
  bool can(RequestArrived&, const InputMeta&, std::uint32_t);
  bool can(ChunkInvalidated&, const InputMeta&, std::uint32_t);
  bool can(FenceRequested&, const InputMeta&, std::uint32_t);
  bool can(Responded&, const InputMeta&, std::uint32_t);
  bool can(ImmReceived&, const InputMeta&, std::uint32_t);
  bool can(SendDone&, const InputMeta&, std::uint32_t);
  bool can(PeerBroke&, const InputMeta&, std::uint32_t);
  bool can(PathDisconnectRequested&, const InputMeta&, std::uint32_t) { return true; }
  bool can(CloseRequested&, const InputMeta&, std::uint32_t) { return true; }
  bool can(DeadlineReached&, const InputMeta&, std::uint32_t);
  bool can(Continued&, const InputMeta&, std::uint32_t);
  template <class A>
  bool rename_fields(A&) const;
  void observe(const ServerActions&);

  ServerSession machine_;
  std::map<std::uint32_t, Connection> connections_;  // key: epoch, which the driver never uses twice
  std::map<std::uint32_t, Request> requests_;        // requests, by index of their RequestArrived input
  std::map<std::uint16_t, std::uint32_t> asked_;     // number of connections that INFO_REQ needs, by path
};

}  // namespace rtrs::tools
