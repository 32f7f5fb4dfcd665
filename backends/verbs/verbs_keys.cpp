// Keys under which peers write, and how they die.
#include <utility>

#include "backends/verbs/verbs_fabric.hpp"

namespace rtrs::verbs {

bool FabricImpl::bind(Connection& connection, RemoteKeyId id, Connection::Bind how, std::uint64_t cookie,
                      bool report) {
  const bool open = how == Connection::Bind::open;
  if (!connection.bind(open ? memory_.window_open(id) : memory_.window_closed(id), how, cookie, report))
    return false;
  memory_.last_bind(id) = {.on = connection.key(), .number = connection.last_number()};
  return true;
}

std::uint32_t FabricImpl::rkey_of(ConKey key, const RemoteKey& remote_key) const noexcept {
  const Connection* connection = find(key);
  if (connection == nullptr || connection->device() == nullptr) return remote_key.rkey;
  return memory_.rkey(*connection->device(), remote_key.id);
}

Result<RemoteKey> FabricImpl::make_revocable_key(ConKey key, RegionId region, std::size_t offset,
                                                 std::size_t length) {
  Connection* connection = find(key);
  if (connection == nullptr || connection->device() == nullptr) return tl::unexpected(Errc::fabric_error);
  Device& device = *connection->device();
  const bool windows = device.windows && (options_.invalidation == Invalidation::automatic ||
                                          options_.invalidation == Invalidation::windows);
  if (!windows) return memory_.make_key_at(device, region, offset, length);
  Result<RemoteKey> remote_key = memory_.make_window(device, IBV_MW_TYPE_1, region, offset, length);
  if (!remote_key) return remote_key;
  if (!bind(*connection, remote_key->id, Connection::Bind::open, 0, false)) {
    memory_.release_key(remote_key->id);
    return tl::unexpected(Errc::fabric_error);
  }
  flush_soon(*connection);
  remote_key->rkey = memory_.rkey(device, remote_key->id);
  return remote_key;
}

// Type 1 would do for the peer, but it cannot kill such a key.
Result<RemoteKey> FabricImpl::make_request_key(ConKey key, RegionId region, std::size_t offset,
                                               std::size_t length) {
  Connection* connection = find(key);
  if (connection == nullptr || connection->device() == nullptr || !connection->device()->per_qp_windows)
    return tl::unexpected(Errc::not_supported);
  Device& device = *connection->device();
  Result<RemoteKey> remote_key = memory_.make_window(device, IBV_MW_TYPE_2, region, offset, length);
  if (!remote_key) return remote_key;
  memory_.bind_to(remote_key->id, key);
  if (!bind(*connection, remote_key->id, Connection::Bind::open, 0, false)) {
    memory_.release_key(remote_key->id);
    return tl::unexpected(Errc::fabric_error);
  }
  flush_soon(*connection);
  remote_key->rkey = memory_.rkey(device, remote_key->id);
  return remote_key;
}

void FabricImpl::release_key(RemoteKeyId id) {
  if (memory_.is_window(id)) {
    // Work requests that name its window go out before it does, and are carried out.
    flush_unposted();
    const Memory::LastBind bind = memory_.last_bind(id);
    Connection* const connection = memory_.was_killed(id) ? nullptr : find(bind.on);
    if (connection != nullptr && !connection->has_done(bind.number))
      connection->keep(bind.number, memory_.part_with_window(id));
  }
  memory_.release_key(id);
}

void FabricImpl::invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) {
  Connection* connection = find(key);
  if (connection == nullptr || connection->stage() != Connection::Stage::up) return;
  if (!memory_.exists(id)) return report_invalidated(key, cookie, false);
  if (!memory_.is_window(id)) {
    memory_.withdraw(id);
    return report_invalidated(key, cookie, true);
  }
  if (!bind(*connection, id, Connection::Bind::close, cookie, true))
    return report_lost(*connection, Reason::post_failed);
  flush_soon(*connection);
}

Result<std::uint32_t> FabricImpl::rebind(ConKey key, RemoteKeyId id) {
  Connection* connection = find(key);
  if (connection == nullptr || !memory_.exists(id)) return tl::unexpected(Errc::invalid);
  if (!memory_.is_window(id)) return memory_.rebind(id);
  if (connection->stage() == Connection::Stage::up) {
    const bool bound = bind(*connection, id, Connection::Bind::open, 0, false);
    bound ? flush_soon(*connection) : report_lost(*connection, Reason::post_failed);
  }
  // On a connection that is lost the key goes nowhere.
  return connection->device() == nullptr ? 0 : memory_.rkey(*connection->device(), id);
}

void FabricImpl::report_invalidated(ConKey key, std::uint64_t cookie, bool ok) {
  report(event::ChunkInvalidated{key, cookie, ok});
}

}  // namespace rtrs::verbs
