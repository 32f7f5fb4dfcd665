// A world with block devices that test code drives step by step: one client with two paths to one server and
// its exports. Actions are executed at once; waits advance virtual time. DiskBook (sim/disks/disk_book.hpp)
// judges the disks; World judges sessions, links and the network.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "sim/world/world.hpp"

namespace rtrs::sim {

struct BlockOptions {
  std::uint16_t depth = 8;          // number of permits
  Nanos queue_timeout = kNever;     // ClientConfig::queue_timeout
  Nanos storage = milliseconds(1);  // maximum duration of a storage operation
  std::uint32_t post_short = 0;     // probability per million that post() accepts only part of its work
  std::uint32_t max_requests = 65536;
  Nanos opening = 0;               // maximum time to open an export; 0: immediate
  Nanos request_timeout = kNever;  // ClientConfig::request_timeout
  std::uint32_t max_queued = 4096;
  std::uint32_t actions = 64;  // maximum number of actions per server poll
  bool operator==(const BlockOptions&) const = default;
};
// Returns the scenario of a world that a BlockWorld drives.
Scenario block_world_of(const BlockOptions&);

class BlockWorld {
 public:
  // `world`: made from a scenario of block_world_of(); must outlive this object.
  explicit BlockWorld(World& world);
  BlockWorld(const BlockWorld&) = delete;
  BlockWorld& operator=(const BlockWorld&) = delete;

  static constexpr std::size_t kSector = kDiskSector;
  static constexpr std::uint32_t kPaths = 2;

  // --- actions ---
  BlockDisk& add_disk(const std::string& name, std::uint64_t sectors);
  BlockDisk& disk(const std::string& name) { return w_.cluster().disks->at(name); }
  void start_server();
  void start_client();
  // Returns the handle, or a negative errno.
  std::int64_t map(const std::string& name, AccessMode mode = AccessMode::read_write);
  void unmap(DeviceHandle);
  void remap(DeviceHandle);
  // Waits until no other IO uses these sectors, then submits the IO. Returns the IO's number.
  std::uint32_t submit(DeviceHandle, Opcode, std::uint64_t sector, std::uint32_t sectors, bool fua = false,
                       bool nounmap = false);
  // True if an IO in flight uses one of the sectors.
  bool overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const {
    return book().overlaps(disk, sector, sectors);
  }
  // True if fewer than max_requests are in flight.
  bool has_room() const { return client().under_way() < load().max_requests; }
  void cut(std::uint32_t path);
  void heal(std::uint32_t path);
  void break_path(std::uint32_t path);
  // With Death::host, each sector that is not durable is lost or kept at random.
  void crash_server(Death = Death::host);
  // Makes a flush by another server session fail. All data of the disk that is not durable is lost.
  void fail_sync(const std::string& name);
  // Makes the next read or change of the disk fail. With `falls_silent`, storage then answers nothing for a
  // while.
  void fail_next_io(const std::string& name, bool falls_silent) {
    w_.cluster().disks->fail_next_io(disk(name), falls_silent);
  }
  void close_session();
  void pause_server(Nanos time);
  void pause_client(Nanos time);
  // Ends the server process in an orderly way, as for an update, and starts a new one.
  void replace_server();
  // Acts as an operator of the server that closes the disk while a session has it open.
  void take_away(const std::string& name);
  // Allowed at any time, even during IO. Data beyond the new size is lost; added sectors read as zeroes.
  void resize(const std::string& name, std::uint64_t sectors) { w_.cluster().disks->resize(name, sectors); }

  // Makes the server refuse to open the disk with this errno for `time`. With error 0, the server accepts
  // again.
  void refuse_opens(const std::string& name, std::uint16_t error, Nanos time = kNever) {
    w_.cluster().disks->refuse_opens(name, error, later(now(), time));
  }

  // --- waiting ---
  // Waits until done() is true. After ten minutes of virtual time, the run fails; the message contains the
  // state that `seen` returns. Returns false if the run has failed.
  bool until(const std::string& what, const std::function<bool()>& done,
             const std::function<std::string()>& seen = {});
  void pass(Nanos);
  std::uint32_t under_way() const noexcept { return book().under_way(); }
  bool all_completed() const noexcept { return under_way() == 0; }
  bool is_over(std::uint32_t io) const { return book().is_over(io); }
  // Result of a completed IO: 0 or an errno.
  std::uint16_t result(std::uint32_t io) const { return book().result(io); }
  rnbd::DeviceState state(DeviceHandle device) const { return client().state(device); }
  const rnbd::Geometry* geometry(DeviceHandle device) const { return client().geometry(device); }
  // Errno with which the server last refused or closed the device.
  std::uint16_t refusal(DeviceHandle device) const { return book().at(device).refusal; }
  unsigned times_opened(DeviceHandle device) const { return book().at(device).opened; }
  // Direct access to the client, for requests with `user_data` 0, which DiskBook does not judge.
  BlockClient& client() const { return node().driver->disks()->client(); }
  Fabric& client_fabric() { return *node().fabric; }
  // Results of the requests that are not judged, oldest first.
  std::deque<BlockCompletion>& unjudged() { return book().unjudged(); }
  bool server_up() const noexcept { return w_.cluster().server.up; }
  bool link_up() const { return client().session().link_up(); }
  bool closed() const { return client().closed(); }
  const WorkloadOptions& load() const { return w_.cluster().scenario.workload; }
  const ServerConfig& server_config() const { return w_.cluster().scenario.server; }
  const ClientConfig& client_config() const { return w_.cluster().scenario.client; }
  void unmap_all();
  // Waits until no session has the disk open. `losses`: value of losses() before the disk was unmapped; a
  // later loss also ends the wait.
  void until_closed(const std::string& name, std::uint64_t losses);
  // Number of lost paths, servers and caches.
  std::uint64_t losses() const noexcept { return book().losses(); }
  // Closes everything and checks that nothing is left.
  void finish();

  void expect(bool holds, const std::string& what);
  // Fails the run with this message.
  void fail(const std::string& seen);
  // Sets the script line for failure messages, for example "line 12 'over'"; empty: none.
  void set_place(std::string place) { place_ = std::move(place); }
  bool failed() const noexcept { return w_.cluster().judge.failed(); }
  const std::string& failure() const noexcept { return w_.cluster().judge.failure().text; }
  Nanos now() const noexcept { return w_.now(); }
  ChoiceSource& choice() noexcept { return w_.cluster().choice; }
  std::uint32_t draw(std::uint32_t n) { return w_.cluster().choice.draw(n, Label::workload); }
  std::uint64_t ios() const noexcept { return book().ios(); }
  unsigned storage_in_flight() const noexcept { return static_cast<unsigned>(w_.cluster().in_storage()); }
  unsigned messages_under_way() const noexcept { return client().messages_in_flight(); }

 private:
  ClientNode& node() const noexcept { return *w_.cluster().clients.front(); }
  DiskBook& book() const noexcept { return *node().disks; }
  void take_events();

  World& w_;
  std::string place_;
};

}  // namespace rtrs::sim
