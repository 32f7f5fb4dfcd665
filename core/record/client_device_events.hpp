// Records of a rnbd::ClientDevices: its inputs with their time, its actions, and the results of its steps.
// core/rnbd/client_devices.hpp explains the terms.
#pragma once
#include <cstdint>

#include "core/base/inline_blob.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "core/record/device_name.hpp"
#include "core/rnbd/client_devices.hpp"

namespace rtrs::trace {

// A machine was created.
struct BeginClientDevices {
  Nanos now = 0;
  RTRS_FIELDS(now)
};

// --- inputs ---

struct LinkUp {
  Nanos now = 0;
  bool extended = false;
  RTRS_FIELDS(now, extended)
};
struct LinkDown {
  Nanos now = 0;
  RTRS_FIELDS(now)
};
struct MapRequested {
  Nanos now = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  NameText name;
  RTRS_FIELDS(now, mode, name)
};
struct UnmapRequested {
  Nanos now = 0;
  rnbd::DeviceHandle device = 0;
  RTRS_FIELDS(now, device)
};
struct RemapRequested {
  Nanos now = 0;
  rnbd::DeviceHandle device = 0;
  RTRS_FIELDS(now, device)
};
struct ResizeRequested {
  Nanos now = 0;
  std::uint64_t nsectors = 0;
  rnbd::DeviceHandle device = 0;
  RTRS_FIELDS(now, nsectors, device)
};
struct MessageDone {
  Nanos now = 0;
  std::uint64_t token = 0;
  std::uint16_t peer_errno = 0;
  bool delivered = false;
  InlineBytes<wire::rnbd::kOpenRspBytes> response;
  RTRS_FIELDS(now, token, peer_errno, delivered, response)
};
// begin_io(), with the fields of its ticket that affect the machine.
struct IoBegun {
  Nanos now = 0;
  rnbd::IoArrival arrival;
  rnbd::DeviceHandle device = 0;
  rnbd::IoNature nature;
  RTRS_FIELDS(now, arrival, device, nature)
};
// The order of the members makes it fit in a slot of the ring.
struct IoDone {
  Nanos now = 0;
  rnbd::IoArrival arrival;
  std::uint64_t losses = 0;
  rnbd::DeviceHandle device = 0;
  std::uint32_t cache = 0;
  std::uint16_t peer_errno = 0;
  rnbd::IoNature nature;
  bool delivered = false;
  bool doomed = false;
  RTRS_FIELDS(now, arrival, losses, device, cache, peer_errno, nature, delivered, doomed)
};
static_assert(sizeof(IoDone) == 56);
struct RetryDue {
  Nanos now = 0;
  RTRS_FIELDS(now)
};
struct ReopenDue {
  Nanos now = 0;
  RTRS_FIELDS(now)
};

LinkUp recorded(Nanos now, const rnbd::LinkUp&) noexcept;
LinkDown recorded(Nanos now, const rnbd::LinkDown&) noexcept;
MapRequested recorded(Nanos now, const rnbd::MapRequested&) noexcept;
UnmapRequested recorded(Nanos now, const rnbd::UnmapRequested&) noexcept;
RemapRequested recorded(Nanos now, const rnbd::RemapRequested&) noexcept;
ResizeRequested recorded(Nanos now, const rnbd::ResizeRequested&) noexcept;
MessageDone recorded(Nanos now, const rnbd::MessageDone&) noexcept;
RetryDue recorded(Nanos now, const rnbd::RetryDue&) noexcept;
ReopenDue recorded(Nanos now, const rnbd::ReopenDue&) noexcept;
// Conversions for the two inputs of every IO.
inline IoBegun recorded(Nanos now, rnbd::DeviceHandle device, const rnbd::IoTicket& ticket) noexcept {
  return {now, ticket.arrival, device, ticket.nature};
}
inline IoDone recorded(Nanos now, const rnbd::IoDone& input) noexcept {
  const rnbd::IoTicket& ticket = input.ticket;
  return {now,           ticket.arrival,  ticket.losses, input.device, ticket.cache, input.peer_errno,
          ticket.nature, input.delivered, ticket.doomed};
}

// --- actions ---

struct SendMessage {
  std::uint64_t token = 0;
  rnbd::MessageKind kind = rnbd::MessageKind::sess_info;
  Direction direction = Direction::read;
  std::uint16_t response_length = 0;
  InlineBytes<wire::rnbd::kOpenBytes> header;
  RTRS_FIELDS(token, kind, direction, response_length, header)
};
struct DeviceChanged {
  rnbd::DeviceHandle device = 0;
  rnbd::DeviceState state = rnbd::DeviceState::init;
  std::uint16_t peer_errno = 0;
  rnbd::Geometry geometry;
  RTRS_FIELDS(device, state, peer_errno, geometry)
};
struct CacheReplaced {
  rnbd::DeviceHandle device = 0;
  std::uint64_t unflushed = 0;
  RTRS_FIELDS(device, unflushed)
};
// Result of MapRequested.
struct MapAnswered {
  std::uint16_t error = 0;
  rnbd::DeviceHandle device = 0;
  RTRS_FIELDS(error, device)
};
// Result of IoBegun.
struct IoStarted {
  std::uint32_t device_id = 0;
  std::uint32_t cache = 0;
  std::uint64_t losses = 0;
  bool doomed = false;
  rnbd::IoNature nature;
  rnbd::IoArrival arrival;
  RTRS_FIELDS(device_id, cache, losses, doomed, nature, arrival)
};
// Result of IoDone.
struct IoJudged {
  rnbd::Disposition disposition = rnbd::Disposition::ok;
  RTRS_FIELDS(disposition)
};

SendMessage recorded(const rnbd::SendMessage&) noexcept;
DeviceChanged recorded(const rnbd::DeviceChanged&) noexcept;
CacheReplaced recorded(const rnbd::CacheReplaced&) noexcept;
MapAnswered recorded(const rnbd::MapOutcome&) noexcept;
IoStarted recorded(const rnbd::IoStart&) noexcept;
IoJudged recorded(const rnbd::Disposition&) noexcept;

}  // namespace rtrs::trace
