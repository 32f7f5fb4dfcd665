#include "core/record/server_device_events.hpp"

namespace rtrs::trace {

ExportOpened recorded(Nanos now, const rnbd::ExportOpened& input) noexcept {
  return {now, input.operation, input.error, input.handle, input.geometry, input.instance};
}
ExportMeasured recorded(Nanos now, const rnbd::ExportMeasured& input) noexcept {
  return {now, input.operation, input.nsectors};
}
SyncFailed recorded(Nanos now, const rnbd::SyncFailed& input) noexcept {
  return {now, input.handle, input.error};
}
DeviceForceClosed recorded(Nanos now, const rnbd::DeviceForceClosed& input) noexcept {
  return {now, input.device_id};
}
SessionClosed recorded(Nanos now, const rnbd::SessionClosed&) noexcept {
  return {now};
}

Storage recorded(const rnbd::Storage& action) noexcept {
  return {action.request, action.handle, action.sector, action.bytes,    action.operation,
          action.prio,    action.opcode, action.fua,    action.preflush, action.nounmap};
}
Respond recorded(const rnbd::Respond& action) noexcept {
  return {action.request, action.peer_errno};
}
WriteBack recorded(const rnbd::WriteBack& action) noexcept {
  WriteBack event{action.request, {}};
  event.response.assign(action.bytes.data(), action.length);
  return event;
}
OpenExport recorded(const rnbd::OpenExport& action) noexcept {
  return {action.request, action.operation, action.mode, name_text(action.name)};
}
CloseExport recorded(const rnbd::CloseExport& action) noexcept {
  return {action.handle};
}
MeasureExport recorded(const rnbd::MeasureExport& action) noexcept {
  return {action.handle, action.operation};
}
CacheDamaged recorded(const rnbd::CacheDamaged& action) noexcept {
  return {action.handle, action.error};
}
SessionDrained recorded(const rnbd::SessionDrained&) noexcept {
  return {};
}

}  // namespace rtrs::trace
