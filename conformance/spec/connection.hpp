// One connection of either side: its state, receives and send queue, as deduced from posts and reported
// events.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

// Maximum number of connections of one path that one step processes. Continued steps process the rest.
inline constexpr std::size_t kConsAStep = 136;

class Connection {
 public:
  enum class Phase : std::uint8_t { asked, up, failed, ending, closed };

  // State in the middle of a run. The number of receives is unknown.
  struct Known {
    Key key;
    Phase phase = Phase::closed;
    std::uint64_t outstanding = 0;  // used entries of the send queue
    std::uint64_t unsignalled = 0;  // those after the last signalled one
    bool owes_ack = false;
    bool unanswered = false;
  };

  Connection() = default;
  explicit Connection(const Known& known);  // resume.cpp
  Connection(const Key& key, Phase phase) : key_(key), phase_(phase) {}

  const Key& key() const noexcept { return key_; }
  Phase phase() const noexcept { return phase_; }
  bool up() const noexcept { return phase_ == Phase::up; }
  bool open() const noexcept { return phase_ != Phase::ending && phase_ != Phase::closed; }

  void answered(const RuleContext& context, bool accepted);
  void lost(const RuleContext& context) const;
  void closed(const RuleContext& context);
  // Reports a violation of `rule` if the connection was ended before.
  void disconnect(const RuleContext& context, Rule rule);
  // Returns whether the connection is established; reports a violation if it is not.
  bool live(const RuleContext& context) const;
  // Checks an event that requires the connection to be established now or earlier.
  void heard(const RuleContext& context) const;

  void post_receives(std::uint32_t count) noexcept { receives_ += count; }
  void take_receive(const RuleContext& context);
  std::uint64_t receives() const noexcept { return began_before_ ? 1 : receives_; }
  // Call at the end of each step of a connected path. The first call records the number of posted receives,
  // which must be at least `least`, the number of messages that may arrive before the next step. Later calls
  // expect the same number.
  void balance(const RuleContext& context, std::uint32_t least);

  void post(const RuleContext& context, std::uint32_t entries, std::uint64_t cookie, std::uint32_t depth);
  void completed(const RuleContext& context);
  // Server: an HB_MSG arrived on this connection, which is not the service connection.
  bool owes_ack = false;
  // Time of the last arrival, of the last completion if deliveries are probed, or of the setup.
  Time heard_at = 0;
  // Client: a send was outstanding when a timer was last due. The probe for it may still wait for room in the
  // send queue.
  bool was_outstanding = false;
  // Client: the last HB_MSG has no answer yet.
  bool unanswered = false;
  // Client: number of the last request whose first post used this connection.
  std::uint64_t last_request = 0;
  bool has_room(std::uint32_t depth, std::uint32_t entries = 1) const noexcept {
    return depth == 0 || outstanding_ + entries <= depth;
  }

 private:
  Key key_;
  Phase phase_ = Phase::closed;
  bool began_before_ = false;  // the setup is not in the trace
  std::uint64_t receives_ = 0;
  std::optional<std::uint64_t> usual_receives_;
  std::uint64_t outstanding_ = 0;       // used entries of the send queue
  std::uint64_t unsignalled_ = 0;       // entries posted since the last signalled one
  std::uint64_t earlier_ = 0;           // entries of signalled work that was posted before the trace
  std::vector<std::uint64_t> cookies_;  // cookies of signalled work, in the order of posting
  std::size_t completed_ = 0;           // cookies_ before this index belong to completed work
};

std::string to_string(const Key& key);

}  // namespace rtrs::spec
