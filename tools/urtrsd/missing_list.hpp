// The things that urtrsd was configured to serve and cannot serve now, and when to try each of them again.
// Pure: time comes in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/urtrsd/open_error.hpp"

namespace rtrs::daemon {

enum class MissingKind : std::uint8_t { exported, search_path, address, metrics, control };
// "export", "dev_search_path", "listen", "metrics", "control": the key of the configuration.
const char* to_string(MissingKind kind);

class MissingList {
 public:
  // The pause before the second attempt. Each pause is twice the one before, up to the longest.
  static constexpr Nanos kFirstPause = 1'000'000'000;
  static constexpr Nanos kLongestPause = 60'000'000'000;
  // With kLongestPause, one line of the log an hour.
  static constexpr std::uint32_t kAttemptsBetweenLines = 64;

  using Key = std::pair<MissingKind, std::string>;  // the name: of the export, or the address; else empty
  struct Item {
    OpenError why;
    Nanos since = 0;
    Nanos next = 0;  // attempt; kNever while one runs
    Nanos pause = kFirstPause;
    std::uint32_t attempts = 0;  // that failed
  };

  // An attempt failed. True if the log should get a line: for the first attempt, a changed reason, and with
  // growing distances after that (attempts 2, 4, 8 ... 64, 128, 192 ...).
  bool failed(Nanos now, const Key& key, OpenError why);
  // The item appeared, or is no longer configured. Returns the time since which it was missing; kNever: it
  // was not.
  Nanos remove(const Key& key);
  // Makes the next attempt due at `now`; nothing happens if the key is not missing or an attempt runs.
  void hurry(Nanos now, const Key& key);
  void hurry_all(Nanos now);
  // The keys that are due. Their attempts run from now on, until failed() or remove().
  std::vector<Key> take_due(Nanos now);
  Nanos next_due() const;  // kNever: nothing to try
  const std::map<Key, Item>& items() const { return items_; }

 private:
  std::map<Key, Item> items_;
};

}  // namespace rtrs::daemon
