// The block server: a Server, the RNBD devices of each of its sessions, and every request between network and
// storage. urtrsd, the simulator and the tests run this same object code; they carry out what it asks for.
//
// Rules
//   - One thread owns it, and all calls take the same fabric. It owns no thread, clock or socket, and never
//     calls up. `now` never goes back.
//   - poll() hands out actions (core/driver/block_actions.hpp). Perform them in the order in which they come.
//     Results may be given at any time between two calls, also while actions are being performed, and in any
//     order. What a result leads to is handed out by the next poll(); next_deadline() is 0 as long as
//     something waits for that.
//   - Each StartStorage, OpenExport and MeasureExport ends with exactly one result, however long it takes. A
//     session ends only after the last of them, and its memory stays until then. A result that nobody waits
//     for any more (of a session that is gone, or a second one) is counted and changes nothing.
//   - Nothing that a peer sends is trusted: lengths, direction, access mode and range are checked before
//     storage sees a request (core/rnbd/server_devices.hpp).
//   - Allocates when a session or an export is opened, never for an IO. A session that finds no memory is
//     refused, an export is answered with ENOMEM; neither disturbs others.
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
  std::uint64_t storage_operations = 0;  // handed out
  std::uint64_t stale_results = 0;       // that nobody waited for
  std::uint64_t sync_failures = 0;       // that storage reported: CacheDamaged
};

class BlockServer {
 public:
  // `recorder`, of the sessions, may be null; it must outlive the server. Device ids start at
  // `first_generation` (its low 24 bits), and each session at the next: give every run of a server another
  // one, so that a client that missed the restart cannot reach another device than it opened.
  BlockServer(const ServerConfig&, std::uint32_t first_generation, Recorder* recorder);
  ~BlockServer();
  BlockServer(BlockServer&&) noexcept;
  BlockServer& operator=(BlockServer&&) noexcept;

  // As Server::listen().
  Errc listen(Fabric&, Nanos now, const PathAddress& local);
  // Takes what the fabric has and what is due, and hands out up to out.size() actions, the oldest first; how
  // many. Takes nothing new from the fabric before all older actions are handed out.
  std::size_t poll(Fabric&, Nanos now, std::span<block::Action> out);
  // When to poll at the latest: 0 means at once.
  Nanos next_deadline() const noexcept;
  // Answers are gathered as long as what it returns lives, and go to the fabric in one call. No poll() and no
  // second one meanwhile.
  [[nodiscard]] Server::ResponseBatch gather(Fabric& fabric) noexcept;

  // --- results; false: nobody waits for it, and it changed nothing ---
  // `error` is 0 or a positive errno. `sync_failed`: the error is that of making durable what was written
  // before, of this or of other requests.
  bool storage_done(Fabric&, Nanos now, block::OpId, int error, bool sync_failed = false);
  // False also without memory to remember the export: the open was answered with ENOMEM. After false the
  // caller closes what it opened; after true it keeps a good export open until CloseExport.
  bool export_opened(Fabric&, Nanos now, block::OpId, const block::ExportOpened&);
  // Sectors now; a rest that is no whole logical block is not exported. 0: cannot be told.
  bool export_measured(Fabric&, Nanos now, block::OpId, std::uint64_t nsectors);

  // --- what the caller learns or decides by itself ---
  // Storage failed outside any request to make durable what was written to an export. `error`: errno, > 0.
  void sync_failed(std::uint64_t export_id, int error) noexcept;
  // Takes an open device away: its id is answered with ENOTCONN from now on, and the export is closed when
  // nothing of it is in flight. False: no export is open under this handle.
  bool force_close(Fabric&, Nanos now, std::uint64_t handle);
  // As Server::disconnect_path().
  Errc disconnect_path(Fabric&, Nanos now, std::uint16_t session, unsigned path);
  void close_session(Fabric&, Nanos now, std::uint16_t session);
  // As Server::reset_statistics().
  Errc reset_statistics(std::uint16_t session, unsigned path) noexcept;
  // Closes every session, accepts no more. closed() tells when all is drained and handed out.
  void close(Fabric&, Nanos now);
  bool closed() const noexcept;

  // As the functions of Server that have these names.
  void set_access(AccessRules);
  void invalidate_where_it_protects() noexcept;

  // The transport, to look at.
  const Server& transport() const noexcept;
  // Of the paths, as Server::take_news().
  bool take_news(PathEvent&);
  // As Server::in_flight(), with what is with the caller told apart.
  std::vector<RequestInFlight> in_flight(std::uint16_t session) const;
  // Null for a session that is not open.
  const rnbd::ServerDevices* devices(std::uint16_t session) const noexcept;
  const BlockServerStats& stats() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrs
