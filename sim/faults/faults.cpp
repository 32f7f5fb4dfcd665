#include "sim/faults/faults.hpp"

#include <algorithm>

namespace rtrs::sim {

const FaultOptions& FaultContext::options() const noexcept {
  return driver_.options_;
}
const std::vector<NodeId>& FaultContext::clients() const noexcept {
  return driver_.clients_;
}
const std::vector<NodeId>& FaultContext::servers() const noexcept {
  return driver_.servers_;
}

void FaultContext::note(FaultRecord::Target target, std::uint32_t id, Nanos until) {
  driver_.fault_records_.push_back({which_, until, target, id});
}

void FaultContext::note_one_way(FaultRecord::Target target, std::uint32_t id, Way way, Nanos until) {
  driver_.fault_records_.push_back({which_, until, target, id, true, way});
}

void FaultContext::cut(LinkId link, std::initializer_list<Way> ways) {
  auto& cuts = driver_.cuts_;
  if (link >= cuts.size()) cuts.resize(std::size_t{link} + 1, {0, 0});
  for (const Way way : ways) {
    ++cuts[link][static_cast<unsigned>(way)];
    network.cut(link, way);
  }
}

void FaultContext::heal(LinkId link, std::initializer_list<Way> ways) {
  for (const Way way : ways) {
    std::uint32_t& count = driver_.cuts_[link][static_cast<unsigned>(way)];
    if (count != 0 && --count == 0) network.heal(link, way, choice);
  }
}

void FaultContext::cut_until(LinkId link, std::initializer_list<Way> ways, Nanos until) {
  cut(link, ways);
  const bool both = ways.size() == 2;
  const Way first = *ways.begin();
  continue_at(until, [=](FaultContext& end) {
    if (both)
      end.heal(link, kBothWays);
    else
      end.heal(link, {first});
  });
}

void FaultContext::undo_at(Nanos time, std::function<void(FaultContext&)> undo) {
  driver_.end_at({time, which_, true, std::move(undo)});
}

void FaultContext::continue_at(Nanos time, std::function<void(FaultContext&)> next) {
  driver_.end_at({time, which_, false, std::move(next)});
}

void FaultContext::delay_liveness_until(Nanos time) {
  driver_.quiet_since_ = std::max(driver_.quiet_since_, time);
}

FaultDriver::FaultDriver(const FaultOptions& options, std::vector<NodeId> clients,
                         std::vector<NodeId> servers)
    : options_(options), clients_(std::move(clients)), servers_(std::move(servers)), left_(options.budget) {}

void FaultDriver::arm(Net& network, ChoiceSource& choice) {
  armed_ = true;
  left_ = options_.budget;
  set_rates(network);
  quiet_since_ = network.now();
  next_ =
      left_ == 0 ? kNever : network.now() + draw_exponential(choice, 0, options_.mean_gap, Label::fault_gap);
}

void FaultDriver::set_rates(Net& network) const {
  Rates rates;
  for (unsigned i = 0; i < kFaultClasses; ++i) {
    const FaultKind& kind = kind_of(static_cast<FaultClass>(i));
    if (kind.set_rates != nullptr) kind.set_rates(rates, options_.weight[i]);
  }
  if (biased_) {
    for_each_rate(rates, [this](std::uint32_t& rate) {
      rate = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(std::uint64_t{rate} * options_.bias, ChoiceSource::kMillion / 2));
    });
  }
  network.rates() = rates;
}

void FaultDriver::bias(bool armed, Net& network, ChoiceSource& choice) {
  if (!armed_ || options_.bias <= 1 || armed == biased_) return;
  biased_ = armed;
  set_rates(network);
  if (!armed || next_ == kNever) return;
  const Nanos gap = draw_exponential(choice, 1, options_.mean_gap / options_.bias, Label::armed);
  next_ = std::min(next_, network.now() + gap);
}

Nanos FaultDriver::next_time() const noexcept {
  Nanos time = armed_ ? next_ : kNever;
  for (const Ending& ending : endings_) time = std::min(time, ending.time);
  return time;
}

void FaultDriver::advance(Net& network, ChoiceSource& choice, std::vector<WorldFault>& out) {
  fault_records_.clear();
  while (true) {
    auto due = std::min_element(endings_.begin(), endings_.end(),
                                [](const Ending& a, const Ending& b) { return a.time < b.time; });
    if (due == endings_.end() || due->time > network.now()) break;
    const Ending ending = std::move(*due);
    endings_.erase(due);
    FaultContext striking(*this, ending.which, network, choice, out, 0);
    ending.act(striking);
  }
  while (armed_ && next_ <= network.now() && left_ != 0) {
    if (left_ != FaultOptions::kUnlimited) --left_;
    strike(network, choice, out);
    const Nanos gap = draw_exponential(choice, 1, options_.mean_gap, Label::fault_gap);
    next_ = left_ == 0 ? kNever : network.now() + gap;
  }
}

void FaultDriver::strike(Net& network, ChoiceSource& choice, std::vector<WorldFault>& out) {
  if (choice.skips(Label::fault_span)) return;
  const ScopedGroup group(choice, Label::fault_span);
  const auto weight_of = [this](unsigned i) {
    return kind_of(static_cast<FaultClass>(i)).strike != nullptr ? options_.weight[i] : 0;
  };
  std::uint32_t total = 0;
  for (unsigned i = 0; i < kFaultClasses; ++i) total += weight_of(i);
  if (total == 0) return;
  std::uint32_t pick = choice.draw(total, Label::fault_pick);
  unsigned index = 0;
  while (pick >= weight_of(index)) pick -= weight_of(index++);
  const auto which = static_cast<FaultClass>(index);
  const Nanos hold = draw_exponential(choice, options_.min_hold, options_.mean_hold, Label::fault_hold);
  FaultContext striking(*this, which, network, choice, out, hold);
  if (kind_of(which).strike(striking)) ++fault_counts_[index];
}

void FaultDriver::end_at(Ending ending) {
  quiet_since_ = std::max(quiet_since_, ending.time);
  endings_.push_back(std::move(ending));
}

void FaultDriver::stop_and_heal(Net& network, ChoiceSource& choice, std::vector<WorldFault>& out) {
  armed_ = biased_ = false;
  next_ = kNever;
  network.rates() = Rates{};
  const std::vector<Ending> endings = std::move(endings_);
  endings_.clear();
  for (const Ending& ending : endings) {
    if (!ending.with_phase) continue;
    FaultContext striking(*this, ending.which, network, choice, out, 0);
    ending.act(striking);
  }
  cuts_.clear();
  network.heal_all(choice);
  const NetworkConfig& config = network.config();
  for (LinkId id = 0; id < network.link_count(); ++id) network.set_latency(id, config.latency, config.jitter);
  quiet_since_ = network.now();
}

}  // namespace rtrs::sim
