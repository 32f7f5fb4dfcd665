// A world of block devices that a scenario plays by hand: one client, one server with its exports, two paths.
// What a scenario asks for is done at once; what takes time is waited for in virtual time. What must hold of
// the disks: sim/disks/disk_book.hpp; of sessions, links and the network: what World judges.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "sim/world/world.hpp"

namespace rtrs::sim {

struct BlockOptions {
  std::uint16_t depth = 8;          // permits
  Nanos queue_timeout = kNever;     // of the client's requests
  Nanos storage = milliseconds(1);  // an operation takes up to
  std::uint32_t post_short = 0;     // chance per million
  std::uint32_t max_requests = 65536;
  Nanos opening = 0;               // an export takes up to this until it is open; 0: it is at once
  Nanos request_timeout = kNever;  // of the client's requests
  std::uint32_t max_queued = 4096;
  std::uint32_t actions = 64;  // that one poll of the server may hand out
  bool operator==(const BlockOptions&) const = default;
};
// The world for them, to be driven by a BlockWorld.
Scenario block_world_of(const BlockOptions&);

class BlockWorld {
 public:
  // `world` is of a scenario that block_world_of() made, and has to outlive this.
  explicit BlockWorld(World& world);
  BlockWorld(const BlockWorld&) = delete;
  BlockWorld& operator=(const BlockWorld&) = delete;

  static constexpr std::size_t kSector = kDiskSector;
  static constexpr std::uint32_t kPaths = 2;

  // --- what a scenario does ---
  BlockDisk& add_disk(const std::string& name, std::uint64_t sectors);
  BlockDisk& disk(const std::string& name) { return w_.cluster().disks->at(name); }
  void start_server();
  void start_client();
  // The handle, or an errno as a negative number.
  std::int64_t map(const std::string& name, AccessMode mode = AccessMode::read_write);
  void unmap(DeviceHandle);
  void remap(DeviceHandle);
  // The number of the IO. Waits first until no other IO touches its sectors.
  std::uint32_t submit(DeviceHandle, Opcode, std::uint64_t sector, std::uint32_t sectors, bool fua = false,
                       bool nounmap = false);
  // An IO that is not over touches them.
  bool overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const {
    return book().overlaps(disk, sector, sectors);
  }
  // max_requests is not reached.
  bool has_room() const { return client().under_way() < load().max_requests; }
  void cut(std::uint32_t path);
  void heal(std::uint32_t path);
  void break_path(std::uint32_t path);
  // With the host: what was not durable is lost or not, sector by sector.
  void crash_server(Death = Death::host);
  // A flush by another session of the server fails, and with it everything that is not durable yet.
  void fail_sync(const std::string& name);
  void close_session();
  // The server's process stands still for as long.
  void pause_server(Nanos time);
  // Likewise the client's.
  void pause_client(Nanos time);
  // It ends by itself, as for an update, and another process takes its place.
  void replace_server();
  // An operator of the server takes the disk away from its session.
  void take_away(const std::string& name);
  // At any time, also under IO. What is cut off is lost; what is added reads as zeroes.
  void resize(const std::string& name, std::uint64_t sectors) { w_.cluster().disks->resize(name, sectors); }

  // The server refuses to open it with this errno for as long; 0: no longer.
  void keep_away(const std::string& name, std::uint16_t error, Nanos time = kNever) {
    w_.cluster().disks->keep_away(name, error, later(now(), time));
  }

  // --- waiting ---
  // Until `done`, for ten virtual minutes at most; then the run has failed, and `seen` says what was there
  // instead. False when it has.
  bool until(const std::string& what, const std::function<bool()>& done,
             const std::function<std::string()>& seen = {});
  void pass(Nanos);
  std::uint32_t under_way() const noexcept { return book().under_way(); }
  bool all_over() const noexcept { return under_way() == 0; }
  bool is_over(std::uint32_t io) const { return book().is_over(io); }
  // Of one that is over: 0 or an errno.
  std::uint16_t result(std::uint32_t io) const { return book().result(io); }
  rnbd::DeviceState state(DeviceHandle device) const { return client().state(device); }
  const rnbd::Geometry* geometry(DeviceHandle device) const { return client().geometry(device); }
  // Why the device was refused, or ended, the last time.
  std::uint16_t refusal(DeviceHandle device) const { return book().at(device).refusal; }
  unsigned times_opened(DeviceHandle device) const { return book().at(device).opened; }
  // For requests that the world does not judge: their `user_data` is 0.
  BlockClient& client() const { return node().driver->disks()->client(); }
  Fabric& client_fabric() { return *node().fabric; }
  // Results of those, oldest first.
  std::deque<BlockCompletion>& unjudged() { return book().unjudged(); }
  bool server_up() const noexcept { return w_.cluster().server.up; }
  bool link_up() const { return client().session().link_up(); }
  bool closed() const { return client().closed(); }
  const WorkloadOptions& load() const { return w_.cluster().scenario.workload; }
  const ServerConfig& server_config() const { return w_.cluster().scenario.server; }
  const ClientConfig& client_config() const { return w_.cluster().scenario.client; }
  void unmap_all();
  // Of a disk that was unmapped after losses() said so: nobody holds it open any more.
  void until_closed(const std::string& name, std::uint64_t losses);
  // Of paths, servers and caches.
  std::uint64_t losses() const noexcept { return book().losses(); }
  // Everything is closed, and nothing is left of it.
  void finish();

  void expect(bool holds, const std::string& what);
  // The run has failed.
  void wrong(const std::string& seen);
  // The line of a script that is played, for what goes wrong there: "line 12 'over'"; empty: none is.
  void set_place(std::string place) { place_ = std::move(place); }
  bool failed() const noexcept { return w_.cluster().judge.failed(); }
  const std::string& failure() const noexcept { return w_.cluster().judge.failure().text; }
  Nanos now() const noexcept { return w_.now(); }
  ChoiceSource& choice() noexcept { return w_.cluster().choice; }
  std::uint32_t draw(std::uint32_t n) { return w_.cluster().choice.draw(n, Label::workload); }
  std::uint64_t ios() const noexcept { return book().ios(); }
  unsigned storage_under_way() const noexcept { return static_cast<unsigned>(w_.cluster().in_storage()); }
  unsigned messages_under_way() const noexcept { return client().messages_in_flight(); }

 private:
  ClientNode& node() const noexcept { return *w_.cluster().clients.front(); }
  DiskBook& book() const noexcept { return *node().disks; }
  void take_events();

  World& w_;
  std::string place_;
};

}  // namespace rtrs::sim
