// What the openings of all fabrics share: how the log of one becomes its refusal.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::tools {

using Opened = tl::expected<std::unique_ptr<Fabric>, std::string>;

// What the log said while the fabric was opened: its last error tells more than a code, and is told by
// whoever opens it.
struct Opening {
  bool under_way = true;
  std::string error;
};

// Passes the log on, but for the last error of an opening.
template <class Level>
std::function<void(Level, const std::string&)> keep_error(const FabricChoice& choice,
                                                          std::shared_ptr<Opening> opening) {
  return [log = choice.log, opening = std::move(opening)](Level level, const std::string& text) {
    const bool keep = level == Level::error && opening->under_way;
    const std::string told = keep ? std::exchange(opening->error, text) : text;
    if (log && !told.empty()) log(static_cast<LogLevel>(level), told);
  };
}

inline std::string why(const std::string& logged, Errc error) {
  return logged.empty() ? std::string(to_string(error)) : logged;
}

inline unsigned undelivered_ms(const FabricChoice& choice) {
  return static_cast<unsigned>(std::min<Nanos>(choice.undelivered_timeout / milliseconds(1), 0x7fffffff));
}

// Opens, and asks for keys where they are chosen.
template <class Open>
Opened open_with_auth(const FabricChoice& choice, Open open) {
  const auto tell = [log = choice.log](bool warning, const std::string& sentence) {
    if (log) log(warning ? LogLevel::error : LogLevel::info, sentence);
  };
  const auto auth = open_auth(choice.auth, choice.client, tell);
  if (!auth) return tl::unexpected(auth.error());
  Opened opened = open(choice);
  if (!opened) return opened;
  opened = with_auth(std::move(*opened), *auth, choice.client);
  if (*opened == nullptr) return tl::unexpected<std::string>("the kernel gives no random numbers");
  return opened;
}

}  // namespace rtrs::tools
