// The disks of a block server: in-memory disks whose caches can be lost, and storage with random latency. The
// disks outlive the server process. Each event of a disk is reported to the DiskBook (disk_book.hpp) of the
// application that uses the disk.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/driver/block_server.hpp"
#include "sim/choices/choice.hpp"

namespace rtrs::sim {

using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;

class DiskBook;

// Returns for example "EIO (errno 5)"; "success" for 0.
std::string errno_text(std::uint16_t error);

inline constexpr std::size_t kDiskSector = wire::rnbd::kSectorBytes;
inline constexpr std::uint32_t kMaxZeroes = 1U << 16;  // maximum number of sectors per write-zeroes

// A server export; outlives the server process.
struct BlockDisk {
  std::uint32_t number = 0;  // disk number in the content of each written sector; see DiskBook::stamp()
  // Disks with the same id are parts of one export with one cache: if a sync of one part fails, cached data
  // of all parts is lost.
  std::uint32_t export_id = 0;
  DiskBook* book = nullptr;  // book of the disk's application; never nullptr
  bool writable = true;      // false: opening for writing is refused
  // Errno with which the server refuses to open the disk until `absent_until`, because the server started
  // before the disk was available; 0: it does not refuse.
  std::uint16_t absent = 0;
  Nanos absent_until = kNever;
  bool volatile_cache = true;
  bool fua = true;         // true: a disk with a cache can make a single write durable
  bool memory = false;     // the content is in the memory of the server process and is lost with it
  unsigned exchanged = 0;  // number of times that an empty disk replaced this one
  std::uint32_t block = kDiskSector;      // block size in bytes
  std::uint32_t most_discard = 1U << 16;  // in sectors; 0: discard is not supported
  bool reports_instance = true;           // reports the instance of its cache when it is opened
  std::vector<std::uint64_t> now;         // indexed by sector: what a read returns; see DiskBook::stamp()
  std::vector<std::uint64_t> durable;     // indexed by sector: content after the server host died
  std::vector<bool> forgotten;            // indexed by sector: the host marked it clean when a sync failed
  std::uint64_t sync_failures = 0;        // number of sync failures that the server process knows of
  bool failure_unreported = false;        // a sync failed, and the server has not reported this failure
  // Indexed by sector: moment when the only process died that knew that a failed sync had lost the sector.
  std::vector<std::uint64_t> lost_unknown_at;
  bool next_sync_fails = false;
  bool fails_during_open = false;  // the next sync fails as soon as another disk of the export is open
  // `replaceable`: an operator may replace the medium in the middle of a large change, so that its first part
  // succeeds and the rest uses another cache. `replaced_during_write`: this is planned for the next such
  // change.
  bool replaceable = false;
  bool replaced_during_write = false;
  // Errno with which the next read or change fails; 0: none. With `falls_silent`, storage then answers
  // nothing until `silent_until`.
  std::uint16_t next_error = 0;
  bool falls_silent = false;
  Nanos silent_until = 0;
  // Planned events, which happen the next time that a server runs: a flush by another session fails; an
  // operator closes the disk.
  bool foreign_sync_fails = false, removal_planned = false;
  bool may_alarm = false;  // something may have been lost, and no flush submitted afterwards has reported it
  std::uint64_t alarm_from = 0;  // moment of the possible loss
  std::uint64_t alarm_at = 0;    // moment when the last flush reported a loss
  // True if flushed data may be lost too.
  bool may_lose_flushed() const noexcept { return memory || exchanged != 0; }
  unsigned holders = 0;          // number of open exports
  std::uint64_t operations = 0;  // number of operations executed on the disk
  Nanos opened_at = 0;           // time of the last opening
  unsigned openings = 0;         // number of answered openings
  unsigned caches = 0;           // number of times that an opening reported a new cache instance
  std::uint64_t instance = 0;    // last reported instance; 0: none
  rnbd::Geometry geometry;       // last reported geometry; the size may have changed since
  Nanos damaged_at = kNever;     // time of the last failed sync, or when the server learned of it
};

// How the server dies. The death of the process loses the memory disks and the knowledge of the process; the
// death of the host also loses cached data.
enum class Death : std::uint8_t { process, host };

const char* text_of(Opcode) noexcept;

class Disks {
 public:
  using Fail = std::function<void(const std::string&)>;
  // A running server. `now` is virtual time, `clock` the server node's clock.
  struct Host {
    BlockServer& server;
    Fabric& fabric;
    Nanos now = 0;
    Nanos clock = 0;
  };

  // `storage`: maximum time of an operation. `opening`: maximum time to open an export; 0: immediate.
  Disks(ChoiceSource&, Nanos storage, Nanos opening, Fail);
  Disks(const Disks&) = delete;
  Disks& operator=(const Disks&) = delete;

  BlockDisk& add(const std::string& name, std::uint64_t sectors, DiskBook&);
  // Makes both disks parts of one export.
  void join(const std::string& name, const std::string& other) { at(name).export_id = at(other).export_id; }
  BlockDisk& at(const std::string& name) { return disks_.at(name); }
  const std::map<std::string, BlockDisk>& all() const noexcept { return disks_; }

  // Executes a server action.
  void perform(const Host&, const block::Action&);
  // Completes the operations that are due.
  void due(const Host&);
  Nanos next_time() const noexcept;
  // Called when the server has handed out all its actions. Checks that it has measured every export that
  // became too short for an IO, and that it has answered each request that waits for nothing.
  void check_answers(const BlockServer&);
  // Called when the server process has died.
  void crash(Death, Nanos now);

  // Makes a flush by another server session fail. All data of the disk that is not durable is lost. `server`:
  // nullptr if none is running.
  void fail_sync(const std::string& name, BlockServer* server, Nanos now);
  // Acts as an operator of the server that closes the disk while a session has it open.
  void take_away(const Host&, const std::string& name);
  // Makes the next read or change fail with a drawn errno.
  void fail_next_io(BlockDisk&, bool falls_silent);
  // Closes the other disks of the same export and makes the next sync of this disk slow. The sync fails when
  // one of the other disks is open again.
  void fail_sync_during_open(BlockDisk&);
  bool is_shared(const BlockDisk&);
  // Allowed at any time, even during IO. Data beyond the new size is lost; added sectors read as zeroes.
  void resize(const std::string& name, std::uint64_t sectors);

  // Call these only while no server runs. exchange() puts an empty disk behind the export; reshape() changes
  // blocks and the disk's limits.
  void exchange(const std::string& name);
  void reshape(BlockDisk&);

  // Makes all disks writable and cancels all planned events.
  void calm();
  // Makes the server refuse to open the disk with this errno until `until`. With error 0, the server accepts
  // again.
  void refuse_opens(const std::string& name, std::uint16_t error, Nanos until);
  // Draws the errno of a temporary refusal.
  static std::uint16_t draw_open_errno(ChoiceSource&);

  std::size_t under_way() const noexcept { return storage_.size(); }
  unsigned sessions() const noexcept { return sessions_; }
  // True if nothing is open and no operation is in flight.
  bool idle() const noexcept {
    return sessions_ == 0 && exports_.empty() && storage_.empty() && openings_.empty();
  }
  // Sets the function that receives descriptions of disk events; empty: none.
  void set_note(Fail note) { note_ = std::move(note); }
  template <class Text>
  void note(Text&& text) const {
    if (note_) note_(text());
  }
  unsigned deaths() const noexcept { return deaths_; }  // number of server deaths
  unsigned cuts() const noexcept { return cuts_; }      // number of times that a disk was shortened
  // Logical clock: counts the actions and observations of applications.
  std::uint64_t moment() const noexcept { return moment_; }
  std::uint64_t next_moment() noexcept { return ++moment_; }
  void allow_alarm(BlockDisk&);

 private:
  struct Export {
    std::string disk;
    bool writable = false;
    bool taken_away = false;
    bool shrunk = false;  // an IO failed beyond the end, and the server has not measured the export since
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
    std::uint64_t serial = 0;
    int error = 0;
    bool sync_failed = false;  // `error` is that of a failed sync
    bool acted = false;        // executed; the answer is in flight
  };

  // A successful sync. The server answers it when all syncs have ended that had begun before its success.
  struct SettlingSync {
    std::uint64_t handle = 0;
    std::vector<std::uint64_t> others;  // serials of these syncs
    // False: when the sync succeeded, the server still had actions to hand out, so it may wait for further
    // syncs.
    bool known = true;
  };

  void expect(bool holds, const std::string& what) const {
    if (!holds) fail_(what);
  }
  void perform(const Host&, const block::StartStorage&);
  void perform(const Host&, const block::OpenExport&);
  void perform(const Host&, const block::CloseExport&);
  void perform(const Host&, const block::MeasureExport&);
  void perform(const Host&, const block::CacheDamaged&);
  void perform(const Host&, const block::SessionOpened&) { ++sessions_; }
  void perform(const Host&, const block::SessionRefused&) { expect(false, "there is memory for a session"); }
  void perform(const Host&, const block::SessionClosed&);
  bool blocks_opening(const StorageOp&, const Opening&) const;
  void finish_opening(const Host&, const Opening&);
  void operator_due(const Host&);
  void openings_due(const Host&);
  void storage_due(const Host&);
  void repeat_results(const Host&);
  std::uint64_t instance_of(const BlockDisk&) const;
  static rnbd::Geometry geometry_of(const BlockDisk&);
  static void note_opening(BlockDisk&, std::uint64_t instance);
  void forget_unsynced(const std::string& name, Nanos now);
  void forget_unsynced(const std::string& name, BlockDisk&, Nanos now);
  // Calls `act` for each disk of the same export.
  template <class Do>
  void each_part(const BlockDisk& one, Do&& act) {
    for (auto& [name, disk] : disks_)
      if (disk.export_id == one.export_id) act(name, disk);
  }
  void revert(const std::string& name, BlockDisk&);
  int act(StorageOp&, Nanos now);
  // Returns the errno of a planned failure; 0: none.
  std::uint16_t planned_error(const StorageOp&, BlockDisk&, Nanos now);
  static bool is_sync(const block::StartStorage&);
  void note_end(const StorageOp&, bool all_handed_out);
  void check_settling(const rnbd::ServerDevices&);
  int sync(const std::string& name, Nanos now);

  ChoiceSource& choice_;
  Nanos storage_time_, opening_time_;
  Fail fail_, note_;
  std::map<std::string, BlockDisk> disks_;
  std::vector<DiskBook*> books_;             // books of all disks, each once
  std::map<std::uint64_t, Export> exports_;  // keyed by handle
  std::vector<StorageOp> storage_;
  std::vector<Opening> openings_;
  std::vector<SettlingSync> settling_;
  std::uint64_t serial_ = 0;           // number of storage operations so far
  bool answers_due_ = false;           // an operation has ended since the last check_answers()
  std::vector<block::OpId> reported_;  // completed operations, whose results are reported a second time
  unsigned sessions_ = 0;              // number of open server sessions
  std::uint64_t next_handle_ = 1;
  std::uint64_t moment_ = 0;
  unsigned deaths_ = 0;
  unsigned cuts_ = 0;
  unsigned hosts_ = 1;  // number of hosts so far
};

}  // namespace rtrs::sim
