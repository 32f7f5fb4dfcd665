// Limits of urtrsd that no library defines.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/proto/config.hpp"

namespace rtrs::tools {

// Maximum number of concurrent storage operations; further operations are queued.
inline constexpr std::uint32_t kStorageOperations = 2048;
// Maximum number of storage threads if io_uring is not available. Each thread does one operation at a time.
inline constexpr std::uint32_t kStorageThreads = 256;

// Maximum size of the configuration file and of one line, in bytes, and maximum number of parts of a dotted
// key. The parser recurses once per part.
inline constexpr std::size_t kMaxConfigFile = std::size_t{1} << 20;
inline constexpr std::size_t kMaxConfigLine = 16384;
inline constexpr std::size_t kMaxConfigKeyParts = 64;

// Maximum number of sessions from one client address. If max_host_sessions is not set, this is max_sessions
// minus an eighth.
constexpr std::uint32_t host_sessions_of(const ServerConfig& config) noexcept {
  return config.max_host_sessions != 0 ? config.max_host_sessions
                                       : config.max_sessions - config.max_sessions / 8;
}
// Maximum number of half-open sessions from one client address.
constexpr std::uint32_t half_open_of(const ServerConfig& config) noexcept {
  return config.max_half_open != 0 ? config.max_half_open : (config.max_sessions + 1) / 2;
}

}  // namespace rtrs::tools
