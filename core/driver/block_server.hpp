// Block server: a Server, the RNBD devices of each of its sessions, and every request between network and
// storage. urtrsd, the simulator and the tests run the same object code and perform its actions.
//
// Rules
//   - One thread owns a block server, and all calls take the same fabric. The server owns no thread, clock or
//     socket, and never calls user code. `now` must never decrease.
//   - poll() hands out actions (core/driver/block_actions.hpp). Perform them in the order handed out.
//     Results may be given at any time between two calls, even while actions are being performed, and in any
//     order. The next poll() hands out the consequences of a result; next_deadline() is 0 while
//     any are pending.
//   - Each StartStorage, OpenExport and MeasureExport ends with exactly one result, however long it takes. A
//     session ends, and its memory is freed, only after its last result. A result that no
//     request waits for (closed session, or a second result) is counted and ignored.
//   - Data from the peer is not trusted: lengths, direction, access mode and range are checked before
//     storage sees a request (core/rnbd/server_devices.hpp).
//   - Allocates when a session or an export is opened, never for an IO. If there is no memory, a session is
//     refused, and an OPEN is answered with ENOMEM; other sessions are not affected.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/driver/block_actions.hpp"
#include "core/driver/server.hpp"

namespace rtrs {

struct BlockServerStats {
  std::uint64_t storage_operations = 0;  // StartStorage actions returned by poll()
  std::uint64_t stale_results = 0;       // storage results for which no request waited; dropped
  std::uint64_t sync_failures = 0;       // sync failures reported by storage (CacheDamaged)
};

class BlockServer {
 public:
  // `recorder` records the sessions; it may be null and must outlive the server. Device ids start at
  // `first_generation` (low 24 bits), and each session starts at the next one. Use a different value for
  // every run of a server, so that a client that missed the restart cannot reach a device other than the one
  // it opened.
  BlockServer(const ServerConfig&, std::uint32_t first_generation, Recorder* recorder);
  ~BlockServer();
  BlockServer(BlockServer&&) noexcept;
  BlockServer& operator=(BlockServer&&) noexcept;

  // See Server::listen().
  Errc listen(Fabric&, Nanos now, const PathAddress& local);
  // Processes fabric events and due timers. Hands out up to out.size() actions, oldest first, and returns
  // their number. Takes no new event from the fabric before all older actions are handed out.
  std::size_t poll(Fabric&, Nanos now, std::span<block::Action> out);
  // Call poll() no later than at this time; 0 means at once.
  Nanos next_deadline() const noexcept;
  // Collects responses while the returned object exists, then passes them to the fabric in one call.
  // Meanwhile do not call poll() or gather() again.
  [[nodiscard]] Server::ResponseBatch gather(Fabric& fabric) noexcept;

  // --- results; they return false, changing nothing, if no operation waits for the result ---

  // `error` is 0 or a positive errno. `sync_failed`: the error concerns the durability of data written
  // earlier, by this or other requests.
  bool storage_done(Fabric&, Nanos now, block::OpId, int error, bool sync_failed = false);
  // If there is no memory to record the export, answers the OPEN with ENOMEM and returns false.
  // After false the caller closes what it opened; after true it keeps the export open until CloseExport.
  bool export_opened(Fabric&, Nanos now, block::OpId, const block::ExportOpened&);
  // Reports the current number of sectors; an incomplete last logical block is not exported. 0: size unknown.
  bool export_measured(Fabric&, Nanos now, block::OpId, std::uint64_t nsectors);

  // --- failures and decisions that the caller reports ---

  // Reports that storage failed, outside any request, to make data written to an export durable. `error`:
  // positive errno.
  void sync_failed(std::uint64_t export_id, int error) noexcept;
  // Closes an open device: requests with its id fail with ENOTCONN from now on, and the export is closed once
  // no request of the device is in flight. Returns false if no export is open under this handle.
  bool force_close(Fabric&, Nanos now, std::uint64_t handle);
  // See Server::disconnect_path().
  Errc disconnect_path(Fabric&, Nanos now, std::uint16_t session, unsigned path);
  void close_session(Fabric&, Nanos now, std::uint16_t session);
  // See Server::reset_statistics().
  Errc reset_statistics(std::uint16_t session, unsigned path) noexcept;
  // Closes every session and accepts no new ones. closed() returns true when everything is drained and handed
  // out.
  void close(Fabric&, Nanos now);
  bool closed() const noexcept;

  // See the functions of Server with the same names.
  void set_access(AccessRules);
  void invalidate_where_it_protects() noexcept;

  // The transport, read-only.
  const Server& transport() const noexcept;
  // Path events; see Server::take_news().
  bool take_news(PathEvent&);
  // Like Server::in_flight(), with details about requests that the caller is processing.
  std::vector<RequestInFlight> in_flight(std::uint16_t session) const;
  // Null for a session that is not open.
  const rnbd::ServerDevices* devices(std::uint16_t session) const noexcept;
  const BlockServerStats& stats() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
