// Limits of urtrsd that are not those of a library.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs::daemon {

// Operations of storage at work at the same time; more wait for their turn.
inline constexpr std::uint32_t kStorageOperations = 2048;
// Threads of storage where io_uring is refused: one for each operation at work.
inline constexpr std::uint32_t kStorageThreads = 256;

// The configuration file and its lines, in bytes. The parser recurses as deep as a key has parts.
inline constexpr std::size_t kMaxConfigFile = std::size_t{1} << 20;
inline constexpr std::size_t kMaxConfigLine = 16384;
inline constexpr std::size_t kMaxConfigKeyParts = 64;

// Sessions of one client address where max_host_sessions is not set: all but an eighth.
constexpr std::uint32_t host_sessions_of(std::uint32_t max_sessions) noexcept {
  return max_sessions - max_sessions / 8;
}
// Half-open sessions of one client address where max_half_open is not set.
constexpr std::uint32_t half_open_of(std::uint32_t max_sessions) noexcept {
  return (max_sessions + 1) / 2;
}

}  // namespace rtrs::daemon
