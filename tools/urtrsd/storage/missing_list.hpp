// List of the configured items that urtrsd cannot serve now. Decides when to retry each item. Pure: the
// caller passes the time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/urtrsd/storage/open_error.hpp"

namespace rtrs::daemon {

enum class MissingKind : std::uint8_t { exported, search_path, address, metrics, control };
// Returns the configuration key: "export", "dev_search_path", "listen", "metrics" or "control".
const char* to_string(MissingKind kind);

class MissingList {
 public:
  // Pause before the second attempt. Each later pause is twice the previous pause, up to kMaxPause.
  static constexpr Nanos kFirstPause = 1'000'000'000;
  static constexpr Nanos kMaxPause = 60'000'000'000;
  // With pauses of kMaxPause, this causes about one log line per hour.
  static constexpr std::uint32_t kAttemptsBetweenLines = 64;

  // Name of the export, or the address; empty for other kinds.
  using Key = std::pair<MissingKind, std::string>;
  struct Item {
    OpenError why;
    Nanos since = 0;
    Nanos next = 0;  // time of the next attempt; kNever while an attempt runs
    Nanos pause = kFirstPause;
    std::uint32_t attempts = 0;  // number of failed attempts
  };

  // Records a failed attempt. Returns true if it should be logged: the first attempt, an attempt that fails
  // for a new reason, and otherwise attempts 2, 4, 8 ... 64, 128, 192 ...
  bool failed(Nanos now, const Key& key, OpenError why);
  // Removes an item that has appeared or is no longer configured. Returns the time since which the item was
  // missing; kNever if it was not missing.
  Nanos remove(const Key& key);
  // Schedules the next attempt for `now`. Does nothing if the item is not missing or an attempt runs.
  void hurry(Nanos now, const Key& key);
  void hurry_all(Nanos now);
  // Returns the keys whose attempts are due. An attempt counts as running until failed() or remove() is
  // called.
  std::vector<Key> take_due(Nanos now);
  Nanos next_due() const;  // kNever: no attempt is scheduled
  const std::map<Key, Item>& items() const { return items_; }

 private:
  std::map<Key, Item> items_;
};

}  // namespace rtrs::daemon
