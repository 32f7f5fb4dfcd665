// Estimates clock offsets in a capture. If a capture is merged from captures of two hosts, the two ends of a
// connection have time stamps of different clocks. Effects can then appear before their causes, and to a
// reader that follows the time stamps, packets seem to be missing. Known causes and effects are: a packet and
// its acknowledgement, a connect request and its reply. Many such pairs in both directions give the clock
// offset, with an error of half the difference of the two one-way delays. Packets of the two ends that are
// closer together than this error may still be in the wrong order.
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
  // Maximum offset in ns. The clocks of hosts are assumed to differ by less.
  static constexpr std::int64_t kMost = 100'000'000;

  // Processes a packet. Call it for each packet, in capture order. `time` is in ns.
  void look(std::uint64_t time, const Packet& packet);
  // Processes a TCP segment likewise. `ports`: those of source and destination. `end`: number of the first
  // byte after the segment; nullopt if it has neither payload nor SYN. `before`: it acknowledges all bytes
  // before this number.
  struct Flow {
    Address source;
    Address destination;
    std::pair<std::uint16_t, std::uint16_t> ports;
    auto operator<=>(const Flow&) const = default;
  };
  void look(std::uint64_t time, const Flow& flow, std::optional<std::uint32_t> end,
            std::optional<std::uint32_t> before);
  // Call after the last packet.
  void finish();
  // Returns the number of ns to add to the time of packets of these addresses; call it after finish().
  // Returns 0 if no effect comes before its cause, or if no single offset explains the order.
  [[nodiscard]] std::int64_t correction(const Address& source, const Address& destination) const;
  [[nodiscard]] std::int64_t correction(const Packet& packet) const {
    return correction(packet.source, packet.destination);
  }
  // Returns the largest offset, by absolute value, of all address pairs.
  [[nodiscard]] std::int64_t largest() const noexcept { return largest_; }

 private:
  using QueuePair = std::pair<Address, std::uint32_t>;
  using Ends = std::pair<Address, Address>;  // address pair, the smaller address first
  struct Bounds {
    // Bounds of the offset to add to frames from the greater address, in ns.
    std::int64_t least = INT64_MIN;
    std::int64_t most = INT64_MAX;
    std::uint64_t reversed = 0;  // number of pairs whose effect has the earlier time stamp
    [[nodiscard]] std::int64_t offset() const;
  };
  // Times of sending and acknowledging the newest packets to one queue pair, by sequence number.
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
  void sent(std::uint64_t time, Lane& lane, std::uint32_t number, const Address& by, const Address& to);
  void acknowledged(std::uint64_t time, Lane& lane, std::uint32_t number, const Address& by,
                    const Address& to);
  void rejected(std::uint64_t time, const Packet& packet, std::uint32_t client_id);
  static void caused(std::map<Ends, Bounds>& of, const Address& by, std::uint64_t cause, const Address& at,
                     std::uint64_t effect);
  static void remember(std::unordered_map<std::uint32_t, std::uint64_t>& times, Lane& lane, std::uint32_t psn,
                       std::uint64_t time);

  std::map<Ends, Bounds> bounds_;
  // Bounds from connect requests and their rejects. Kept separately: a reject follows its request almost at
  // once, which would shift the middle of the other bounds.
  std::map<Ends, Bounds> rejects_;
  std::map<Ends, std::int64_t> offsets_;  // offset in ns by address pair; lacks pairs whose offset is 0
  std::int64_t largest_ = 0;
  std::map<QueuePair, Handshake> handshakes_;  // keyed by address and CM id of the client
  std::map<QueuePair, QueuePair> peers_;
  std::map<QueuePair, Lane> lanes_;
  std::map<Flow, Lane> flows_;
};

// Sorts frames (type Frame) by corrected time. Holds a frame as long as a later frame could still have an
// earlier time.
template <class Frame>
class FrameOrder {
 public:
  // `slack`: maximum number of ns by which the time of a frame may be before the time of an earlier frame.
  explicit FrameOrder(std::uint64_t slack) : slack_(slack) {}

  // Adds a frame. Calls take(time, frame) for each frame whose order is final.
  template <class Take>
  void add(std::uint64_t time, Frame&& frame, const Take& take) {
    newest_ = std::max(newest_, time);
    held_.emplace(time, std::move(frame));
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
  std::multimap<std::uint64_t, Frame> held_;
};

}  // namespace rtrs::roce
