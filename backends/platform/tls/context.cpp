#include <array>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "backends/platform/tls/channel.hpp"

namespace rtrs::tls {
namespace {

constexpr std::int64_t kDay = std::int64_t{24} * 3600;

std::string text_of(std::int64_t time) {
  const std::time_t seconds = time;
  tm parts{};
  std::array<char, 32> text{};
  ::gmtime_r(&seconds, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts)};
}

std::string in_days(std::int64_t seconds) {
  const std::int64_t days = seconds / kDay;
  return days == 0 ? "in less than a day" : days == 1 ? "in 1 day" : "in " + std::to_string(days) + " days";
}

// Returns a warning if the file has expired or expires soon by this host's clock. Peers check it with their
// own clocks when they connect.
std::string warning_of(const Expiry& one, std::int64_t now) {
  if (one.time > now && one.time - now > kExpiryWarningSeconds) return {};
  const bool expired = one.time <= now;
  const std::string end =
      expired ? "has expired" : "expires " + in_days(one.time - now) + " (" + text_of(one.time) + ")";
  if (one.what == "certificate")
    return one.file + ": the certificate " + end + ", and peers reject it" + (expired ? "" : " then") +
           "; replace it";
  if (one.what == "CA")
    return one.file + ": the certificate of the CA " + end +
           ", and the certificate of each peer is rejected" + (expired ? "" : " then") + "; replace it";
  return one.file + ": the list of revoked certificates " + end +
         ", and each certificate of its CA is rejected" + (expired ? "" : " then") + "; replace it";
}

}  // namespace

bool can_connect(const Context& context) noexcept {
  return context.can_connect();
}

std::string identities(const Context& context) {
  return context.identities();
}

std::string description(const Context& context) {
  return context.description();
}

std::vector<Expiry> expiries(const Context& context) {
  return context.expiries();
}

std::string warning(const Context& context) {
  const std::int64_t now = std::time(nullptr);
  std::string all;
  if (context.valid_from() > now)
    all = context.credentials().cert +
          ": the certificate is not valid yet, and peers reject it; is the clock right?";
  for (const Expiry& one : context.expiries()) {
    const std::string warning = warning_of(one, now);
    if (!warning.empty()) all += (all.empty() ? "" : "; ") + warning;
  }
  return all;
}

std::vector<std::string> files_of(const Credentials& credentials) {
  std::vector<std::string> files;
  for (const std::string* file :
       {&credentials.keys, &credentials.cert, &credentials.key, &credentials.ca, &credentials.crl})
    if (!file->empty()) files.push_back(*file);
  return files;
}

std::unique_ptr<Renewal> renewal_of(const Context& context, Renewal::Tell tell, bool threads) {
  const auto read = [credentials = context.credentials()]() -> tl::expected<Renewal::Set, std::string> {
    auto again = open_context(credentials);
    if (!again) return tl::unexpected(std::move(again.error()));
    if (!(*again)->can_connect())
      return tl::unexpected(credentials.keys +
                            ": it has several keys, and none of them is chosen: " + (*again)->identities());
    return *again;
  };
  return std::make_unique<Renewal>(files_of(context.credentials()), context.marks(), read, std::move(tell),
                                   threads);
}

}  // namespace rtrs::tls
