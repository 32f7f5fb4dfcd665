// Results of the checks: the first violations, each with its rule, the observed value and the allowed values.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/spec/event.hpp"
#include "conformance/spec/rules.hpp"

namespace rtrs::spec {

struct Finding {
  Rule rule = Rule::count_;
  std::uint64_t seq = 0;  // number of the record
  Time now = 0;
  unsigned machine = 0;  // instance number of the machine in the trace
  Key key;               // connection of the event, if it has one
  bool sent = false;     // the event is a WireSent
  bool by_peer = false;  // the peer broke the rule, with a message that this side received
  std::string seen;
  std::string allowed;
};

class Findings {
 public:
  static constexpr std::size_t kKept = 64;

  explicit Findings(std::size_t keep = kKept) : keep_(keep) {}

  void add(Rule rule, const Event& event, unsigned machine, std::string seen, std::string allowed) {
    ++count_;
    if (kept_.size() < keep_)
      kept_.push_back({rule, event.seq, event.now, machine, event.key, event.kind == Kind::WireSent,
                       event.kind == Kind::WireReceived || (event.kind == Kind::WireCm && !event.sent),
                       std::move(seen), std::move(allowed)});
  }
  // For events that belong to no connection.
  void add(Rule rule, std::uint64_t seq, Time now, unsigned machine, std::string seen, std::string allowed) {
    ++count_;
    if (kept_.size() < keep_)
      kept_.push_back({rule, seq, now, machine, {}, false, false, std::move(seen), std::move(allowed)});
  }
  // Adds all findings of `other` and keeps the order of the records.
  void merge(const Findings& other) {
    count_ += other.count_;
    ambiguity(other.ambiguity_);
    kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
    std::stable_sort(kept_.begin(), kept_.end(),
                     [](const Finding& a, const Finding& b) { return a.seq < b.seq; });
    if (kept_.size() > keep_) kept_.resize(keep_);
  }
  // Removes the findings at or after record `seq` for which `which(finding)` is true. Returns how many there
  // were.
  template <class Which>
  std::uint64_t remove_since(std::uint64_t seq, Which which) {
    const std::uint64_t taken =
        std::erase_if(kept_, [&](const Finding& finding) { return finding.seq >= seq && which(finding); });
    count_ -= taken;
    return taken;
  }
  // The kept findings in the order of detection.
  const std::vector<Finding>& kept() const noexcept { return kept_; }
  std::uint64_t count() const noexcept { return count_; }
  // Records the number of states that were possible for one item at one time; the maximum is kept.
  void ambiguity(std::size_t states) noexcept {
    if (states > ambiguity_) ambiguity_ = states;
  }
  std::size_t most_states() const noexcept { return ambiguity_; }

 private:
  std::size_t keep_;
  std::vector<Finding> kept_;
  std::uint64_t count_ = 0;
  std::size_t ambiguity_ = 0;
};

// Machine and event at which a rule is checked.
struct RuleContext {
  Findings& findings;
  const Event& event;
  unsigned machine = 0;

  // Reports a violation if the rule is violated. Only then calls `seen` and `allowed`, which make the texts.
  template <class Seen, class Allowed>
  bool check(bool holds, Rule rule, Seen seen, Allowed allowed) const {
    if (holds) return true;
    findings.add(rule, event, machine, seen(), allowed());
    return false;
  }
  bool check(bool holds, Rule rule, const char* seen, const char* allowed) const {
    if (holds) return true;
    findings.add(rule, event, machine, seen, allowed);
    return false;
  }
};

}  // namespace rtrs::spec
