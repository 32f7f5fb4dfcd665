// Name of a peer after it was authenticated by a certificate or a pre-shared key.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rtrs::tls {

inline constexpr std::size_t kMaxIdentityBytes = 128;

// True for 1 to 128 characters of A-Z a-z 0-9 . _ : @ - , which need no escaping in logs, files and
// comparisons.
[[nodiscard]] bool is_identity(std::string_view) noexcept;

// Makes the name that a peer claims safe for a log: at most 128 bytes, with all other bytes as \xNN.
[[nodiscard]] std::string shown_identity(std::string_view);

}  // namespace rtrs::tls
