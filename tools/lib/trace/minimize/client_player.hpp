// Feeds a client session the inputs of a shorter run: names that have changed are replaced (permits, epochs,
// cookies, message ids), and an input that can no longer happen, because what caused it is gone, is left out.
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

  // The input as it has to be fed, `number` is its index in the trace; nothing when it is impossible. What it
  // stands for counts as having happened, so step() has to follow.
  std::optional<ClientInput> prepare(const ClientInput&, std::uint32_t number, const InputMeta&);
  void step(const ClientInput&, ClientActions&);
  const char* broken_invariant() const { return machine_.broken_invariant(); }
  std::uint64_t fingerprint() const { return machine_.fingerprint(); }
  // An action that the machine of `from` could take now as this machine would take it; nothing when what it
  // is about does not exist here.
  std::optional<ClientAction> renamed(const ClientAction&, const ClientPlayer& from) const;

 private:
  struct Connection {
    unsigned unsignalled = 0;  // work posted since the last that asked for a completion
    bool up = false, failed = false, lost = false, disconnected = false;
    bool info_asked = false, info_given = false;
    unsigned heartbeats = 0;  // HB_MSG of ours without an answer
    std::deque<std::uint64_t> cookies;
    std::optional<std::uint32_t> fence;  // serial that was asked and not answered
  };
  struct Request {
    std::uint16_t permit = 0;
    std::optional<PostRequest> posted;  // the last time
  };

  // The key as it is called now, and its connection; null when there is none.
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
  // The connection that the request went over, and the message id under which it is known; false when nothing
  // of it is under way there.
  bool answer_for(ConKey& key, std::uint32_t age, std::uint32_t request, std::uint32_t& imm);
  bool rename(ConKey&, const ClientPlayer& from) const;
  bool rename(std::uint16_t& permit, const ClientPlayer& from) const;
  template <class A>
  bool rename_fields(A&, const ClientPlayer& from) const;
  void observe(const ClientActions&);
  void posted(ConKey key, std::uint64_t cookie);

  ClientSession machine_;
  std::map<std::uint16_t, std::uint32_t> newest_;  // epoch by path
  std::map<std::uint16_t, bool> added_;
  std::map<ConKey, Connection> connections_;
  std::map<std::uint32_t, Request> requests_;       // by the input that submitted it
  std::map<std::uint16_t, std::uint32_t> holders_;  // by permit
  std::uint32_t depth_ = 0;
  std::uint32_t fences_ = 0;  // serial of the last
};

}  // namespace rtrs::tools
