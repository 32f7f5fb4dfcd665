// O25: no connection joins a session that a client with another identity created. Checked from outside, by
// the server's calls to its fabric.
#pragma once
#include <cstdint>
#include <vector>

#include "core/proto/ids.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class IdentityWatch {
 public:
  explicit IdentityWatch(Judge& judge) : judge_(judge) {}
  void asked(std::uint32_t request, PeerIdentity);
  void accepted(std::uint32_t request, ConKey, Nanos now);
  void rejected(std::uint32_t request);
  // Called when ConnectionClosed is reported.
  void closed(ConKey);

 private:
  struct Asked {
    std::uint32_t request = 0;
    PeerIdentity identity{};
  };
  // A server session; removed when its last connection is closed.
  struct Session {
    std::uint32_t index = 0;
    PeerIdentity identity{};
    std::vector<ConKey> connections;
  };
  PeerIdentity take(std::uint32_t request);

  Judge& judge_;
  std::vector<Asked> asked_;
  std::vector<Session> sessions_;
};

}  // namespace rtrs::sim
