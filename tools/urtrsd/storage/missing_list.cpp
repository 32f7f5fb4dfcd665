#include "tools/urtrsd/storage/missing_list.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::daemon {

const char* to_string(MissingKind kind) {
  switch (kind) {
    case MissingKind::exported:
      return "export";
    case MissingKind::search_path:
      return "dev_search_path";
    case MissingKind::address:
      return "listen";
    case MissingKind::metrics:
      return "metrics";
    case MissingKind::control:
      break;
  }
  return "control";
}

bool MissingList::failed(Nanos now, const Key& key, OpenError why) {
  const auto [found, is_new] = items_.try_emplace(key);
  Item& item = found->second;
  if (is_new) item.since = now;
  const bool changed = !is_new && item.why.sentence != why.sentence;
  item.why = std::move(why);
  item.next = now + item.pause;
  item.pause = std::min(2 * item.pause, kMaxPause);
  const std::uint32_t count = ++item.attempts;
  const bool power_of_two = (count & (count - 1)) == 0 && count < kAttemptsBetweenLines;
  return changed || power_of_two || count % kAttemptsBetweenLines == 0;
}

Nanos MissingList::remove(const Key& key) {
  const auto found = items_.find(key);
  if (found == items_.end()) return kNever;
  const Nanos since = found->second.since;
  items_.erase(found);
  return since;
}

void MissingList::hurry(Nanos now, const Key& key) {
  const auto found = items_.find(key);
  if (found != items_.end() && found->second.next != kNever) found->second.next = now;
}

void MissingList::hurry_all(Nanos now) {
  for (auto& [key, item] : items_)
    if (item.next != kNever) item.next = now;
}

std::vector<MissingList::Key> MissingList::take_due(Nanos now) {
  std::vector<Key> due;
  for (auto& [key, item] : items_) {
    if (item.next > now) continue;
    item.next = kNever;
    due.push_back(key);
  }
  return due;
}

Nanos MissingList::next_due() const {
  Nanos first = kNever;
  for (const auto& [key, item] : items_) first = std::min(first, item.next);
  return first;
}

}  // namespace rtrs::daemon
