// O21: for each client address, a server keeps at most the configured numbers of sessions and half-open
// sessions. The server evicts the oldest half-open session of the address, and refuses no client for lack of
// space while a half-open session could be evicted. Checked by the server's calls to its fabric.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/config.hpp"
#include "core/proto/ids.hpp"
#include "core/wire/messages.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class CrowdWatch {
 public:
  CrowdWatch(Judge&, const ServerConfig&);
  // Called when the server polls. Earlier evictions are not caused by connect requests of this poll.
  void polled() noexcept { evicted_session_ = answered_ = kNobody; }
  void asked(std::uint32_t request, std::uint32_t host, wire::Bytes data);
  void accepted(std::uint32_t request, ConKey, Nanos now);
  void rejected(std::uint32_t request, wire::Bytes data, Nanos now);
  // Called when a message arrives on the connection, so that its session is no longer half-open.
  void named(ConKey);
  void lost(ConKey);
  // Called when the server disconnects.
  void ended(ConKey);
  // Called when ConnectionClosed is reported.
  void closed(ConKey);

 private:
  struct Session {
    std::uint64_t number = 0;  // sessions are numbered in order of creation
    std::uint32_t index = 0;   // index at the server
    std::uint32_t host = 0;
    wire::Uuid uuid{};
    unsigned connections = 0;
    bool half_open = true;  // no message arrived, and no connection was lost or ended
  };
  struct Asked {
    std::uint32_t request = 0;
    std::uint32_t host = 0;
    wire::Uuid uuid{};
  };
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  Asked take(std::uint32_t request);
  Session* find(ConKey) noexcept;
  Session* find(const wire::Uuid&) noexcept;
  unsigned half_open_of(std::uint32_t host) const noexcept;
  void check_evicted_session(Nanos now);

  Judge& judge_;
  unsigned max_sessions_, max_host_sessions_, max_half_open_;
  std::vector<Asked> asked_;
  std::vector<Session> sessions_;
  std::vector<wire::Uuid> former_;  // sessions without connections
  std::uint64_t opened_ = 0;
  std::uint64_t evicted_session_ = kNobody;  // number of the session evicted since the last poll
  std::uint32_t evicted_host_ = 0;
  std::uint64_t answered_ = kNobody;  // known session whose connect request was last refused
};

}  // namespace rtrs::sim
