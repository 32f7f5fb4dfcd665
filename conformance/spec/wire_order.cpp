// Order of the messages in a capture. Each connection and direction is in order, because sequence numbers
// show it. Between them the order is that of the capture, which may be wrong: several capture points have
// several clocks, and a network card with several queues hands over frames late. A violation stands only if
// it does not vanish when a few messages of one direction are moved a few places.
#include <algorithm>
#include <tuple>
#include <utility>

#include "conformance/spec/wire.hpp"

namespace rtrs::spec {

namespace {

constexpr std::size_t kFarthest = 32;   // places that a message may be moved
constexpr std::size_t kMostMoved = 4;   // messages that may be moved together
constexpr Time kLongest = 100'000'000;  // ns by which they may be late or early
constexpr std::size_t kMostTries = 256;
// Messages judged again in other orders, with a share for what is copied: a capture of many attempts would
// otherwise take hours.
constexpr std::size_t kMostWork = 8'000'000;
constexpr std::size_t kSaveEvery = 64;

using Lane = std::tuple<Key, bool, bool>;
Lane lane_of(const Event& event) {
  const bool cm = event.kind == Kind::WireCm;
  const bool sent = event.kind == Kind::WireSent || (event.kind != Kind::WireReceived && event.sent);
  return {event.key, sent, cm};
}

// An order in which fewer messages are judged explains nothing.
bool judges_as_much(const WireCounts& one, const WireCounts& other) noexcept {
  return one.unplaced <= other.unplaced && one.early <= other.early;
}

}  // namespace

void WireCounts::add(const WireCounts& other) noexcept {
  connections += other.connections;
  resumed += other.resumed;
  unplaced += other.unplaced;
  early += other.early;
  partial += other.partial;
  gaps += other.gaps;
  restarts += other.restarts;
  excused += other.excused;
  reordered += other.reordered;
}

// Returns false for rules about the bytes of one message. A correct peer may seem to break any other rule if
// a message is missing or in another place.
bool WireSpec::order_matters(Rule rule) noexcept {
  switch (rule) {
    case Rule::con_req_layout:
    case Rule::con_rsp_layout:
    case Rule::con_rsp_geometry:
    case Rule::con_rsp_unknown:
    case Rule::con_rsp_depth:
    case Rule::con_req_session:
    case Rule::con_req_attempt:
    case Rule::info_req_name:
    case Rule::wire_form:
    case Rule::hb_wire:
    case Rule::io_req_target:
    case Rule::io_req_header:
    case Rule::io_req_descriptor:
    case Rule::rnbd_form:
      return false;
    default:
      return true;
  }
}

std::size_t WireSpec::suspicions(const Recording& recording) {
  const std::vector<Finding>& kept = recording.found.kept();
  return static_cast<std::size_t>(
      std::count_if(kept.begin(), kept.end(), [](const Finding& one) { return order_matters(one.rule); }));
}

// True if `other` breaks no rule more often than `given`. An order that breaks another rule explains nothing,
// and a lost message may excuse only the former one.
bool WireSpec::breaks_no_other_rule(const Recording& other, const Recording& given) {
  std::map<Rule, std::ptrdiff_t> left;
  for (const Finding& one : given.found.kept()) ++left[one.rule];
  const std::vector<Finding>& kept = other.found.kept();
  return std::all_of(kept.begin(), kept.end(), [&left](const Finding& one) {
    return !order_matters(one.rule) || --left[one.rule] >= 0;
  });
}

void WireSpec::judge_next(unsigned machine) {
  Order& order = orders_[machine];
  Recording& recording = recordings_[machine];
  // The cost of a copy grows with the attempts, so copies become rarer.
  if (order.done.empty() || order.done.size() >= kSaveEvery + recording.paths.size()) {
    order.saved = recording;
    order.done.clear();
  }
  const std::size_t before = suspicions(recording);
  order.done.push_back(std::move(order.next.front()));
  order.next.pop_front();
  Event event = order.done.back()->event;
  event.bytes = order.done.back()->bytes;
  judge(machine, recording, event);
  if (suspicions(recording) > before && order.tries < kMostTries && order.work <= kMostWork)
    try_other_orders(machine);
}

void WireSpec::judge_held(unsigned machine) {
  const auto found = orders_.find(machine);
  if (found == orders_.end()) return;
  while (!found->second.next.empty()) judge_next(machine);
  orders_.erase(found);
}

// Returns `from` after the first `count` of the messages.
WireSpec::Recording WireSpec::judged(unsigned machine, const Recording& from, const Messages& messages,
                                     std::size_t count) {
  Recording recording = from;
  for (std::size_t at = 0; at < count; ++at) {
    Event event = messages[at]->event;
    event.bytes = messages[at]->bytes;
    judge(machine, recording, event);
  }
  return recording;
}

// Returns the messages with those at the places `moved` directly before or behind the place `target`.
WireSpec::Messages WireSpec::with_moved(const Messages& all, const std::vector<std::size_t>& moved,
                                        std::size_t target, bool behind) {
  Messages one;
  for (std::size_t place = 0; place < all.size(); ++place) {
    if (place == target && behind) one.push_back(all[place]);
    if (place == target)
      for (const std::size_t other : moved) one.push_back(all[other]);
    const bool moves = std::find(moved.begin(), moved.end(), place) != moved.end();
    if (!moves && (place != target || !behind)) one.push_back(all[place]);
  }
  return one;
}

// Returns the orders in which the next messages of a direction come before the last judged message, or the
// messages before it come after it, or those since the former message of its own direction before that one.
std::vector<WireSpec::Messages> WireSpec::other_orders(const Order& order) {
  Messages all = order.done;
  all.insert(all.end(), order.next.begin(), order.next.end());
  const std::size_t at = order.done.size() - 1;
  const std::size_t first = at - std::min(at, kFarthest);
  const Lane own = lane_of(all[at]->event);
  const Time now = all[at]->event.now;
  std::vector<Messages> orders;
  std::map<Lane, std::vector<std::size_t>> later, earlier, between;
  const auto may_move = [&](std::size_t place, std::map<Lane, std::vector<std::size_t>>& lanes) {
    const Event& event = all[place]->event;
    const bool near = std::max(event.now, now) - std::min(event.now, now) <= kLongest;
    return near && lane_of(event) != own && lanes[lane_of(event)].size() < kMostMoved;
  };
  for (std::size_t place = at + 1; place < std::min(all.size(), at + 1 + kFarthest); ++place) {
    if (!may_move(place, later)) continue;
    std::vector<std::size_t>& moved = later[lane_of(all[place]->event)];
    moved.push_back(place);
    orders.push_back(with_moved(all, moved, at, false));
  }
  std::size_t former = at;
  for (std::size_t place = at; place-- > first;) {
    if (former == at && lane_of(all[place]->event) == own) former = place;
    if (!may_move(place, earlier)) continue;
    std::vector<std::size_t>& moved = earlier[lane_of(all[place]->event)];
    moved.insert(moved.begin(), place);
    orders.push_back(with_moved(all, moved, at, true));
  }
  for (std::size_t place = former + 1; place < at; ++place) {
    if (!may_move(place, between)) continue;
    std::vector<std::size_t>& moved = between[lane_of(all[place]->event)];
    moved.push_back(place);
    orders.push_back(with_moved(all, moved, former, false));
  }
  return orders;
}

void WireSpec::try_other_orders(unsigned machine) {
  Order& order = orders_[machine];
  ++order.tries;
  Messages given = order.done;
  given.insert(given.end(), order.next.begin(), order.next.end());
  const Recording as_given = judged(machine, order.saved, given, given.size());
  std::size_t least = suspicions(as_given);
  const Messages* best = nullptr;
  const std::vector<Messages> orders = other_orders(order);
  const std::size_t work = given.size() + order.saved.connections.size() + 8 * order.saved.paths.size();
  for (const Messages& one : orders) {
    if (order.work > kMostWork) break;
    order.work += work;
    const Recording other = judged(machine, order.saved, one, one.size());
    const std::size_t left = suspicions(other);
    if (left < least && judges_as_much(other.counts, as_given.counts) &&
        breaks_no_other_rule(other, as_given))
      best = &one, least = left;
  }
  if (best == nullptr) return;
  // The messages up to the later of the moved ones and the one that broke the rule are judged now.
  std::size_t until = order.done.size();
  while (until < best->size() && (*best)[until] != given[until]) ++until;
  recordings_[machine] = judged(machine, order.saved, *best, until);
  ++recordings_[machine].counts.reordered;
  ++order.saved.counts.reordered;
  order.done.assign(best->begin(), best->begin() + static_cast<std::ptrdiff_t>(until));
  order.next.assign(best->begin() + static_cast<std::ptrdiff_t>(until), best->end());
}

}  // namespace rtrs::spec
