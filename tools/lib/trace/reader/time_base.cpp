#include "tools/lib/trace/reader/time_base.hpp"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace rtrs::trace {

namespace {
constexpr std::int64_t kSecond = 1'000'000'000;
}

std::string time_text(Nanos time) {
  if (time == kNever) return "never";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%" PRIu64 ".%09" PRIu64, time / 1'000'000'000, time % 1'000'000'000);
  return buffer;
}

TimeBase::TimeBase(const Header& header, Nanos first)
    : zero_(static_cast<std::int64_t>(header.start != 0 ? header.start : first)),
      to_wall_(static_cast<std::int64_t>(header.origin.wall - header.origin.taken)),
      of_run_(header.start != 0 || (header.flags & partial) == 0),
      has_wall_(header.origin.wall != 0) {}

std::string TimeBase::text(Nanos time) const {
  if (time == kNever) return "never";
  if (in_wall_) return wall_text(static_cast<std::int64_t>(time));
  const auto since = static_cast<std::int64_t>(time - static_cast<Nanos>(zero_));
  return since < 0 ? '-' + time_text(Nanos{0} - static_cast<Nanos>(since))
                   : time_text(static_cast<Nanos>(since));
}

std::string TimeBase::wall_text(std::int64_t time) const {
  const auto wall = static_cast<std::int64_t>(static_cast<Nanos>(time) + static_cast<Nanos>(to_wall_));
  const std::int64_t nanos = (wall % kSecond + kSecond) % kSecond;
  const std::time_t seconds = wall / kSecond - (wall % kSecond < 0 ? 1 : 0);
  std::tm parts{};
  char date[40] = "?";
  if (::gmtime_r(&seconds, &parts) != nullptr) std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%s.%09" PRId64 "Z", date, nanos);
  return text;
}

std::string TimeBase::words() const {
  if (in_wall_) return "wall time (UTC)";
  return std::string("seconds since ") +
         (of_run_ ? "the start of the run" : "the first record of the trace") +
         (has_wall_ ? " (" + wall_text(zero_) + ")" : "");
}

std::optional<std::int64_t> TimeBase::parse(const std::string& given) const {
  std::tm parts{};
  if (const char* rest = ::strptime(given.c_str(), "%Y-%m-%dT%H:%M:%S", &parts)) {
    char* end = nullptr;
    const double fraction = *rest == '.' ? std::strtod(rest, &end) : 0;
    if (end != nullptr) rest = end;
    if (!has_wall_ || (*rest == 'Z' ? rest[1] != 0 : *rest != 0)) return std::nullopt;
    const std::time_t seconds = ::timegm(&parts);
    if (seconds < 0 || seconds >= 9'000'000'000 || !(fraction < 1)) return std::nullopt;
    const auto wall = static_cast<Nanos>(seconds) * static_cast<Nanos>(kSecond) +
                      static_cast<Nanos>(std::llround(fraction * 1e9));
    return static_cast<std::int64_t>(wall - static_cast<Nanos>(to_wall_));
  }
  char* end = nullptr;
  const double seconds = std::strtod(given.c_str(), &end);
  if (given.empty() || *end != 0 || !(std::fabs(seconds) < 9e9)) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<Nanos>(zero_) +
                                   static_cast<Nanos>(std::llround(seconds * 1e9)));
}

}  // namespace rtrs::trace
