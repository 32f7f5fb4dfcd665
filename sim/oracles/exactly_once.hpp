// O1: every accepted request gets exactly one callback, and none after its client died. The callback reports
// success only if the server reported 0, and an errno only if the server reported it (or one that the wire
// format replaces by EIO). Request numbers are consecutive from 1.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/proto/errc.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class ExactlyOnce {
 public:
  explicit ExactlyOnce(Judge& judge) : judge_(judge) {}
  void accepted(std::uint32_t io, Nanos now);
  // Called when the server's upper layer has completed one execution of the request.
  void served(std::uint32_t io, std::uint16_t error);
  // `believed`: false if the server violates the protocol, so that its result is not checked.
  void completed(std::uint64_t io, Errc result, std::uint16_t peer_errno, Nanos now, bool believed = true);
  // Called when the client that submitted the request has died.
  void abandoned(std::uint32_t io);
  std::uint64_t open() const noexcept { return open_; }

 private:
  enum class State : std::uint8_t { unknown, open, over };
  struct Io {
    State state = State::unknown;
    bool served_successfully = false;
    std::uint8_t error_count = 0;
    std::array<std::uint16_t, 6> errors{};
  };
  Judge& judge_;
  std::vector<Io> ios_;
  std::uint64_t open_ = 0;
};

}  // namespace rtrs::sim
