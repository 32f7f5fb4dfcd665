// The clocks behind the time stamps of a capture. Frames of the two ends of a connection may have been
// stamped by different clocks: two hosts captured, and somebody merged the files. Then effects stand before
// their causes, and whoever reads the frames in the order of their stamps misses packets that are there. A
// packet comes before its acknowledgement, a connect request before its reply: from many such pairs in both
// directions follows by how much one clock is ahead, to half the difference of the two ways. Packets of both
// ends that are nearer to each other may still be read in the wrong order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {

class ClockOffsets {
 public:
  // More than this, in nanoseconds, is no difference between clocks that anybody has set.
  static constexpr std::int64_t kMost = 100'000'000;

  // Every frame of the capture, in its order.
  void look(std::uint64_t time, const Packet& packet);
  // After the last.
  void finish();
  // After finish(): nanoseconds to add to the stamp of this packet. 0 where causes stand before effects
  // anyway, and where no single difference explains the order.
  [[nodiscard]] std::int64_t correction(const Packet& packet) const;
  // Of all pairs of addresses, the difference that is farthest from 0.
  [[nodiscard]] std::int64_t largest() const noexcept { return largest_; }

 private:
  using QueuePair = std::pair<Address, std::uint32_t>;
  using Ends = std::pair<Address, Address>;  // the smaller one first
  struct Bounds {
    // Of what to add to frames from the greater address.
    std::int64_t least = INT64_MIN;
    std::int64_t most = INT64_MAX;
    std::uint64_t reversed = 0;  // the effect has the earlier stamp
    [[nodiscard]] std::int64_t offset() const;
  };
  // When the packets to one queue pair were sent and acknowledged, by sequence number; the newest ones.
  struct Lane {
    std::unordered_map<std::uint32_t, std::uint64_t> sent;
    std::unordered_map<std::uint32_t, std::uint64_t> acknowledged;
    std::deque<std::uint32_t> order;
  };

  struct Handshake {
    std::optional<std::uint64_t> request;
    std::optional<std::uint64_t> reply;
    std::optional<std::uint64_t> ready;
    std::optional<std::uint64_t> reject;
    std::uint32_t client_qpn = 0;
    std::uint32_t server_qpn = 0;
  };

  void manage(std::uint64_t time, const Packet& packet);
  void rejected(std::uint64_t time, const Packet& packet, std::uint32_t client_id);
  static void caused(std::map<Ends, Bounds>& of, const Address& by, std::uint64_t cause, const Address& at,
                     std::uint64_t effect);
  static void remember(std::unordered_map<std::uint32_t, std::uint64_t>& times, Lane& lane, std::uint32_t psn,
                       std::uint64_t time);

  std::map<Ends, Bounds> bounds_;
  // From connect requests to their rejects alone. They follow at once, and would draw the middle of the other
  // bounds to their side.
  std::map<Ends, Bounds> rejects_;
  std::map<Ends, std::int64_t> offsets_;  // that are not 0
  std::int64_t largest_ = 0;
  std::map<QueuePair, Handshake> handshakes_;  // by address and number of the client
  std::map<QueuePair, QueuePair> peers_;
  std::map<QueuePair, Lane> lanes_;
};

// Puts frames whose stamps were corrected in order again. Holds what later ones may still precede.
class FrameOrder {
 public:
  // `slack`: a frame that comes later has at most this much less on its stamp.
  explicit FrameOrder(std::uint64_t slack) : slack_(slack) {}

  // `take(time, packet)` gets what is in order by now.
  template <class Take>
  void add(std::uint64_t time, Packet&& packet, const Take& take) {
    newest_ = std::max(newest_, time);
    held_.emplace(time, std::move(packet));
    while (!held_.empty() && held_.begin()->first + slack_ <= newest_) pop(take);
  }
  template <class Take>
  void finish(const Take& take) {
    while (!held_.empty()) pop(take);
  }

 private:
  template <class Take>
  void pop(const Take& take) {
    auto first = held_.extract(held_.begin());
    take(first.key(), std::move(first.mapped()));
  }

  std::uint64_t slack_;
  std::uint64_t newest_ = 0;
  std::multimap<std::uint64_t, Packet> held_;
};

}  // namespace rtrs::roce
