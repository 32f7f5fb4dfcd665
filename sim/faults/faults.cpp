#include "sim/faults/faults.hpp"

#include <algorithm>
#include <span>

namespace rtrs::sim {
namespace {

constexpr std::uint32_t kBothWays = 3;
constexpr auto kFirstRare = static_cast<unsigned>(FaultClass::black_hole);
constexpr auto kFirstLate = static_cast<unsigned>(FaultClass::crowd);

constexpr std::uint32_t bit(Way way) noexcept {
  return 1u << static_cast<unsigned>(way);
}

}  // namespace

FaultOptions draw_fault_options(ChoiceSource& choice, Nanos time_scale) {
  const ScopedGroup group(choice, Label::swarm);
  FaultOptions options;
  for (std::uint32_t& weight : std::span(options.weight).first(kFirstRare)) {
    const ScopedGroup option(choice, Label::option);
    if (choice.draw(2, Label::fault_class) == 0) continue;
    weight = 1 + choice.draw(100, Label::fault_weight);
  }
  static constexpr std::array<std::uint32_t, 5> kBudgets{0, 1, 2, 3, FaultOptions::kUnlimited};
  options.budget = kBudgets[choice.draw(kBudgets.size(), Label::fault_budget)];
  options.mean_gap = time_scale / 2;
  options.min_hold = time_scale / 100;
  options.mean_hold = time_scale;
  return options;
}

void draw_rare_faults(ChoiceSource& choice, FaultOptions& options) {
  const ScopedGroup group(choice, Label::rare_swarm);
  if (choice.draw(2, Label::rare_swarm) == 0) return;
  for (std::uint32_t& weight : std::span(options.weight).subspan(kFirstRare, kFirstLate - kFirstRare)) {
    const ScopedGroup option(choice, Label::option);
    if (choice.draw(2, Label::rare_swarm) == 0) continue;
    weight = 1 + choice.draw(100, Label::rare_swarm);
  }
  static constexpr std::array<std::uint32_t, 4> kBiases{1, 1, 4, 16};
  options.bias = kBiases[choice.draw(kBiases.size(), Label::rare_swarm)];
}

void draw_crowd(ChoiceSource& choice, FaultOptions& options) {
  const ScopedGroup group(choice, Label::crowd);
  if (choice.draw(4, Label::crowd) == 3)
    options.weight[static_cast<unsigned>(FaultClass::crowd)] = 1 + choice.draw(100, Label::crowd);
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
  const auto of = [this](FaultClass c, std::uint32_t per_weight) {
    return options_.weight[static_cast<unsigned>(c)] * per_weight;
  };
  Rates rates;
  rates.qp_error = of(FaultClass::qp_error_at_step, 20);
  rates.request_lost = rates.request_late = of(FaultClass::request_lost_or_late, 3000);
  rates.reply_lost = rates.reply_late = of(FaultClass::reply_lost_or_late, 3000);
  rates.reject_lost = rates.reject_late = of(FaultClass::reject_lost_or_late, 3000);
  rates.disconnect_lost = rates.disconnect_late = of(FaultClass::disconnect_lost_or_late, 5000);
  rates.info_cut = of(FaultClass::info_cut, 2000);
  rates.torn_write = of(FaultClass::torn_writes, 2000);
  rates.rnr_placement = of(FaultClass::torn_writes, 2000);
  rates.late_placement = of(FaultClass::torn_writes, 5000);
  rates.source_read_early = of(FaultClass::torn_writes, 2000);
  rates.ghost_delay = of(FaultClass::ghosts, 7000);
  rates.slow_drain = of(FaultClass::slow_drain, 7000);
  rates.resource_short = of(FaultClass::resource_short, 3000);
  rates.resolve_failed = of(FaultClass::resolve_failed, 5000);
  rates.accept_failed = of(FaultClass::accept_failed, 5000);
  rates.post_short = of(FaultClass::post_short, 3000);
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
  strikes_.clear();
  while (true) {
    auto due = std::min_element(endings_.begin(), endings_.end(),
                                [](const Ending& a, const Ending& b) { return a.time < b.time; });
    if (due == endings_.end() || due->time > network.now()) break;
    const Ending ending = *due;
    endings_.erase(due);
    end(ending, network, choice, out);
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
    return is_timed(static_cast<FaultClass>(i)) ? options_.weight[i] : 0;
  };
  std::uint32_t total = 0;
  for (unsigned i = 0; i < kFaultClasses; ++i) total += weight_of(i);
  if (total == 0) return;
  std::uint32_t pick = choice.draw(total, Label::fault_pick);
  unsigned index = 0;
  while (pick >= weight_of(index)) pick -= weight_of(index++);
  const auto which = static_cast<FaultClass>(index);
  const Nanos hold = draw_exponential(choice, options_.min_hold, options_.mean_hold, Label::fault_hold);
  bool done = true;
  switch (which) {
    case FaultClass::break_qp:
    case FaultClass::break_path:
    case FaultClass::black_hole:
    case FaultClass::hang:
      done = strike_qp(which, network, choice, hold);
      break;
    case FaultClass::device_gone:
      done = strike_device(network, choice, hold);
      break;
    case FaultClass::blackout:
      done = strike_client(network, choice, hold);
      break;
    case FaultClass::crash:
    case FaultClass::crash_orderly:
    case FaultClass::pause:
      done = strike_node(which, network, choice, hold, out);
      break;
    case FaultClass::flap:
      strike_flap(network, choice, hold);
      break;
    case FaultClass::crowd:
      strikes_.push_back({which, kNone, Way::to_server, network.now() + hold});
      out.push_back(WorldFault{WorldFault::Kind::crowd, kNone, network.now() + hold});
      quiet_since_ = std::max(quiet_since_, network.now() + hold);
      break;
    default:
      done = strike_link(which, network, choice, hold);
      break;
  }
  if (done) ++struck_[index];
}

bool FaultDriver::strike_link(FaultClass which, Net& network, ChoiceSource& choice, Nanos hold) {
  if (network.link_count() == 0) return false;
  const LinkId link = choice.draw(static_cast<std::uint32_t>(network.link_count()), Label::fault_target);
  const Nanos until = network.now() + hold;
  const bool one_way = which == FaultClass::cut_one_way || which == FaultClass::starve;
  const Way way = one_way && choice.draw(2, Label::fault_direction) == 1 ? Way::to_client : Way::to_server;
  strikes_.push_back({which, link, way, until});
  switch (which) {
    case FaultClass::cut_both:
    case FaultClass::cut_one_way: {
      const std::uint32_t ways = which == FaultClass::cut_both ? kBothWays : bit(way);
      cut(network, link, ways);
      undo_at(Ending{until, Ending::Kind::heal, link, ways, 0});
      return true;
    }
    case FaultClass::cut_port: {
      const LinkInfo chosen = network.link_info(link);
      const bool server_side = choice.draw(2, Label::fault_direction) == 0;
      for (LinkId other = 0; other < network.link_count(); ++other) {
        const LinkInfo info = network.link_info(other);
        const bool same = server_side
                              ? info.server == chosen.server && info.server_port == chosen.server_port
                              : info.client == chosen.client && info.client_port == chosen.client_port;
        if (!same) continue;
        cut(network, other, kBothWays);
        undo_at(Ending{until, Ending::Kind::heal, other, kBothWays, 0});
      }
      return true;
    }
    case FaultClass::starve:
      network.starve(link, way, until);
      quiet_since_ = std::max(quiet_since_, until);
      return true;
    default:
      network.set_latency(link, network.config().latency + hold / 16, network.config().jitter + hold / 16);
      undo_at(Ending{until, Ending::Kind::latency, link, 0, 0});
      return true;
  }
}

// Removes an adapter: cuts every link of the port in both directions, breaks its connections, and fails new
// ones.
bool FaultDriver::strike_device(Net& network, ChoiceSource& choice, Nanos hold) {
  if (network.link_count() == 0) return false;
  const LinkId link = choice.draw(static_cast<std::uint32_t>(network.link_count()), Label::fault_target);
  const LinkInfo chosen = network.link_info(link);
  const bool server_side = choice.draw(2, Label::fault_direction) == 1;
  const NodeId node = server_side ? chosen.server : chosen.client;
  const std::uint32_t port = server_side ? chosen.server_port : chosen.client_port;
  if (!network.is_up(node) || network.is_unplugged(node, port)) return false;
  const Nanos until = network.now() + hold;
  strikes_.push_back({FaultClass::device_gone, link, server_side ? Way::to_client : Way::to_server, until});
  network.unplug(node, port, choice);
  undo_at(Ending{until, Ending::Kind::plug, node, port, 0});
  return true;
}

bool FaultDriver::strike_qp(FaultClass which, Net& network, ChoiceSource& choice, Nanos hold) {
  std::vector<QpId> candidates;
  for (QpId id = 0; id < network.qp_count(); ++id) {
    if (network.qp_info(id).established) candidates.push_back(id);
  }
  if (candidates.empty()) return false;
  const QpId chosen =
      candidates[choice.draw(static_cast<std::uint32_t>(candidates.size()), Label::fault_target)];
  const bool hole = which == FaultClass::black_hole;
  strikes_.push_back({which, chosen, network.qp_info(chosen).way, hole ? network.now() + hold : 0});
  if (which == FaultClass::hang) return network.hang(chosen, choice);
  if (hole) {
    network.swallow(chosen, true, choice);
    undo_at(Ending{network.now() + hold, Ending::Kind::pass, chosen, 0, 0});
    return true;
  }
  if (which == FaultClass::break_qp) {
    network.break_qp(chosen, choice);
    return true;
  }
  const QpInfo info = network.qp_info(chosen);
  for (const QpId id : candidates) {
    const QpInfo other = network.qp_info(id);
    if (other.link == info.link && other.way == info.way) network.break_qp(id, choice);
  }
  return true;
}

bool FaultDriver::strike_node(FaultClass which, Net& network, ChoiceSource& choice, Nanos hold,
                              std::vector<WorldFault>& out) {
  std::vector<NodeId> candidates;
  const bool pauses = which == FaultClass::pause;
  if (pauses || options_.crash_client) candidates.insert(candidates.end(), clients_.begin(), clients_.end());
  if (pauses || options_.crash_server) candidates.insert(candidates.end(), servers_.begin(), servers_.end());
  std::erase_if(candidates, [&](NodeId node) { return !network.is_up(node); });
  if (candidates.empty()) return false;
  const NodeId node =
      candidates[choice.draw(static_cast<std::uint32_t>(candidates.size()), Label::fault_target)];
  const Nanos until = network.now() + (pauses ? hold * options_.pause_factor : hold);
  strikes_.push_back({which, node, Way::to_server, until});
  if (pauses) {
    out.push_back(WorldFault{WorldFault::Kind::pause, node, until});
    quiet_since_ = std::max(quiet_since_, until);
    return true;
  }
  network.crash(node, which == FaultClass::crash_orderly, choice);
  out.push_back(WorldFault{WorldFault::Kind::crash, node, until});
  undo_at(Ending{until, Ending::Kind::restart, node, 0, 0});
  return true;
}

// Cuts and heals every link at its own times, so that at any time some links are down and some are up.
void FaultDriver::strike_flap(Net& network, ChoiceSource& choice, Nanos hold) {
  strikes_.push_back({FaultClass::flap, kNone, Way::to_server, 0});
  for (LinkId link = 0; link < network.link_count(); ++link) {
    const std::uint32_t beats = choice.draw(5, Label::fault_flaps);
    if (beats == 0) continue;
    const Nanos first = network.now() + draw_time(choice, hold, Label::fault_gap);
    undo_at(Ending{first, Ending::Kind::flap_cut, link, kBothWays, beats});
  }
}

void FaultDriver::end(const Ending& ending, Net& network, ChoiceSource& choice,
                      std::vector<WorldFault>& out) {
  switch (ending.kind) {
    case Ending::Kind::heal:
      heal(network, ending.target, ending.ways, choice);
      return;
    case Ending::Kind::latency:
      network.set_latency(ending.target, network.config().latency, network.config().jitter);
      return;
    case Ending::Kind::pass:
      return network.swallow(ending.target, false, choice);
    case Ending::Kind::plug:
      return network.plug(ending.target, ending.ways, choice);
    case Ending::Kind::restart:
      network.restart(ending.target);
      out.push_back(WorldFault{WorldFault::Kind::restart, ending.target, network.now()});
      return;
    case Ending::Kind::flap_cut:
    case Ending::Kind::flap_heal: {
      const bool cuts = ending.kind == Ending::Kind::flap_cut;
      if (cuts) {
        cut(network, ending.target, ending.ways);
      } else {
        heal(network, ending.target, ending.ways, choice);
        if (ending.beats <= 1) return;
      }
      const Nanos hold =
          draw_exponential(choice, options_.min_hold, options_.mean_hold / 2, Label::fault_hold);
      Ending next = ending;
      next.time = network.now() + hold;
      next.kind = cuts ? Ending::Kind::flap_heal : Ending::Kind::flap_cut;
      next.beats = cuts ? ending.beats : ending.beats - 1;
      undo_at(next);
      return;
    }
  }
}

void FaultDriver::undo_at(const Ending& ending) {
  endings_.push_back(ending);
  quiet_since_ = std::max(quiet_since_, ending.time);
}

void FaultDriver::cut(Net& network, LinkId link, std::uint32_t ways) {
  if (link >= cuts_.size()) cuts_.resize(std::size_t{link} + 1, {0, 0});
  for (const Way way : {Way::to_server, Way::to_client}) {
    if ((ways & bit(way)) == 0) continue;
    ++cuts_[link][static_cast<unsigned>(way)];
    network.cut(link, way);
  }
}

void FaultDriver::heal(Net& network, LinkId link, std::uint32_t ways, ChoiceSource& choice) {
  for (const Way way : {Way::to_server, Way::to_client}) {
    if ((ways & bit(way)) == 0) continue;
    std::uint32_t& count = cuts_[link][static_cast<unsigned>(way)];
    if (count != 0 && --count == 0) network.heal(link, way, choice);
  }
}

void FaultDriver::stop_and_heal(Net& network, ChoiceSource& choice, std::vector<WorldFault>& out) {
  armed_ = biased_ = false;
  next_ = kNever;
  network.rates() = Rates{};
  for (const Ending& ending : endings_) {
    const bool beat = ending.kind == Ending::Kind::flap_cut || ending.kind == Ending::Kind::flap_heal;
    if (!beat && ending.kind != Ending::Kind::heal) end(ending, network, choice, out);
  }
  endings_.clear();
  cuts_.clear();
  network.heal_all(choice);
  const NetworkConfig& config = network.config();
  for (LinkId id = 0; id < network.link_count(); ++id) network.set_latency(id, config.latency, config.jitter);
  quiet_since_ = network.now();
}

}  // namespace rtrs::sim
