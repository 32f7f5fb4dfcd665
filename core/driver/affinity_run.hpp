// Chooses the affinity, and thereby the connection, of a block device's requests. Pure decision logic.
//
// Consecutive requests use one connection, so that they are sent and received together. If many requests are
// in flight, the run ends after a limit, so that all connections are used.
#pragma once
#include <cstdint>

namespace rtrs {

class AffinityRun {
 public:
  // Limits of a run. A request of more than kBytes forms a separate run.
  static constexpr std::uint32_t kRequests = 16;
  static constexpr std::uint32_t kBytes = 64U << 10U;

  // Without other requests in flight the affinity stays the same, because a second connection has no benefit.
  std::uint16_t next(bool others_in_flight, std::uint32_t bytes) noexcept {
    if (!others_in_flight) {
      requests_ = bytes_ = 0;
    } else if (requests_ == kRequests || bytes > kBytes - bytes_) {
      ++affinity_;
      requests_ = bytes_ = 0;
    }
    ++requests_;
    bytes_ = bytes < kBytes - bytes_ ? bytes_ + bytes : kBytes;
    return affinity_;
  }

 private:
  std::uint32_t requests_ = 0;
  std::uint32_t bytes_ = 0;  // bytes in the current run, at most kBytes
  std::uint16_t affinity_ = 0;
};

}  // namespace rtrs
