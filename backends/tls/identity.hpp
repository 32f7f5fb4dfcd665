// The name under which a peer is known once it has shown a certificate or a pre-shared key.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rtrs::tls {

inline constexpr std::size_t kMaxIdentityBytes = 128;

// 1 to 128 of A-Z a-z 0-9 . _ : @ - , so that it can be shown, written into a file and compared as it is.
[[nodiscard]] bool is_identity(std::string_view) noexcept;

// What a peer calls itself, for a log: at most 128 octets, the others than above as \xNN.
[[nodiscard]] std::string shown_identity(std::string_view);

}  // namespace rtrs::tls
