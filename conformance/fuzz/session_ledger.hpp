// Model of a session's connections for fuzzers: which are open, which the session has ended, and the work
// posted on them.
#pragma once
#include <map>
#include <vector>

#include "conformance/fuzz/fuzz.hpp"
#include "core/proto/actions.hpp"

namespace rtrs::fuzz {

class SessionLedger {
 public:
  struct Connection {
    bool ending = false;
    std::vector<std::uint64_t> cookies;  // cookies of signalled work in flight
  };

  std::map<ConKey, Connection>& connections() noexcept { return connections_; }
  bool ended() const noexcept { return ended_; }

  void opened(ConKey key) { RTRS_FUZZ_CHECK(connections_.emplace(key, Connection{}).second); }
  void disconnected(ConKey key) {
    RTRS_FUZZ_CHECK(connections_.count(key) == 1 && !connections_[key].ending);
    connections_[key].ending = true;
    connections_[key].cookies.clear();
  }
  void posted(ConKey key, std::uint64_t cookie) {
    RTRS_FUZZ_CHECK(connections_.count(key) == 1 && !connections_[key].ending);
    if (cookie != 0) connections_[key].cookies.push_back(cookie);
  }
  void session_ended() {
    RTRS_FUZZ_CHECK(!ended_ && connections_.empty());
    ended_ = true;
  }
  // Draws an existing connection, or rarely one that never existed.
  template <class Draws>
  ConKey some(Draws& draws) {
    const auto at = draws.one_of(connections_);
    if (at != connections_.end() && !draws.rarely(16)) return at->first;
    return {static_cast<std::uint16_t>(draws.below(kMaxPaths)), static_cast<std::uint16_t>(draws.below(3)),
            draws.below(8)};
  }
  // Cookie of the connection's oldest signalled work, or rarely an invalid one. 0: no signalled work.
  template <class Draws>
  std::uint64_t completion(Draws& draws, ConKey key) {
    if (draws.rarely(64)) return draws.below(1024);
    const auto at = connections_.find(key);
    if (at == connections_.end() || at->second.cookies.empty()) return 0;
    const std::uint64_t cookie = at->second.cookies.front();
    at->second.cookies.erase(at->second.cookies.begin());
    return cookie;
  }

 private:
  std::map<ConKey, Connection> connections_;
  bool ended_ = false;
};

}  // namespace rtrs::fuzz
