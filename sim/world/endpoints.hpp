// The drivers that the nodes of a world run: a plain session that takes requests directly, or the block layer
// on top of a session. The world addresses both by sectors.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/driver/block_client.hpp"
#include "core/driver/block_server.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"
#include "sim/net/basic/net.hpp"
#include "sim/oracles/data_integrity.hpp"
#include "sim/world/disk_load.hpp"
#include "sim/world/storage_model.hpp"

namespace rtrs::sim {

// Name of the only block device of a world, and number of world sectors per block.
inline constexpr std::string_view kDiskName = "disk";
inline constexpr std::uint32_t kSectorsPerBlock = wire::rnbd::kSectorBytes / kSectorBytes;

struct SectorRequest {
  Direction direction = Direction::read;
  bool service = false;
  std::uint16_t affinity = 0;
  std::uint32_t io = 0;  // request number, the completion's user_data
  std::uint64_t lba = 0;
  std::uint32_t sectors = 0;
  std::span<std::byte> data{};
  RegionId region = kNoRegion;
  std::uint32_t region_offset = 0;
};

class ClientEnd {
 public:
  virtual ~ClientEnd() = default;
  // The session, for observation and for operations other than requests.
  virtual Client& session() noexcept = 0;
  virtual Errc open(Fabric&, Nanos now) = 0;
  virtual Errc submit(Fabric&, Nanos now, const SectorRequest&) = 0;
  virtual std::size_t poll(Fabric&, Nanos now, std::span<IoCompletion>) = 0;
  virtual Nanos next_deadline() const noexcept = 0;
  virtual Nanos next_timer() const noexcept = 0;
  virtual bool take_news(PathEvent&) = 0;
  virtual void close(Fabric&, Nanos now) = 0;
  virtual bool closed() const noexcept = 0;
  // Maximum number of READs of the session in flight while the user has `reads` reads in flight.
  virtual std::uint64_t most_reads(std::uint32_t reads) const noexcept = 0;
  // Text of the violated rule of this end; nullptr if none is violated. The recorder checks the invariants of
  // the state machines.
  virtual const char* broken() const noexcept { return nullptr; }
  // Application that submits its own requests to block devices; nullptr if there is none. If there is one,
  // poll() records the completions in the application's DiskBook and returns their number.
  virtual DiskLoad* disks() noexcept { return nullptr; }
};
std::unique_ptr<ClientEnd> make_raw_client(const ClientOptions&, Recorder*);
std::unique_ptr<ClientEnd> make_block_client(const ClientOptions&, Recorder*);
struct DiskUser {
  DiskBook& book;
  Disks& disks;
  ChoiceSource& choice;
  std::vector<std::string> names;
  const Net& network;  // source of the virtual time
  std::uint32_t max_requests = 65536;
};
struct DiskHost {
  Disks& disks;
  const Net& network;
  std::uint32_t actions = 64;  // maximum number of actions per poll
};
std::unique_ptr<ClientEnd> make_disks_client(const ClientOptions&, Recorder*, const DiskUser&);

// Receives the requests of a server and executes them.
class ServerUser {
 public:
  virtual ~ServerUser() = default;
  virtual void session_opened(std::uint16_t session, std::string_view name) = 0;
  virtual void session_closed(std::uint16_t session) = 0;
  // Called when a server without block layer receives a request.
  virtual void raw_request(const ServerEvent&) = 0;
  // Called when a block server receives a request.
  virtual void block_request(const block::StartStorage&) = 0;
};

class ServerEnd {
 public:
  virtual ~ServerEnd() = default;
  virtual const Server& transport() const noexcept = 0;
  virtual Errc listen(Fabric&, Nanos now) = 0;
  // Returns the number of events. Call hand_out() before any other function except take_news().
  virtual std::size_t poll(Fabric&, Nanos now) = 0;
  virtual void hand_out(Fabric&, Nanos now, ServerUser&) = 0;
  virtual Nanos next_deadline() const noexcept = 0;
  virtual bool take_news(PathEvent&) = 0;
  // Completes a request that ServerUser received.
  virtual void respond(Fabric&, Nanos now, const StorageModel::Op&, std::uint16_t error) = 0;
  virtual Errc disconnect_path(Fabric&, Nanos now, std::uint16_t session, unsigned path) = 0;
  virtual void close_session(Fabric&, Nanos now, std::uint16_t session) = 0;
  virtual void close(Fabric&, Nanos now) = 0;
  virtual bool closed() const noexcept = 0;
  // Block server: true if the session's client has sent its RNBD version.
  virtual bool knows_version(std::uint16_t) const noexcept { return false; }
  virtual const char* broken() const noexcept { return nullptr; }
  // Disk server: processes the storage operations that are due.
  virtual void storage_due(Fabric&, Nanos /*now*/) {}
};
std::unique_ptr<ServerEnd> make_raw_server(const ServerConfig&, Recorder*);
// `life`: number of server processes that this node ran before. Device ids depend on it, so that they differ
// between the processes. `sectors`: disk size in world sectors.
std::unique_ptr<ServerEnd> make_block_server(const ServerConfig&, Recorder*, unsigned life,
                                             std::uint32_t sectors);
std::unique_ptr<ServerEnd> make_disks_server(const ServerConfig&, Recorder*, unsigned life, const DiskHost&);

}  // namespace rtrs::sim
