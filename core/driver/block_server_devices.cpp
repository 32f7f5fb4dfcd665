// Handles the device actions of all sessions, and the results from the caller.
#include <algorithm>
#include <new>
#include <utility>

#include "core/base/assert.hpp"
#include "core/driver/block_server_impl.hpp"

namespace rtrs {

using rnbd::ServerDevices;

BlockServer::Impl::Session* BlockServer::Impl::end(block::OpId id, OpKind kind) noexcept {
  Session* session = find(block::session_of(id));
  const std::uint16_t operation = operation_of(id);
  if (session != nullptr && operation < session->operations.size()) {
    Session::Operation& waiting_for = session->operations[operation];
    if (waiting_for.serial == static_cast<std::uint32_t>(id) && waiting_for.kind == kind) {
      waiting_for.kind = OpKind::none;
      return session;
    }
  }
  ++counted.stale_results;
  return nullptr;
}

std::vector<BlockServer::Impl::Export>::iterator BlockServer::Impl::export_of(std::uint64_t handle) noexcept {
  return std::find_if(exports.begin(), exports.end(),
                      [handle](const Export& one) { return one.handle == handle; });
}

void BlockServer::Impl::perform(Fabric&, Nanos now, Session& session, const rnbd::Storage& action) {
  ++counted.storage_operations;
  const bool data = action.opcode == wire::rnbd::Opcode::read || action.opcode == wire::rnbd::Opcode::write;
  emit<block::StartStorage>() = {
      action, begin(now, session, action.operation, OpKind::storage, action.request), session.index,
      data ? data_of(session, action.request).first(action.bytes) : std::span<std::byte>()};
}

void BlockServer::Impl::perform(Fabric& fabric, Nanos now, Session&, const rnbd::Respond& action) {
  server.respond(fabric, now, RequestId::of(action.request), action.peer_errno);
}

void BlockServer::Impl::perform(Fabric&, Nanos, Session& session, const rnbd::WriteBack& action) {
  rnbd::fill(action, data_of(session, action.request));
}

void BlockServer::Impl::perform(Fabric&, Nanos now, Session& session, const rnbd::OpenExport& action) {
  emit<block::OpenExport>() = {action, begin(now, session, action.operation, OpKind::open, action.request),
                               session.index};
}

void BlockServer::Impl::perform(Fabric&, Nanos, Session& session, const rnbd::CloseExport& action) {
  const auto found = export_of(action.handle);
  RTRS_ASSERT(found != exports.end());
  *found = exports.back();
  exports.pop_back();
  emit<block::CloseExport>() = {action, session.index};
}

void BlockServer::Impl::perform(Fabric&, Nanos now, Session& session, const rnbd::MeasureExport& action) {
  emit<block::MeasureExport>() = {action, begin(now, session, action.operation, OpKind::measure, 0),
                                  session.index};
}

void BlockServer::Impl::perform(Fabric&, Nanos, Session& session, const rnbd::CacheDamaged& action) {
  ++counted.sync_failures;
  const auto found = export_of(action.handle);
  RTRS_ASSERT(found != exports.end());
  emit<block::CacheDamaged>() = {action, session.index, found->id};
  unreported_damage.push_back({found->id, action.error});
  report_damage(found->id, action.error);
}

void BlockServer::Impl::perform(Fabric&, Nanos, Session& session, const rnbd::SessionDrained&) {
  session.drained = true;
}

// Informs every session that has the export open. The session that met the error ignores the report.
void BlockServer::Impl::report_damage(std::uint64_t export_id, int error) noexcept {
  // SyncFailed has no time, so the record gets the time of the last input, which exists because an input
  // opened the export.
  rnbd::ServerActions none;
  for (const Export& one : exports)
    if (one.id == export_id)
      step(last_input, *sessions[one.session], rnbd::SyncFailed{one.handle, error}, none);
}

bool BlockServer::Impl::opened(Fabric& fabric, Nanos now, block::OpId id, const block::ExportOpened& result) {
  Session* session = end(id, OpKind::open);
  if (session == nullptr) return false;
  rnbd::ExportOpened input = result;
  input.operation = operation_of(id);
  if (result.error == 0) {
    RTRS_ASSERT(export_of(result.handle) == exports.end());
    try {
      exports.push_back({result.handle, result.export_id, session->index});
      reserve_actions();
    } catch (const std::bad_alloc&) {
      if (export_of(result.handle) != exports.end()) exports.pop_back();
      input.error = wire::linux_errno::kEnomem;
    }
  }
  feed(fabric, now, *session, input);
  // The caller has not polled this damage yet, so the instance that the caller reported is older than the
  // damage.
  for (const Damage& damage : unreported_damage)
    if (input.error == 0 && damage.export_id == result.export_id)
      step(now, *session, rnbd::SyncFailed{result.handle, damage.error}, actions);
  return input.error == 0 || result.error != 0;
}

bool BlockServer::storage_done(Fabric& fabric, Nanos now, block::OpId id, int error, bool sync_failed) {
  Impl::Session* session = impl_->end(id, Impl::OpKind::storage);
  if (session == nullptr) return false;
  impl_->feed(fabric, now, *session, rnbd::StorageDone{Impl::operation_of(id), error, sync_failed});
  return true;
}

bool BlockServer::export_opened(Fabric& fabric, Nanos now, block::OpId id,
                                const block::ExportOpened& result) {
  return impl_->opened(fabric, now, id, result);
}

bool BlockServer::export_measured(Fabric& fabric, Nanos now, block::OpId id, std::uint64_t nsectors) {
  Impl::Session* session = impl_->end(id, Impl::OpKind::measure);
  if (session == nullptr) return false;
  impl_->feed(fabric, now, *session, rnbd::ExportMeasured{Impl::operation_of(id), nsectors});
  return true;
}

void BlockServer::sync_failed(std::uint64_t export_id, int error) noexcept {
  impl_->report_damage(export_id, error);
}

bool BlockServer::force_close(Fabric& fabric, Nanos now, std::uint64_t handle) {
  const auto found = impl_->export_of(handle);
  if (found == impl_->exports.end()) return false;
  Impl::Session& session = *impl_->sessions[found->session];
  for (const ServerDevices::Device& device : session.devices) {
    if (device.state != ServerDevices::DeviceState::open || device.handle != handle) continue;
    impl_->feed(fabric, now, session, rnbd::DeviceForceClosed{device.id});
    return true;
  }
  return true;  // the device is already closing
}

}  // namespace rtrs
