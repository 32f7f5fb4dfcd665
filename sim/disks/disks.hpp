// What a block server keeps its exports on: disks in memory whose caches can be lost, and storage that takes
// its time. The disks outlive the server's process. What happens to one is told to the book of the
// application that uses it (disk_book.hpp).
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

// "EIO (errno 5)"; "success" for 0.
std::string errno_text(std::uint16_t error);

inline constexpr std::size_t kDiskSector = wire::rnbd::kSectorBytes;
inline constexpr std::uint32_t kMostZeroes = 1U << 16;  // sectors that one write-zeroes may have

// An export of the server. It outlives the server's process.
struct BlockDisk {
  std::uint32_t number = 0;  // in what is written to it
  // Disks with the same one are parts of one export and have one cache: a sync of one that fails loses what
  // is cached of all.
  std::uint32_t export_id = 0;
  DiskBook* book = nullptr;  // of the application that uses it; never null
  bool writable = true;      // false: refused when it is opened for writing
  // The server is back before it: until then it refuses to open the disk with this errno; 0: it does not.
  std::uint16_t absent = 0;
  Nanos absent_until = kNever;
  bool volatile_cache = true;
  bool fua = true;                        // a single write can be made durable, where there is a cache
  bool memory = false;                    // of the server's process, and gone with it
  unsigned exchanged = 0;                 // times that another, empty one was put in its place
  std::uint32_t block = kDiskSector;      // bytes
  std::uint32_t most_discard = 1U << 16;  // sectors; 0: it cannot
  bool tells_instance = true;             // of its cache, when it is opened
  std::vector<std::uint64_t> now;         // by sector: what a read sees; see DiskBook::stamp()
  std::vector<std::uint64_t> durable;     // and after the death of the server's host
  std::vector<bool> forgotten;            // the host takes it for clean, since a sync of it failed
  std::uint64_t sync_failures = 0;        // that the server's process knows of
  bool failure_untold = false;            // a sync failed, and the server has not said so yet
  // By sector: the moment when a process died that alone knew of the failed sync which lost it.
  std::vector<std::uint64_t> lost_unknown_at;
  bool next_sync_fails = false;
  bool fails_beside_open = false;  // and with it the opening of another part of the export ends
  // An operator may do so: when a part of a larger change has ended well, the rest finds another cache.
  bool replaceable = false;
  bool is_replaced_amid_write = false;
  // What happens to it as soon as its server runs: a flush by another session fails, an operator takes it
  // away.
  bool sync_elsewhere_fails = false, is_to_be_taken_away = false;
  bool may_alarm = false;        // something may have been lost, and no flush of after it has told so
  std::uint64_t alarm_from = 0;  // the moment when it may have been lost
  std::uint64_t alarm_at = 0;    // the moment when the last flush told so
  // What was flushed may be gone too.
  bool forgets() const noexcept { return memory || exchanged != 0; }
  unsigned holders = 0;          // exports that are open
  std::uint64_t operations = 0;  // that acted on it
  Nanos opened_at = 0;           // the last time
  unsigned openings = 0;         // that were answered
  unsigned caches = 0;           // instances of its cache that another one followed in an answer
  std::uint64_t instance = 0;    // that was told, the last time; 0: none
  rnbd::Geometry geometry;       // that was told, the last time; its size may have changed since
  Nanos damaged_at = kNever;     // when a sync of it failed, or its server learnt so, the last time
};

// Of the server. With its process die the memory disks and what it knew, with its host also what was cached.
enum class Death : std::uint8_t { process, host };

const char* text_of(Opcode) noexcept;

class Disks {
 public:
  using Fail = std::function<void(const std::string&)>;
  // A running server. `now` is virtual time, `clock` that of the server's node.
  struct Host {
    BlockServer& server;
    Fabric& fabric;
    Nanos now = 0;
    Nanos clock = 0;
  };

  // An operation takes up to `storage`; an export takes up to `opening` until it is open, 0: it is at once.
  Disks(ChoiceSource&, Nanos storage, Nanos opening, Fail);
  Disks(const Disks&) = delete;
  Disks& operator=(const Disks&) = delete;

  BlockDisk& add(const std::string& name, std::uint64_t sectors, DiskBook&);
  // From now on both are parts of one export.
  void join(const std::string& name, const std::string& other) { at(name).export_id = at(other).export_id; }
  BlockDisk& at(const std::string& name) { return disks_.at(name); }
  const std::map<std::string, BlockDisk>& all() const noexcept { return disks_; }

  // What the server asks for.
  void perform(const Host&, const block::Action&);
  // What storage has done by now.
  void due(const Host&);
  Nanos next_time() const noexcept;
  // Once the server has handed out all that it had.
  void check_measured();
  // The server's process has died.
  void crash(Death, Nanos now);

  // A flush by another session of the server fails, and with it everything that is not durable yet. `server`:
  // null while none runs.
  void fail_sync(const std::string& name, BlockServer* server, Nanos now);
  // An operator of the server takes the disk away from its session.
  void take_away(const Host&, const std::string& name);
  // The next sync of the disk takes long and fails, and an operator takes the other parts of its export away.
  // It fails at the moment when one of them is open again.
  void fail_beside_open(BlockDisk&);
  bool is_shared(const BlockDisk&);
  // At any time, also under IO. What is cut off is lost; what is added reads as zeroes.
  void resize(const std::string& name, std::uint64_t sectors);

  // While no server runs. An empty disk takes the place of the export's; the same disk is of another size; it
  // has other blocks and limits.
  void exchange(const std::string& name);
  void reshape(BlockDisk&);

  // Every disk may be written, and nothing that was to happen to one does any more.
  void calm();
  // The server refuses to open the disk with this errno for as long; 0: no longer.
  void keep_away(const std::string& name, std::uint16_t error, Nanos until);
  // An errno that may pass.
  static std::uint16_t draw_absence(ChoiceSource&);

  std::size_t under_way() const noexcept { return storage_.size(); }
  unsigned sessions() const noexcept { return sessions_; }
  // Nothing is open, and nothing under way.
  bool idle() const noexcept {
    return sessions_ == 0 && exports_.empty() && storage_.empty() && openings_.empty();
  }
  // Where to say what happens to disks, for people; empty: nowhere.
  void tell(Fail note) { note_ = std::move(note); }
  template <class Text>
  void note(Text&& text) const {
    if (note_) note_(text());
  }
  unsigned deaths() const noexcept { return deaths_; }  // of servers
  unsigned cuts() const noexcept { return cuts_; }      // of disks that became shorter
  // Counts what applications do and learn.
  std::uint64_t moment() const noexcept { return moment_; }
  std::uint64_t next_moment() noexcept { return ++moment_; }
  void allow_alarm(BlockDisk&);

 private:
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
    bool sync_failed = false;  // that is the error
    bool acted = false;        // and the answer is under way
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
  bool is_stuck_beside(const StorageOp&, const Opening&) const;
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
  // The parts of the export that the disk is of.
  template <class Do>
  void each_part(const BlockDisk& one, Do&& act) {
    for (auto& [name, disk] : disks_)
      if (disk.export_id == one.export_id) act(name, disk);
  }
  void revert(const std::string& name, BlockDisk&);
  int act(StorageOp&, Nanos now);
  int sync(const std::string& name, Nanos now);

  ChoiceSource& choice_;
  Nanos storage_time_, opening_time_;
  Fail fail_, note_;
  std::map<std::string, BlockDisk> disks_;
  std::vector<DiskBook*> books_;             // of all disks, each once
  std::map<std::uint64_t, Export> exports_;  // by handle
  std::vector<StorageOp> storage_;
  std::vector<Opening> openings_;
  std::vector<block::OpId> reported_;  // ended, and to be reported once more
  unsigned sessions_ = 0;              // of the server, that are open
  std::uint64_t next_handle_ = 1;
  std::uint64_t moment_ = 0;
  unsigned deaths_ = 0;
  unsigned cuts_ = 0;
  unsigned hosts_ = 1;  // that there were
};

}  // namespace rtrs::sim
