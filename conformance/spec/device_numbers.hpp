// Constants of RNBD messages (protocol sections 1.3, 2.9 and 9), and Linux errno values.
#pragma once
#include <cstddef>
#include <cstdint>

#include "conformance/spec/device_event.hpp"

namespace rtrs::spec {

inline constexpr std::uint16_t kSessInfo = 0, kSessInfoRsp = 1, kOpen = 2, kOpenRsp = 3, kIo = 4, kClose = 5;
inline constexpr std::size_t kDeviceHeaderBytes = 4, kSessInfoBytes = 36, kOpenBytes = 264,
                             kOpenRspBytes = 56, kCloseBytes = 8, kIoMinBytes = 28, kIoBytes = 32,
                             kNameField = 255;
inline constexpr std::uint64_t kMostSectors = std::uint64_t{1} << 54;
inline constexpr std::uint32_t kSectorBytes = 512;
inline constexpr std::uint8_t kVersion = 2;

inline constexpr std::uint16_t kNotPermitted = 1, kIoError = 5, kBusy = 16, kExists = 17, kNoDevice = 19,
                               kInvalid = 22, kNoSpace = 28, kNotSupported = 95, kNotConnected = 107;
inline constexpr unsigned kMostClientDevices = 64, kMostFutileReopens = 3;
inline constexpr std::int32_t kMostErrno = 511;  // largest errno that an immediate can carry

inline std::uint16_t wire_errno(std::int32_t error) noexcept {
  return error < 0 || error > kMostErrno ? kIoError : static_cast<std::uint16_t>(error);
}

// True if a message can carry the block size and the device is a whole number of blocks long.
inline bool is_valid(const Geometry& geometry) noexcept {
  const std::uint32_t block = geometry.logical_block_size;
  return block >= kSectorBytes && block <= 32768 && (block & (block - 1)) == 0 &&
         geometry.nsectors < kMostSectors && geometry.nsectors % (block / kSectorBytes) == 0;
}

}  // namespace rtrs::spec
