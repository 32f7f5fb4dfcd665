// Block devices over the simulated network: one client with its RNBD machine, one server with its exports,
// and the drivers between them, on two paths. What a scenario asks for is done at once; what takes time is
// waited for in virtual time.
//
// One IO at a time touches a sector, so that its content is known: every sector that is written carries the
// disk, the sector and the number of the IO. Rules that are checked at all times:
//   - a read returns what the last good write left, zeroes where nothing was written or all was taken away
//   - no IO reaches another disk than the one that it is for, none a disk that nobody holds open
//   - what was written with FUA, or before a flush that succeeded, survives the death of the server
//   - a flush that succeeds means that every change survives that was acknowledged through the same mapping
//     before it, unless an earlier flush told that some do not; none says so for the death of the server's
//     process alone
//   - a disk opened read-only does not change
//   - nothing is left open when the session is gone, nor a device that was open when it was unmapped
//   - storage sees a request as it was made, nothing new of a device that was taken away, and no request
//   twice
//     unless a path, a server or a cache was lost in between
//   - a request waits for a path for queue_timeout and no longer; the server's ENOTCONN is not the end of one
//     unless its device was taken away again and again
//   - changes are said to be lost only when there were some that no flush had covered
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/driver/block_client.hpp"
#include "core/driver/block_server.hpp"
#include "sim/choices/choice.hpp"
#include "sim/network/network.hpp"
#include "sim/network/sim_fabric.hpp"
#include "sim/oracles/pathless_wait.hpp"

namespace rtrs::sim {

using rnbd::DeviceHandle;
using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;

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

// An export of the server. It outlives the server's process.
struct BlockDisk {
  std::uint32_t number = 0;  // in what is written to it
  bool writable = true;      // false: refused when it is opened for writing
  bool volatile_cache = true;
  bool fua = true;                     // a single write can be made durable, where there is a cache
  bool memory = false;                 // of the server's process, and gone with it
  bool tells_instance = true;          // of its cache, when it is opened
  std::vector<std::uint64_t> now;      // by sector: what a read sees; see BlockWorld::stamp()
  std::vector<std::uint64_t> durable;  // and after the death of the server's host
  std::vector<bool> forgotten;         // the host takes it for clean, since a sync of it failed
  std::uint64_t sync_failures = 0;     // that the server's process knows of
  // By sector: the moment when a process died that alone knew of the failed sync which lost it.
  std::vector<std::uint64_t> lost_unknown_at;
  bool next_sync_fails = false;
  bool may_alarm = false;        // something may have been lost, and no flush of after it has told so
  std::uint64_t alarm_from = 0;  // the moment when it may have been lost
  std::uint64_t alarm_at = 0;    // the moment when the last flush told so
  unsigned holders = 0;          // exports that are open
  std::uint64_t operations = 0;  // that acted on it
  Nanos opened_at = 0;           // the last time
  Nanos damaged_at = kNever;     // when a sync of it failed, or its server learnt so, the last time
};

// Of the server. With its process die the memory disks and what it knew, with its host also what was cached.
enum class Death : std::uint8_t { process, host };

class BlockWorld {
 public:
  BlockWorld(std::uint64_t seed, const BlockOptions&);
  ~BlockWorld();
  BlockWorld(const BlockWorld&) = delete;
  BlockWorld& operator=(const BlockWorld&) = delete;

  static constexpr std::size_t kSector = 512;
  static constexpr std::uint32_t kPaths = 2;

  // --- what a scenario does ---
  BlockDisk& add_disk(const std::string& name, std::uint64_t sectors);
  BlockDisk& disk(const std::string& name) { return disks_.at(name); }
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
  bool overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const;
  // max_requests is not reached.
  bool has_room() const { return client_->under_way() < options_.max_requests; }
  void cut(std::uint32_t path);
  void heal(std::uint32_t path);
  void break_path(std::uint32_t path);
  // With the host: what was not durable is lost or not, sector by sector.
  void crash_server(Death = Death::host);
  // A flush by another session of the server fails, and with it everything that is not durable yet.
  void fail_sync(const std::string& name);
  void close_session();
  // The server's process stands still for as long.
  void pause_server(Nanos time) { server_paused_until_ = now() + time; }
  // It ends by itself, as for an update, and another process takes its place.
  void replace_server();
  // An operator of the server takes the disk away from its session.
  void take_away(const std::string& name);
  // At any time, also under IO. What is cut off is lost; what is added reads as zeroes.
  void resize(const std::string& name, std::uint64_t sectors);

  // --- waiting ---
  // Until `done`, for ten virtual minutes at most; then the run has failed. False when it has.
  bool until(const std::string& what, const std::function<bool()>& done);
  void pass(Nanos);
  bool all_over() const noexcept { return ios_under_way_ == 0; }
  bool is_over(std::uint32_t io) const { return ios_.at(io).over; }
  // Of one that is over: 0 or an errno.
  std::uint16_t result(std::uint32_t io) const { return ios_.at(io).error; }
  rnbd::DeviceState state(DeviceHandle device) const { return client_->state(device); }
  const rnbd::Geometry* geometry(DeviceHandle device) const { return client_->geometry(device); }
  // Why the device was refused, or ended, the last time.
  std::uint16_t refusal(DeviceHandle device) const;
  unsigned times_opened(DeviceHandle device) const;
  // For requests that the world does not judge: their `user_data` is 0.
  BlockClient& client() { return *client_; }
  Fabric& client_fabric() { return *client_fabric_; }
  // Results of those, oldest first.
  std::deque<BlockCompletion>& unjudged() { return unjudged_; }
  bool link_up() const { return client_->session().link_up(); }
  bool closed() const { return client_->closed(); }
  const BlockOptions& options() const { return options_; }
  void unmap_all();
  // Of a disk that was unmapped after losses() said so: nobody holds it open any more.
  void until_closed(const std::string& name, std::uint64_t losses);
  // Of paths, servers and caches.
  std::uint64_t losses() const noexcept { return losses_noted_; }
  // Everything is closed, and nothing is left of it.
  void finish();

  void expect(bool holds, const std::string& what);
  bool failed() const noexcept { return !failure_.empty(); }
  const std::string& failure() const noexcept { return failure_; }
  Nanos now() const noexcept { return network_.now(); }
  std::uint32_t draw(std::uint32_t n) { return choice_.draw(n, Label::workload); }
  std::uint64_t hash() const noexcept { return network_.hash(); }
  std::uint64_t ios() const noexcept { return ios_.size() - 1; }
  unsigned storage_under_way() const noexcept { return static_cast<unsigned>(storage_.size()); }
  unsigned messages_under_way() const noexcept { return client_->messages_in_flight(); }

 private:
  struct Io {
    DeviceHandle device = 0;
    std::string disk;
    rnbd::IoPiece piece;
    std::vector<std::byte> data;
    std::vector<std::uint64_t>
        seen;                  // of a flush: `changes` of the sectors that nothing changed when it began
    std::uint64_t moment = 0;  // when it was submitted
    unsigned deaths = 0;       // of servers, when it was submitted
    unsigned cuts = 0;         // of disks, when it was submitted
    std::uint64_t losses = 0;  // noted until then
    Nanos submitted = 0;
    std::uint16_t error = 0;
    bool over = false;
  };
  struct Mapped {
    std::string disk;
    AccessMode mode = AccessMode::read_write;
    std::uint16_t refusal = 0;
    unsigned opened = 0;
    unsigned disruptions = 0;  // of the disk, since an IO that was submitted after them ended well
    Nanos disrupted = 0;       // the last time
    bool unmapped = false;     // by its user
    // When changes ended that are not durable by themselves and that no flush covers, see `moment_`.
    std::vector<std::uint64_t> unflushed;
  };
  // What the application may find in a sector.
  struct Expected {
    std::vector<std::uint64_t> any_of;
    bool durable = true;
    std::uint64_t changes = 0;  // that began, ended well, or were lost with the server
    std::uint64_t acked = 0;    // the moment when the last change ended well; 0: durable, or not known
    DeviceHandle by = 0;        // of that change
  };
  // A change that was acknowledged at one moment, lost, and told by a flush that failed at another.
  struct Loss {
    DeviceHandle device = 0;  // that it was made through
    std::uint64_t acked = 0;
    unsigned deaths = 0;  // of servers, with the one that lost it
    std::uint64_t told = ~std::uint64_t{0};
  };
  struct Export {
    std::string disk;
    bool writable = false;
    bool taken_away = false;
    bool shrunk = false;  // storage said so, and the server has not measured it since
  };
  struct Opening {
    Nanos due = 0;
    block::OpId id{};
    std::string disk;
    AccessMode mode = AccessMode::read_only;
  };
  struct StorageOp {
    Nanos due = 0;
    block::StartStorage what;
    int error = 0;
    bool acted = false;  // and the answer is under way
  };

  bool step();
  bool server_runs() const noexcept { return server_ != nullptr && server_paused_until_ <= now(); }
  Nanos next_time();
  void check_idle(Nanos until);
  void note_loss();
  void disrupt(Mapped&);
  // block_client.cpp
  void poll_client();
  void take_events();
  void end_io(const BlockCompletion&);
  void check_waits();
  void check_closing();
  void judge_result(const Io&, const BlockCompletion&);
  void note_changes(const Io&, std::uint16_t error);
  void judge_replaced(const rnbd::CacheReplaced&);
  void judge_read(const Io&, std::uint32_t number);
  void expect_change(const Io&, std::uint32_t number, bool good);
  void judge_flush(const Io&, std::uint16_t error);
  void judge_alarm(const Io&);
  void allow_alarm(BlockDisk&);
  void lose(const std::string& disk, std::size_t sector);
  // block_server.cpp
  void poll_server();
  void perform(const block::StartStorage&);
  void judge_request(const block::StartStorage&, const std::string& disk);
  void perform(const block::OpenExport&);
  void perform(const block::CloseExport&);
  void perform(const block::MeasureExport&);
  void perform(const block::CacheDamaged&);
  void perform(const block::SessionOpened&) { ++sessions_; }
  void perform(const block::SessionRefused&) { expect(false, "there is memory for a session"); }
  void perform(const block::SessionClosed&);
  void finish_opening(const Opening&);
  void openings_due();
  std::uint64_t instance_of(const BlockDisk&) const;
  void forget_unsynced(const std::string& name);
  void revert(const std::string& name, BlockDisk&);
  void storage_due();
  int act(StorageOp&);
  int sync(const std::string& name);

  // What a sector holds after IO `number` wrote it; 0: zeroes.
  static std::uint64_t stamp(std::uint32_t disk, std::uint64_t sector, std::uint32_t number) {
    return std::uint64_t{disk} << 56 | (sector & 0xffffff) << 32 | number;
  }

  BlockOptions options_;
  SeededChoice choice_;
  Network network_;
  std::map<std::string, BlockDisk> disks_;
  std::map<std::string, std::vector<Expected>> expected_;
  std::map<std::string, std::vector<Loss>> losses_;
  std::uint64_t moment_ = 0;  // counts what the application does and learns
  std::string failure_;

  std::unique_ptr<SimFabric> client_fabric_;
  std::unique_ptr<BlockClient> client_;
  std::map<DeviceHandle, Mapped> mapped_;
  std::vector<Io> ios_{1};  // by number
  unsigned ios_under_way_ = 0;
  std::deque<BlockCompletion> unjudged_;
  PathlessWait without_path_;
  Nanos pathless_until_ = 0;  // the last time that a path came back

  std::unique_ptr<SimFabric> server_fabric_;
  std::unique_ptr<BlockServer> server_;
  unsigned sessions_ = 0;                    // of the server, that are open
  std::map<std::uint64_t, Export> exports_;  // by handle
  std::vector<StorageOp> storage_;
  std::vector<Opening> openings_;
  Nanos server_paused_until_ = 0;
  // Parts of IOs that storage has done since the last loss, by number and sector.
  std::set<std::pair<std::uint32_t, std::uint64_t>> done_;
  std::uint64_t losses_noted_ = 0;  // of paths, servers and caches
  Nanos last_loss_ = 0;
  std::uint64_t next_handle_ = 1;
  std::uint32_t generation_ = 0;
  unsigned deaths_ = 0;  // of servers
  unsigned cuts_ = 0;    // of disks that became shorter
  unsigned hosts_ = 1;   // that there were
  std::uint64_t steps_at_once_ = 0;
};

}  // namespace rtrs::sim
