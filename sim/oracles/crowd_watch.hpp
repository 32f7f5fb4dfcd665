// O21: a server keeps no more sessions of one client address, and no more half-open ones, than its limits
// say; the half-open session that gives way is the oldest of its address; and no client is refused for want
// of room while a half-open session could give way. Seen from outside: by the calls of the server to its
// fabric.
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
  // The server polls: what it did before has nothing to do with the requests that it gets now.
  void polled() noexcept { gave_way_ = answered_ = kNobody; }
  void asked(std::uint32_t request, std::uint32_t host, wire::Bytes data);
  void accepted(std::uint32_t request, ConKey, Nanos now);
  void rejected(std::uint32_t request, wire::Bytes data, Nanos now);
  // A message came: the session has a name.
  void named(ConKey);
  void lost(ConKey);
  // The server disconnects.
  void ended(ConKey);
  // The connection is gone.
  void closed(ConKey);

 private:
  struct Session {
    std::uint64_t number = 0;  // in the order in which they were opened
    std::uint32_t index = 0;   // at the server
    std::uint32_t host = 0;
    wire::Uuid uuid{};
    unsigned connections = 0;
    bool half_open = true;  // and nothing ended it yet
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
  void check_who_gave_way(Nanos now);

  Judge& judge_;
  unsigned max_sessions_, max_host_sessions_, max_half_open_;
  std::vector<Asked> asked_;
  std::vector<Session> sessions_;
  std::vector<wire::Uuid> former_;  // of sessions that have no connection any more
  std::uint64_t opened_ = 0;
  std::uint64_t gave_way_ = kNobody;  // since the last poll: its number
  std::uint32_t gave_way_host_ = 0;
  std::uint64_t answered_ = kNobody;  // whose connect request was refused last, a session that is known
};

}  // namespace rtrs::sim
