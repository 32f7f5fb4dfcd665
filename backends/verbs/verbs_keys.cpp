// Creates and invalidates the keys with which peers write.
#include <optional>
#include <utility>

#include "backends/verbs/verbs_fabric.hpp"

namespace rtrs::verbs {

void FabricImpl::log_invalidation_method(Device& device) const {
  if (std::exchange(device.logged_keys, true)) return;
  const bool by_registration = options_.invalidation == Invalidation::registration;
  if (device.can.invalidation)
    return log(LogLevel::info, device.name + ": keys can be invalidated by " +
                                   (by_registration ? "registrations" : "memory windows"));
  if (options_.invalidation == Invalidation::off) return;
  log(LogLevel::warning,
      device.name +
          " has no memory windows of type 1: keys are not invalidated, so a client can write to all chunks "
          "of its session for as long as its path lives, also while their requests are served; "
          "rdma_invalidation registration invalidates them, at the cost of two system calls per IO");
}

std::uint32_t FabricImpl::rkey_of(ConKey key, const RemoteKey& remote_key) noexcept {
  Connection* connection = find(key);
  if (connection == nullptr || connection->device() == nullptr) return remote_key.rkey;
  if (const ibv_mr* const made = memory_.find_registration(*connection->device(), remote_key.id))
    return made->rkey;
  const std::optional<std::uint32_t> rkey = memory_.provide(*connection->device(), remote_key.id);
  if (rkey) return *rkey;
  report_lost(*connection, Reason::no_resources);
  return 0;
}

Result<RemoteKey> FabricImpl::make_revocable_key(ConKey key, RegionId region, std::size_t offset,
                                                 std::size_t length) {
  Connection* connection = find(key);
  if (connection == nullptr || connection->device() == nullptr) return tl::unexpected(Errc::fabric_error);
  Device& device = *connection->device();
  if (options_.invalidation == Invalidation::registration)
    return memory_.make_key_at(device, region, offset, length);
  if (!device.windows) {
    // Reached if the session also uses a device with windows, or if its owner requires invalidation on all
    // devices.
    if (!std::exchange(device.logged_registration, true))
      log(LogLevel::warning,
          connection->describe() + ": " + device.name +
              " has no memory windows of type 1, but the keys of its session are to be invalidated: each IO "
              "over it deregisters and registers memory, two system calls");
    return memory_.make_key_at(device, region, offset, length);
  }
  Result<RemoteKey> remote_key = memory_.make_window(device, IBV_MW_TYPE_1, region, offset, length);
  if (!remote_key) return remote_key;
  if (!connection->bind(memory_.window_open(remote_key->id), Connection::Bind::open, 0, false)) {
    memory_.release_key(remote_key->id);
    return tl::unexpected(Errc::fabric_error);
  }
  flush_soon(*connection);
  remote_key->rkey = memory_.window(remote_key->id)->rkey;
  return remote_key;
}

// The peer could also write with a type 1 window, but could not invalidate its key.
Result<RemoteKey> FabricImpl::make_request_key(ConKey key, RegionId region, std::size_t offset,
                                               std::size_t length) {
  Connection* connection = find(key);
  if (connection == nullptr || connection->device() == nullptr || !connection->device()->per_qp_windows)
    return tl::unexpected(Errc::not_supported);
  Device& device = *connection->device();
  Result<RemoteKey> remote_key = memory_.make_window(device, IBV_MW_TYPE_2, region, offset, length);
  if (!remote_key) return remote_key;
  memory_.bind_to(remote_key->id, key);
  if (!connection->bind(memory_.window_open(remote_key->id), Connection::Bind::open, 0, false)) {
    memory_.release_key(remote_key->id);
    return tl::unexpected(Errc::fabric_error);
  }
  flush_soon(*connection);
  remote_key->rkey = memory_.window(remote_key->id)->rkey;
  return remote_key;
}

void FabricImpl::release_key(RemoteKeyId id) {
  if (memory_.is_window(id)) {
    // Work requests that were already placed and use the window are posted before the window is freed, and
    // are executed. Work requests that wait for room are cancelled.
    const ibv_mw& window = *memory_.window(id);
    const bool of_request = window.type == IBV_MW_TYPE_2;
    flush_binds_of(window);
    for (Connection* connection : unposted_) connection->forget_window(window);
    const Memory::LastBind bind = memory_.last_bind(id);
    Connection* const connection = memory_.was_killed(id) ? nullptr : find(bind.on);
    // A message that the peer sent after the binding was posted is normally the response to this request. So
    // the binding has been executed, and the window can be freed at once. If the message answered another
    // request, freeing the window early may break the connection.
    const bool answered = of_request && connection != nullptr && connection->heard() != bind.heard;
    if (connection != nullptr && !answered && !connection->has_done(bind.number))
      connection->keep(bind.number, memory_.detach_window(id));
  }
  memory_.release_key(id);
}

void FabricImpl::release(RegionId id) {
  flush_unposted();
  for (Connection* connection : unposted_) connection->forget_windows_of(id);
  memory_.release(id);
}

void FabricImpl::invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) {
  Connection* connection = find(key);
  if (connection == nullptr || connection->stage() != Connection::Stage::up) return;
  if (!memory_.exists(id)) return report_invalidated(key, cookie, false);
  if (!memory_.is_window(id)) {
    memory_.withdraw(id);
    return report_invalidated(key, cookie, true);
  }
  connection->flush_chain_with(id);
  if (!connection->bind(memory_.window_closed(id), Connection::Bind::close, cookie, true))
    return report_lost(*connection, connection->failure());
  flush_soon(*connection);
}

Result<std::uint32_t> FabricImpl::rebind(ConKey key, RemoteKeyId id) {
  Connection* connection = find(key);
  if (connection == nullptr || !memory_.exists(id)) return tl::unexpected(Errc::invalid);
  if (!memory_.is_window(id)) return memory_.rebind(id);
  if (connection->stage() == Connection::Stage::up) {
    connection->flush_chain_with(id);
    const bool bound = connection->bind(memory_.window_open(id), Connection::Bind::open, 0, false);
    bound ? flush_soon(*connection) : report_lost(*connection, connection->failure());
  }
  // On a lost connection the return value does not matter, because the key is never sent.
  return connection->device() == nullptr ? 0 : memory_.window(id)->rkey;
}

void FabricImpl::report_invalidated(ConKey key, std::uint64_t cookie, bool ok) {
  report(event::ChunkInvalidated{key, cookie, ok});
}

}  // namespace rtrs::verbs
