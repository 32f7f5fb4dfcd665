// Features of a run for guided search: what makes one run different from another, such as a mark, or a fault
// in a certain state of a path. Each feature is reported once per run, with the number of draws before it.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "sim/choices/choice.hpp"
#include "sim/world/world.hpp"

namespace rtrs::sim::hunt {

enum class FeatureKind : std::uint8_t {
  option,      // value of a draw that determines the options of the world
  mark,        // first occurrence of a mark
  mark_pair,   // a mark first occurs in a run that has another mark already
  state_pair,  // states of the two ends of a path at the same time
  step,        // an event, and the states of the paths of its node
  order,       // an event, and the event before it at the same node
  fault,       // a fault, and the states of the two ends of the path that it strikes
  margin,      // a large part of the bound of an oracle was needed
  count_,
};
inline constexpr unsigned kFeatureKinds = static_cast<unsigned>(FeatureKind::count_);
inline constexpr std::uint32_t kFeaturesPerKind = 1U << 14;
inline constexpr std::uint32_t kFeatures = kFeatureKinds * kFeaturesPerKind;

// Number of a feature, below kFeatures. `what` is hashed, so that two features of a kind may get one number.
std::uint32_t feature_of(FeatureKind kind, std::uint64_t what) noexcept;
inline FeatureKind kind_of(std::uint32_t feature) noexcept {
  return static_cast<FeatureKind>(feature / kFeaturesPerKind);
}

struct Found {
  std::uint32_t feature = 0;
  std::uint32_t draw = 0;  // number of draws before the feature
  bool operator==(const Found&) const = default;
};

// Observes the choices from the start, and the world from watch() on.
class FeatureWatch final : public ChoiceObserver, public Journal::Observer {
 public:
  void watch(World& world);
  // Ends observation; the world may then be destroyed.
  void end();
  // Features since the last clear().
  const std::vector<Found>& found() const noexcept { return found_; }
  // Forgets the list, not the features: each is still reported only once per run.
  void clear() noexcept { found_.clear(); }
  std::uint64_t drawn() const noexcept { return drawn_; }

  void drawn(const Draw& draw) override;
  void opened(Label) override {}
  void closed() override {}
  void left_out(Label) override {}
  void noted(const Journal::Entry& entry) override;

 private:
  void add(FeatureKind kind, std::uint64_t what);
  void look_at_judge();
  void look_at_states();
  void add_fault(const Journal::Entry& entry);
  std::uint64_t states_of(std::uint32_t node) const;

  World* world_ = nullptr;
  std::uint64_t drawn_ = 0;
  std::bitset<kFeatures> seen_;
  std::vector<Found> found_;
  std::array<bool, kMarks> marks_{};
  std::array<std::uint8_t, kOracles> margins_{};
  std::array<std::uint32_t, kLabels> draws_of_label_{};
  std::array<std::uint64_t, 1 + kMaxClients> last_event_{};  // by node
};

}  // namespace rtrs::sim::hunt
