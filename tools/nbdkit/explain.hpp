// Sentences for people about why there is no device.
#pragma once
#include <boost/system/error_code.hpp>
#include <span>
#include <string>

#include "core/driver/path_news.hpp"
#include "tools/nbdkit/settings.hpp"

namespace rtrs::nbdkit {

// "heartbeat_lost"; with the peer's errno, "rejected: Permission denied".
std::string reason_words(Reason, std::uint16_t peer_errno);

// Why mapping failed, with what to check. `paths`: in the order of settings.paths.
std::string explain_map_failure(const Settings&, const boost::system::error_code&,
                                std::span<const PathStatus> paths);
// Why it did not come to an end within connect_timeout.
std::string explain_timeout(const Settings&, std::span<const PathStatus> paths);

}  // namespace rtrs::nbdkit
