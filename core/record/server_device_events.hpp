// Records of a rnbd::ServerDevices: its inputs with their time, and its actions. core/rnbd/server_devices.hpp
// explains the terms.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "core/record/device_name.hpp"
#include "core/record/inline_blob.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::trace {

// A machine was created for session `session` of the server.
struct BeginServerDevices {
  Nanos now = 0;
  std::uint16_t session = 0;
  rnbd::ServerOptions options;
  RTRS_FIELDS(now, session, options)
};

// --- inputs ---

// rnbd::DeviceRequest with a header of at most kIoBytes, like every IO; fits in a slot of the ring.
struct DeviceRequest {
  Nanos now = 0;
  std::uint64_t request = 0;
  std::uint32_t data_len = 0;
  Direction direction = Direction::read;
  InlineBytes<wire::rnbd::kIoBytes> header;
  RTRS_FIELDS(now, request, data_len, direction, header)
};
static_assert(sizeof(DeviceRequest) == 56);
// rnbd::DeviceRequest with a longer header. Bytes beyond the longest RNBD message are omitted, because the
// machine does not read them.
struct LongDeviceRequest {
  Nanos now = 0;
  std::uint64_t request = 0;
  std::uint32_t data_len = 0;
  Direction direction = Direction::read;
  InlineBytes<wire::rnbd::kOpenBytes> header;
  RTRS_FIELDS(now, request, data_len, direction, header)
};
struct ExportOpened {
  Nanos now = 0;
  std::uint16_t operation = 0;
  std::int32_t error = 0;
  std::uint64_t handle = 0;
  rnbd::Geometry geometry;
  std::uint64_t instance = 0;
  RTRS_FIELDS(now, operation, error, handle, geometry, instance)
};
struct ExportMeasured {
  Nanos now = 0;
  std::uint16_t operation = 0;
  std::uint64_t nsectors = 0;
  RTRS_FIELDS(now, operation, nsectors)
};
struct StorageDone {
  Nanos now = 0;
  std::uint16_t operation = 0;
  std::int32_t error = 0;
  bool sync_failed = false;
  RTRS_FIELDS(now, operation, error, sync_failed)
};
struct SyncFailed {
  Nanos now = 0;
  std::uint64_t handle = 0;
  std::int32_t error = 0;
  RTRS_FIELDS(now, handle, error)
};
struct DeviceForceClosed {
  Nanos now = 0;
  std::uint32_t device_id = 0;
  RTRS_FIELDS(now, device_id)
};
struct SessionClosed {
  Nanos now = 0;
  RTRS_FIELDS(now)
};

// Event is DeviceRequest or LongDeviceRequest.
template <class Event>
Event recorded_request(Nanos now, const rnbd::DeviceRequest& input) noexcept {
  Event event{now, input.request, input.data_len, input.direction, {}};
  event.header.assign(input.user_header.data(), input.user_header.size());
  return event;
}
inline StorageDone recorded(Nanos now, const rnbd::StorageDone& input) noexcept {
  return {now, input.operation, input.error, input.sync_failed};
}
ExportOpened recorded(Nanos now, const rnbd::ExportOpened&) noexcept;
ExportMeasured recorded(Nanos now, const rnbd::ExportMeasured&) noexcept;
SyncFailed recorded(Nanos now, const rnbd::SyncFailed&) noexcept;
DeviceForceClosed recorded(Nanos now, const rnbd::DeviceForceClosed&) noexcept;
SessionClosed recorded(Nanos now, const rnbd::SessionClosed&) noexcept;

// --- actions ---

struct Storage {
  std::uint64_t request = 0;
  std::uint64_t handle = 0;
  std::uint64_t sector = 0;
  std::uint32_t bytes = 0;
  std::uint16_t operation = 0;
  std::uint16_t prio = 0;
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;
  bool fua = false;
  bool preflush = false;
  bool nounmap = false;
  RTRS_FIELDS(request, handle, sector, bytes, operation, prio, opcode, fua, preflush, nounmap)
};
struct Respond {
  std::uint64_t request = 0;
  std::uint16_t peer_errno = 0;
  RTRS_FIELDS(request, peer_errno)
};
struct WriteBack {
  std::uint64_t request = 0;
  InlineBytes<wire::rnbd::kOpenRspBytes> response;
  RTRS_FIELDS(request, response)
};
struct OpenExport {
  std::uint64_t request = 0;
  std::uint16_t operation = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  NameText name;
  RTRS_FIELDS(request, operation, mode, name)
};
struct CloseExport {
  std::uint64_t handle = 0;
  RTRS_FIELDS(handle)
};
struct MeasureExport {
  std::uint64_t handle = 0;
  std::uint16_t operation = 0;
  RTRS_FIELDS(handle, operation)
};
struct CacheDamaged {
  std::uint64_t handle = 0;
  std::uint16_t error = 0;
  RTRS_FIELDS(handle, error)
};
struct SessionDrained {
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self&, Visitor&&) {}
};

Storage recorded(const rnbd::Storage&) noexcept;
Respond recorded(const rnbd::Respond&) noexcept;
WriteBack recorded(const rnbd::WriteBack&) noexcept;
OpenExport recorded(const rnbd::OpenExport&) noexcept;
CloseExport recorded(const rnbd::CloseExport&) noexcept;
MeasureExport recorded(const rnbd::MeasureExport&) noexcept;
CacheDamaged recorded(const rnbd::CacheDamaged&) noexcept;
SessionDrained recorded(const rnbd::SessionDrained&) noexcept;

}  // namespace rtrs::trace
