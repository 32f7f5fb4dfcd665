// Configured items that urtrsd cannot serve now, with the time of the next attempt for each. Pure: the caller
// passes the time.
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
// Configuration key: "export", "dev_search_path", "listen", "metrics" or "control".
const char* to_string(MissingKind kind);

class MissingList {
 public:
  // Pause before the second attempt. Each pause is twice the previous one, up to kMaxPause.
  static constexpr Nanos kFirstPause = 1'000'000'000;
  static constexpr Nanos kMaxPause = 60'000'000'000;
  // Results in about one log line per hour at kMaxPause.
  static constexpr std::uint32_t kAttemptsBetweenLines = 64;

  using Key = std::pair<MissingKind, std::string>;  // name of the export, or the address; otherwise empty
  struct Item {
    OpenError why;
    Nanos since = 0;
    Nanos next = 0;  // time of the next attempt; kNever while one runs
    Nanos pause = kFirstPause;
    std::uint32_t attempts = 0;  // failed attempts
  };

  // Records a failed attempt. Returns true if it should be logged: for the first attempt, a changed reason,
  // and at growing intervals after that (attempts 2, 4, 8 ... 64, 128, 192 ...).
  bool failed(Nanos now, const Key& key, OpenError why);
  // Removes an item that appeared or is no longer configured. Returns the time since which it was missing, or
  // kNever if it was not missing.
  Nanos remove(const Key& key);
  // Makes the next attempt due at `now`. No effect if the key is not missing or an attempt runs.
  void hurry(Nanos now, const Key& key);
  void hurry_all(Nanos now);
  // Returns the keys that are due and marks their attempts as running, until failed() or remove().
  std::vector<Key> take_due(Nanos now);
  Nanos next_due() const;  // kNever: no attempt is scheduled
  const std::map<Key, Item>& items() const { return items_; }

 private:
  std::map<Key, Item> items_;
};

}  // namespace rtrs::daemon
