// Helpers to open any fabric. The last error that the fabric logs becomes the error text.
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

// Keeps the last error text that a fabric logs while it is being opened, because the text says more than the
// error code. The caller reports the text.
struct Opening {
  bool under_way = true;
  std::string error;
};

// Returns a log function that passes messages on, except that the last error is kept while the fabric is
// being opened.
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

// Opens the fabric. Adds key authentication if keys are configured.
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
  if (*opened == nullptr) return tl::unexpected<std::string>("getting random numbers from the kernel failed");
  return opened;
}

}  // namespace rtrs::tools
