// One connection of either side: its life, its receives and its send queue, from what was posted and
// reported.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

// Connections of one path that a step deals with. A path that has more of them leaves the rest to the
// Continued steps that follow.
inline constexpr std::size_t kConsAStep = 136;

class Connection {
 public:
  enum class Phase : std::uint8_t { asked, up, failed, ending, closed };

  Connection() = default;
  Connection(const Key& key, Phase phase) : key_(key), phase_(phase) {}

  const Key& key() const noexcept { return key_; }
  Phase phase() const noexcept { return phase_; }
  bool up() const noexcept { return phase_ == Phase::up; }
  bool open() const noexcept { return phase_ != Phase::ending && phase_ != Phase::closed; }

  void answered(const RuleContext& context, bool accepted);
  void lost(const RuleContext& context) const;
  void closed(const RuleContext& context);
  // `rule` is broken when it was ended before.
  void disconnect(const RuleContext& context, Rule rule);
  // Anything that needs it established: false, and reported, when it is not.
  bool live(const RuleContext& context) const;
  // Something of it was reported that needs it established, or established once.
  void heard(const RuleContext& context) const;

  void post_receives(std::uint32_t count) noexcept { receives_ += count; }
  void take_receive(const RuleContext& context);
  std::uint64_t receives() const noexcept { return receives_; }
  // At the end of a step of a connected path; the first such step says how many there are from then on.
  // `least`: what may arrive before the next step.
  void balance(const RuleContext& context, std::uint32_t least);

  void post(const RuleContext& context, std::uint32_t entries, std::uint64_t cookie, std::uint32_t depth);
  void completed(const RuleContext& context);
  // Server: an HB_MSG came over this connection, which is not the service connection.
  bool owes_ack = false;
  // Its last arrival, or completion where deliveries are probed, or when it was set up.
  Time heard_at = 0;
  // Client: something was outstanding when a timer was due last. A probe for it may wait for room in the
  // queue.
  bool was_outstanding = false;
  // Client: whether its last HB_MSG has no answer yet.
  bool unanswered = false;
  // Client: the last request that was posted on it for the first time, by its number.
  std::uint64_t last_request = 0;
  bool has_room(std::uint32_t depth, std::uint32_t entries = 1) const noexcept {
    return depth == 0 || outstanding_ + entries <= depth;
  }

 private:
  Key key_;
  Phase phase_ = Phase::closed;
  std::uint64_t receives_ = 0;
  std::optional<std::uint64_t> usual_receives_;
  std::uint64_t outstanding_ = 0;  // entries of the send queue
  std::uint64_t unsignalled_ = 0;  // of these, since the last signalled one
  std::deque<std::uint64_t> cookies_;
};

std::string to_string(const Key& key);

}  // namespace rtrs::spec
