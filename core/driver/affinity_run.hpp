// Which affinity, and with it which connection, a request of a block device takes. Decisions only.
//
// Requests that come one after another go over one connection, so that they are sent and received together;
// where many are under way a run of them ends, so that all connections get some.
#pragma once
#include <cstdint>

namespace rtrs {

class AffinityRun {
 public:
  // What a run has at most. A request that is larger is a run by itself.
  static constexpr std::uint32_t kRequests = 16;
  static constexpr std::uint32_t kBytes = 64U << 10U;

  // `others_under_way`: requests that are not answered yet. While there are none nothing is gained by
  // another connection.
  std::uint16_t next(bool others_under_way, std::uint32_t bytes) noexcept {
    if (!others_under_way) {
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
  std::uint32_t bytes_ = 0;  // kBytes at most
  std::uint16_t affinity_ = 0;
};

}  // namespace rtrs
