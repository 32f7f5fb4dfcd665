// O1: every accepted request gets exactly one callback, none after it was abandoned with its client; it is a
// success only if the server reported 0, and an errno only if the server reported that one (or one that the
// wire cannot carry and turns into EIO). Requests are numbered densely from 1.
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
  // The upper layer of the server answered one execution of the request.
  void served(std::uint32_t io, std::uint16_t error);
  // `believed`: the server is honest, so the result is the one that it gave.
  void completed(std::uint64_t io, Errc result, std::uint16_t peer_errno, Nanos now, bool believed = true);
  // The client that submitted it is no more.
  void abandoned(std::uint32_t io);
  std::uint64_t open() const noexcept { return open_; }

 private:
  enum class State : std::uint8_t { unknown, open, over };
  struct Io {
    State state = State::unknown;
    bool served_well = false;
    std::uint8_t error_count = 0;
    std::array<std::uint16_t, 6> errors{};
  };
  Judge& judge_;
  std::vector<Io> ios_;
  std::uint64_t open_ = 0;
};

}  // namespace rtrs::sim
