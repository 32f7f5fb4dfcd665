// Replays a subset of the recorded inputs on a client session. Replaces identifiers that differ in the
// shorter run (permits, epochs, cookies, message ids). Skips an input whose cause was left out.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "core/proto/client_session.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

class ClientPlayer {
 public:
  using Input = ClientInput;
  using Actions = ClientActions;
  explicit ClientPlayer(const ClientInputs& trace) : machine_(trace.config) {}

  // Returns the input with the identifiers of this run, or nullopt if the input is impossible. `number`:
  // index of the input in the trace. The caller must pass the result to step(), because the player already
  // counts the input as executed.
  std::optional<ClientInput> prepare(const ClientInput&, std::uint32_t number, const InputMeta&);
  void step(const ClientInput&, ClientActions&);
  const char* broken_invariant() const { return machine_.broken_invariant(); }
  std::uint64_t fingerprint() const { return machine_.fingerprint(); }
  // Translates an action of the run that `from` plays to the identifiers of this run. Returns nullopt if the
  // action refers to something that does not exist in this run.
  std::optional<ClientAction> renamed(const ClientAction&, const ClientPlayer& from) const;

 private:
  struct Connection {
    unsigned unsignalled = 0;  // work requests posted after the last signalled one
    bool up = false, failed = false, lost = false, disconnected = false;
    bool info_asked = false, info_given = false;
    unsigned heartbeats = 0;  // number of HB_MSG of this client that the server has not acknowledged
    std::deque<std::uint64_t> cookies;
    std::optional<std::uint32_t> fence;  // serial of the unanswered FENCE_REQ
  };
  struct Request {
    std::uint16_t permit = 0;
    std::optional<PostRequest> posted;  // last post of the request
  };

  // Sets the epoch of `key` to its value in this run. Returns the connection, or nullptr if it does not
  // exist.
  Connection* find(ConKey& key, std::uint32_t age);
  bool can(PathAdded&, const InputMeta&, std::uint32_t);
  bool can(PathRemoveRequested&, const InputMeta&, std::uint32_t) { return true; }
  bool can(PathDisconnectRequested&, const InputMeta&, std::uint32_t) { return true; }
  bool can(PathReconnectRequested&, const InputMeta&, std::uint32_t) { return true; }
  bool can(PolicyChanged&, const InputMeta&, std::uint32_t) { return true; }
  bool can(AttemptsChanged&, const InputMeta&, std::uint32_t) { return true; }
  bool can(CloseRequested&, const InputMeta&, std::uint32_t) { return true; }
  bool can(AddressesFound&, const InputMeta&, std::uint32_t);
  bool can(Connected&, const InputMeta&, std::uint32_t);
  bool can(ConnectFailed&, const InputMeta&, std::uint32_t);
  bool can(ConnectionLost&, const InputMeta&, std::uint32_t);
  bool can(ConnectionClosed&, const InputMeta&, std::uint32_t);
  bool can(InfoAccepted&, const InputMeta&, std::uint32_t);
  bool can(ImmReceived&, const InputMeta&, std::uint32_t);
  bool can(KeyedResponseReceived&, const InputMeta&, std::uint32_t);
  bool can(KeyInvalidated&, const InputMeta&, std::uint32_t);
  bool can(FenceAnswered&, const InputMeta&, std::uint32_t);
  bool can(SendDone&, const InputMeta&, std::uint32_t);
  bool can(PeerBroke&, const InputMeta&, std::uint32_t);
  bool can(Submitted&, const InputMeta&, std::uint32_t);
  bool can(DeadlineReached&, const InputMeta&, std::uint32_t);
  bool can(Continued&, const InputMeta&, std::uint32_t);
  // Sets `key` and `imm` to the connection and the message id of the request in this run. Returns false if
  // the request is not in flight on that connection.
  bool answer_for(ConKey& key, std::uint32_t age, std::uint32_t request, std::uint32_t& imm);
  bool rename(ConKey&, const ClientPlayer& from) const;
  bool rename(std::uint16_t& permit, const ClientPlayer& from) const;
  template <class A>
  bool rename_fields(A&, const ClientPlayer& from) const;
  void observe(const ClientActions&);
  void posted(ConKey key, std::uint64_t cookie);

  ClientSession machine_;
  std::map<std::uint16_t, std::uint32_t> newest_;  // newest epoch of each path
  std::map<std::uint16_t, bool> added_;
  std::map<ConKey, Connection> connections_;
  std::map<std::uint32_t, Request> requests_;       // requests, by index of their Submitted input
  std::map<std::uint16_t, std::uint32_t> holders_;  // index of the Submitted input, by permit
  std::uint32_t depth_ = 0;
  std::uint32_t fences_ = 0;  // serial of the last FENCE_REQ
};

}  // namespace rtrs::tools
