// Feeds a server session the inputs of a shorter run, as ClientPlayer does for a client.
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

  // The input as it has to be fed, `number` is its index in the trace; nothing when it is impossible. What it
  // stands for counts as having happened, so step() has to follow.
  std::optional<ServerInput> prepare(const ServerInput&, std::uint32_t number, const InputMeta&);
  void step(const ServerInput&, ServerActions&);
  const char* broken_invariant() const { return rtrs::broken_invariant(machine_); }
  std::uint64_t fingerprint() const { return machine_.fingerprint(); }
  // As ClientPlayer::renamed().
  std::optional<ServerAction> renamed(const ServerAction&, const ServerPlayer& from) const;

 private:
  struct Connection {
    ConKey now;  // its key in this run: the path may be another
    bool lost = false, disconnected = false, info = false, serving = false;
    unsigned heartbeats = 0;
    unsigned unsignalled = 0;  // work posted since the last that asked for a completion
    std::deque<std::uint64_t> cookies;
  };
  struct Request {
    std::uint16_t chunk = 0;
    ConKey key;
    std::optional<std::uint16_t> delivered;  // serial, until it is answered
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
  std::map<std::uint32_t, Connection> connections_;  // by epoch, which the driver never uses twice
  std::map<std::uint32_t, Request> requests_;        // by the input that brought it
  std::map<std::uint16_t, std::uint32_t> asked_;     // connections that an INFO_REQ needs, by path
};

}  // namespace rtrs::tools
