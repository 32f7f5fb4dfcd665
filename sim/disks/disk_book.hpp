// The books of one application over block devices: its IO, and what it may find in the disks that only it
// uses.
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
//   - storage sees a request as it was made, nothing new of a device that was taken away, and no request
//     twice unless a path, a server or a cache was lost in between, or the device was opened anew between a
//     change and the flush that makes it durable
//   - a request waits for a path, and for its device to be open, for queue_timeout and no longer; the
//   server's ENOTCONN is not the end of one
//     unless its device was taken away again and again
//   - a request for a device that the server refuses waits for queue_timeout and no longer where the reason
//   may
//     pass, however busy other devices are
//   - a device that the server refused is tried again after 1 s, and after twice as long each time that no
//     device opened in between, after 15 s at most
//   - a client knows its device as the server opened it, with a whole number of blocks
//   - a request is made for the blocks and limits that its device had when it was opened the last time; no
//     message of it is larger than they allow
//   - while the link is up and no request is at the server, a device that is not open is asked for again
//     after a quarter of a second
//   - changes are said to be lost only when there were some that no flush had covered
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/driver/block_client.hpp"
#include "sim/disks/disks.hpp"
#include "sim/oracles/pathless_wait.hpp"

namespace rtrs::sim {

using rnbd::DeviceHandle;

class DiskBook {
 public:
  // The disks have to outlive the book.
  DiskBook(Disks&, const ClientConfig&, Disks::Fail);
  DiskBook(const DiskBook&) = delete;
  DiskBook& operator=(const DiskBook&) = delete;

  struct Mapped {
    std::string disk;
    AccessMode mode = AccessMode::read_write;
    std::uint16_t refusal = 0;  // why the server refused it, or ended it, the last time
    unsigned opened = 0;        // times
    // Of the disk, since an IO that was submitted after them ended well, or the server refused it.
    unsigned disruptions = 0;
    Nanos disrupted = 0;     // the last time
    Nanos unknown = kNever;  // to the server, whose session ended; until an IO submitted later ends well
    Nanos refused = 0;       // it was known to be, the last time, by the clock of the client's node
    Nanos refused_since = kNever;  // the first time since it was open; kNever: it is not refused
    bool unmapped = false;         // by its user
    // When changes ended that are not durable by themselves and that no flush covers, see Disks::moment().
    std::vector<std::uint64_t> unflushed;
    std::uint64_t replaced = 0;  // when its client said the last time that changes may be lost
  };

  // --- what the application does ---
  // The client, that has just been made. Borrowed.
  void begins(BlockClient& client) { client_ = &client; }
  // Its process dies: what it had under way may still act, until the server has closed its session or died
  // too, and nobody will be told of losses.
  void dies();
  void session_closed(Nanos now);
  void map_began(const rnbd::MapOutcome&, const std::string& disk, AccessMode);
  void mapped(DeviceHandle, const std::string& disk, AccessMode);
  void unmapped(DeviceHandle device) { mapped_[device].unmapped = true; }
  // An IO that is not over touches the sectors.
  bool overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const;
  // The next IO, of sectors that no other touches. `clock`: of the client's node.
  BlockRequest open(DeviceHandle, Opcode, std::uint64_t sector, std::uint32_t sectors, bool fua, bool nounmap,
                    Nanos now, Nanos clock);
  // What the client said to it.
  void taken(Errc result) const {
    expect(result == Errc::ok, std::string("the client takes an IO, and says ") + to_string(result));
  }

  // --- what the client says ---
  // `clock`: of the client's node; `now`: virtual time. A request whose `user_data` is 0 is not judged: its
  // result is kept in unjudged(), oldest first.
  void over(const BlockCompletion&, Nanos clock);
  void event(const BlockEvent&, Nanos now);
  void polls(Nanos clock);
  void polled() { had_path_ = client_->session().link_up(); }
  // Before a poll, which fails what is overdue.
  void check_waits(Nanos clock);
  void check_closing();

  // --- what happens to the disks, told by Disks ---
  void added(const std::string& disk, std::uint64_t sectors);
  void resized(const std::string& disk, std::uint64_t sectors);
  void reverted(const std::string& disk, std::size_t sector, std::uint64_t content);
  // What a change had left in the sector, and no flush made durable.
  void lost(const std::string& disk, std::size_t sector);
  // Only a process that died knew that changes of the disk were lost.
  void losses_unknown(const std::string& disk);
  void taken_away(const std::string& disk, Nanos now);
  void server_died(Nanos now);
  // A path, a server or a cache was lost: what it had may be asked for again, and its messages may be under
  // way for some time.
  void something_lost(Nanos now);
  void judge_request(const block::StartStorage&, const std::string& disk, Nanos now);
  void served(const block::StartStorage& what) {
    if (what.opcode != Opcode::flush)
      ++done_[{what.prio, what.sector}];
    else if (what.prio < ios_.size())
      ios_[what.prio].synced = disks_.moment();
  }

  // A change whose request goes on in other messages.
  bool is_part(const block::StartStorage&) const;

  // --- to look at ---
  const std::map<DeviceHandle, Mapped>& mapped() const noexcept { return mapped_; }
  const Mapped& at(DeviceHandle device) const { return mapped_.at(device); }
  unsigned under_way() const noexcept { return under_way_; }
  bool is_over(std::uint32_t io) const { return ios_.at(io).over; }
  // Of one that is over: 0 or an errno.
  std::uint16_t result(std::uint32_t io) const { return ios_.at(io).error; }
  std::uint64_t ios() const noexcept { return ios_.size() - 1; }
  // READs that are under way.
  unsigned reads() const noexcept { return reads_; }
  std::deque<BlockCompletion>& unjudged() noexcept { return unjudged_; }
  // Of paths, servers and caches.
  std::uint64_t losses() const noexcept { return losses_noted_; }

  // What a sector holds after IO `number` wrote it; 0: zeroes.
  static std::uint64_t stamp(std::uint32_t disk, std::uint64_t sector, std::uint32_t number) {
    return std::uint64_t{disk} << 56 | (sector & 0xffffff) << 32 | number;
  }

 private:
  struct Io {
    DeviceHandle device = 0;
    std::string disk;
    rnbd::IoPiece piece;
    std::vector<std::byte> data;
    std::vector<std::uint64_t>
        seen;                  // of a flush: `changes` of the sectors that nothing changed when it began
    std::uint64_t moment = 0;  // when it was submitted
    std::uint64_t synced = 0;  // when storage did its flush, or the flush behind a FUA change
    unsigned deaths = 0;       // of servers, when it was submitted
    unsigned cuts = 0;         // of disks, when it was submitted
    unsigned openings = 0;     // of its disk, when it was submitted
    unsigned caches = 0;       // of its disk that were replaced, when it was submitted
    std::uint64_t losses = 0;  // noted until then
    Nanos submitted = 0;
    Nanos submitted_clock = 0;  // by the clock of the client's node
    std::uint16_t error = 0;
    bool over = false;
    bool abandoned = false;  // its client died, and it may still act
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

  void expect(bool holds, const std::string& what) const {
    if (!holds) fail_(what);
  }
  static void disrupt(Mapped&, Nanos now);
  void judge_result(const Io&, const BlockCompletion&, Nanos clock);
  bool waited_for_refused(const Io&, const Mapped&, Nanos clock) const;
  void judge_geometry(const rnbd::DeviceChanged&, const std::string& disk);
  void note_refusal(const rnbd::DeviceChanged&);
  void note_refused(Mapped&, DeviceHandle, Nanos clock) const;
  void end_pause();
  void check_reopens();
  void check_refused(Nanos clock) const;
  void check_asks(Nanos clock);
  void note_changes(const Io&, std::uint16_t error);
  void judge_replaced(const rnbd::CacheReplaced&);
  void judge_read(const Io&, std::uint32_t number);
  void expect_change(const Io&, std::uint32_t number, bool good);
  void judge_flush(const Io&, std::uint16_t error);
  void cover(const Io&);
  unsigned times_again(const Io&, const BlockDisk&, std::uint32_t bytes) const;
  void judge_alarm(const Io&);

  Disks& disks_;
  Nanos queue_timeout_, request_timeout_;
  Disks::Fail fail_;
  BlockClient* client_ = nullptr;
  std::map<std::string, std::vector<Expected>> expected_;
  std::map<std::string, std::vector<Loss>> losses_;
  std::map<DeviceHandle, Mapped> mapped_;
  std::deque<Io> ios_{Io{}};  // by number; the memory of one stays where it is
  std::deque<BlockCompletion> unjudged_;
  unsigned under_way_ = 0;
  unsigned reads_ = 0;
  PathlessWait without_path_;
  Nanos holds_since_ = kNever;  // the client sends no request, by its clock
  Nanos asks_since_ = kNever;   // it has nothing at the session and a device that is not open, by its clock
  Nanos clock_ = 0;             // of the client's node, at its last poll
  // What was refused is tried again, by the client's clock. kNever: no pause runs.
  Nanos reopen_at_ = kNever;
  unsigned reopens_ = 0;      // pauses that ended over a refused device, since one opened
  bool refused_ = false;      // a device, when the last poll began or in it
  bool had_path_ = false;     // when the last poll ended
  Nanos pathless_until_ = 0;  // the last time that a path came back, by the client's clock
  // How often storage has done a part of an IO, flushes apart, since the last loss, by number and sector.
  std::map<std::pair<std::uint32_t, std::uint64_t>, unsigned> done_;
  std::uint64_t losses_noted_ = 0;
  Nanos last_loss_ = 0;
};

}  // namespace rtrs::sim
