// Records the IO of one application on block devices, and the possible contents of its disks, which no other
// application uses.
//
// Only one IO at a time uses a sector, so that its content is known: each written sector contains the numbers
// of the disk, the sector and the IO. Rules that are always checked:
//   - a read returns the data of the last successful write; zeroes if nothing was written, or after a
//     discard or write-zeroes
//   - no IO reaches a disk other than its own, or a disk that no session has open
//   - data that was written with FUA, or before a successful flush, survives the server's death
//   - after a successful flush, all changes survive that were acknowledged through the same mapping
//     before it, unless an earlier flush reported a loss; no flush reports a loss if only the server's
//     process died
//   - a disk opened read-only does not change
//   - storage receives a request as it was made, no new request for a device that was taken away, and no
//     request twice, unless a path, a server or a cache was lost in between, or the device was reopened
//     between a change and the flush that makes it durable
//   - a request waits at most queue_timeout for a path, and for its device to be open. ENOTCONN from the
//     server does not fail a request, unless its device was taken away repeatedly
//   - a request for a device that the server refuses for a temporary reason waits at most queue_timeout,
//     however busy other devices are
//   - a refused device is retried after 1 s. The delay doubles each time that no device was opened in
//     between, up to 15 s
//   - the client has the geometry with which the server opened the device: a multiple of the block size
//   - a request fits the blocks and limits that its device had when it was last opened; no message of the
//     request exceeds them
//   - while the link is up and the server has no request, a device that is not open is retried after 250 ms
//   - a request reports the errno with which storage failed one of its messages. An errno that only storage
//     uses is reported only if storage returned it
//   - changes are reported as lost only if there were changes that no flush covered
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/driver/block_client.hpp"
#include "sim/disks/disks.hpp"
#include "sim/oracles/history_log.hpp"
#include "sim/oracles/pathless_wait.hpp"

namespace rtrs::sim {

using rnbd::DeviceHandle;

class DiskBook {
 public:
  // The disks must outlive the book.
  DiskBook(Disks&, const ClientConfig&, Disks::Fail);
  DiskBook(const DiskBook&) = delete;
  DiskBook& operator=(const DiskBook&) = delete;

  struct Mapped {
    std::string disk;
    AccessMode mode = AccessMode::read_write;
    std::uint16_t refusal = 0;  // errno with which the server last refused or closed the device
    unsigned opened = 0;        // number of times that the device was opened
    // Number of times that the device was taken away. Reset when an IO that was submitted after the last time
    // succeeds, or when the server refuses the device.
    unsigned disruptions = 0;
    Nanos disrupted = 0;  // time when the device was last taken away
    // Time since which the server does not know the device, because its session ended. Reset when an IO that
    // was submitted later succeeds.
    Nanos unknown = kNever;
    Nanos refused = 0;             // client time at which the client last knew of the refusal
    Nanos refused_since = kNever;  // time of the first refusal since the device was open; kNever: none
    bool unmapped = false;         // the application has unmapped the device
    // Moments (see Disks::moment()) at which changes completed that are not durable by themselves and that no
    // flush covers.
    std::vector<std::uint64_t> unflushed;
    std::uint64_t replaced = 0;  // moment when the client last reported that changes may be lost
  };

  // --- application actions ---
  // Sets the client after it was created. Borrowed.
  void begins(BlockClient& client) { client_ = &client; }
  // Records each IO in the log, under this client number. Borrowed; nullptr: records nothing.
  void keep_history(HistoryLog* log, std::uint32_t client) noexcept {
    history_ = log;
    history_client_ = client;
  }
  // Called when the client process dies. IO in flight may still take effect until the server closes the
  // session or dies too; no process receives the reports of losses.
  void dies();
  void session_closed(Nanos now);
  void map_began(const rnbd::MapOutcome&, const std::string& disk, AccessMode);
  void mapped(DeviceHandle, const std::string& disk, AccessMode);
  void unmapped(DeviceHandle device) { mapped_[device].unmapped = true; }
  // True if an IO in flight uses one of the sectors.
  bool overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const;
  // Creates the next IO. No other IO in flight may use its sectors. `clock`: the client node's clock.
  BlockRequest open(DeviceHandle, Opcode, std::uint64_t sector, std::uint32_t sectors, bool fua, bool nounmap,
                    Nanos now, Nanos clock);
  // Checks the result of submit(): the client must accept every IO.
  void check_submit(Errc result) const {
    expect(result == Errc::ok, std::string("the client takes an IO, and says ") + to_string(result));
  }

  // --- client results and events ---
  // Records a result. `clock`: the client node's clock; `now`: virtual time. A request whose `user_data` is
  // 0 is not judged: unjudged() keeps its result, oldest first.
  void over(const BlockCompletion&, Nanos clock);
  void event(const BlockEvent&, Nanos now);
  void polls(Nanos clock);
  void polled() { was_connected_ = client_->session().link_up(); }
  // Called before a poll, because the poll fails overdue requests.
  void check_waits(Nanos clock);
  void check_closing();

  // --- events of the disks, called by Disks ---
  void added(const std::string& disk, std::uint64_t sectors);
  void resized(const std::string& disk, std::uint64_t sectors);
  void reverted(const std::string& disk, std::size_t sector, std::uint64_t content);
  // Called when the sector loses a change that no flush had made durable.
  void lost(const std::string& disk, std::size_t sector);
  // Called when the only process has died that knew of the disk's lost changes.
  void forget_loss_reports(const std::string& disk);
  void taken_away(const std::string& disk, Nanos now);
  void server_died(Nanos now);
  // Called when a path, a server or a cache was lost. The client may send requests again, and the old
  // messages may still be in flight for some time.
  void note_loss(Nanos now);
  void judge_request(const block::StartStorage&, const std::string& disk, Nanos now);
  void served(const block::StartStorage& what) {
    if (what.opcode != Opcode::flush)
      ++done_[{what.prio, what.sector}];
    else if (what.prio < ios_.size())
      ios_[what.prio].synced = disks_.moment();
  }

  // Called when storage fails a message of a request with this errno.
  void storage_failed(const block::StartStorage&, int error);

  // True if the operation is one part of a change that needs several messages.
  bool is_part(const block::StartStorage&) const;

  // --- state ---
  const std::map<DeviceHandle, Mapped>& mapped() const noexcept { return mapped_; }
  const Mapped& at(DeviceHandle device) const { return mapped_.at(device); }
  unsigned under_way() const noexcept { return under_way_; }
  bool is_over(std::uint32_t io) const { return ios_.at(io).over; }
  // Result of a completed IO: 0 or an errno.
  std::uint16_t result(std::uint32_t io) const { return ios_.at(io).error; }
  std::uint64_t ios() const noexcept { return ios_.size() - 1; }
  // Number of READs in flight.
  unsigned reads() const noexcept { return reads_; }
  std::deque<BlockCompletion>& unjudged() noexcept { return unjudged_; }
  // Number of lost paths, servers and caches.
  std::uint64_t losses() const noexcept { return losses_noted_; }

  // Content of a sector that IO `number` wrote; 0: zeroes.
  static std::uint64_t stamp(std::uint32_t disk, std::uint64_t sector, std::uint32_t number) {
    return std::uint64_t{disk} << 56 | (sector & 0xffffff) << 32 | number;
  }

 private:
  struct Io {
    DeviceHandle device = 0;
    std::string disk;
    wire::rnbd::Io piece;
    std::vector<std::byte> data;
    // For a flush: Expected::changes of each sector at submission; kChanging: content unknown.
    std::vector<std::uint64_t> seen;
    std::uint64_t moment = 0;  // moment of submission
    std::uint64_t synced = 0;  // moment when storage executed this flush, or the flush after a FUA change
    unsigned deaths = 0;       // number of server deaths before submission
    unsigned cuts = 0;         // number of times a disk was shortened before submission
    unsigned openings = 0;     // number of times the disk was opened before submission
    unsigned caches = 0;       // number of times the disk's cache was replaced before submission
    std::uint64_t losses = 0;  // value of losses() at submission
    std::vector<std::uint16_t> failures;  // errnos with which storage failed messages of this IO
    Nanos submitted = 0;
    Nanos submitted_clock = 0;  // on the client node's clock
    std::uint16_t error = 0;
    bool over = false;
    bool abandoned = false;  // the client died; the IO may still take effect
  };
  // Possible contents of a sector.
  struct Expected {
    std::vector<std::uint64_t> any_of;
    bool durable = true;
    std::uint64_t changes = 0;  // number of changes that began, succeeded, or were lost with the server
    std::uint64_t acked = 0;    // moment when the last change succeeded; 0: durable or unknown
    DeviceHandle by = 0;        // device that made the last successful change
  };
  // A change that was acknowledged at moment `acked`, lost, and reported by a failed flush at moment
  // `reported`.
  struct Loss {
    DeviceHandle device = 0;  // device that made the change
    std::uint64_t acked = 0;
    unsigned deaths = 0;  // number of server deaths, including that which lost the change
    std::uint64_t reported = ~std::uint64_t{0};
  };

  void expect(bool holds, const std::string& what) const {
    if (!holds) fail_(what);
  }
  static void disrupt(Mapped&, Nanos now);
  void judge_result(const Io&, const BlockCompletion&, Nanos clock);
  void judge_errno(const Io&, const BlockCompletion&) const;
  bool waited_for_refused_device(const Io&, const Mapped&, Nanos clock) const;
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
  unsigned max_reexecutions(const Io&, const BlockDisk&, std::uint32_t bytes) const;
  void judge_alarm(const Io&);

  HistoryIo history_io(const Io& io, std::uint32_t number) const {
    return {history_client_, io.disk, number};
  }
  void add_to_history(const Io&, std::uint32_t number, Errc result) const;
  void cut_history(const std::string& disk, const char* why) const;

  Disks& disks_;
  Nanos queue_timeout_, request_timeout_;
  Disks::Fail fail_;
  BlockClient* client_ = nullptr;
  std::map<std::string, std::vector<Expected>> expected_;
  std::map<std::string, std::vector<Loss>> losses_;
  std::map<DeviceHandle, Mapped> mapped_;
  std::deque<Io> ios_{Io{}};  // indexed by number; a deque, so that addresses stay valid
  std::deque<BlockCompletion> unjudged_;
  unsigned under_way_ = 0;
  unsigned reads_ = 0;
  PathlessWait without_path_;
  Nanos holds_since_ = kNever;  // client time since which the client holds back all IO
  // Client time since which the session has had no request in flight although a device is not open.
  Nanos asks_since_ = kNever;
  Nanos clock_ = 0;  // client node's clock at its last poll
  // Client time of the next retry of refused devices. kNever: no retry pause is running.
  Nanos reopen_at_ = kNever;
  unsigned reopens_ = 0;        // retry pauses since a device was opened that ended with a refused device
  bool refused_ = false;        // a device was refused at the start of the last poll or during it
  bool was_connected_ = false;  // a path was connected at the end of the last poll
  Nanos reconnected_at_ = 0;    // client time at which a path last reconnected
  // Number of times that storage executed a part of an IO since the last loss, by IO number and sector.
  // Flushes are not counted.
  std::map<std::pair<std::uint32_t, std::uint64_t>, unsigned> done_;
  std::uint64_t losses_noted_ = 0;
  Nanos last_loss_ = 0;
  HistoryLog* history_ = nullptr;
  std::uint32_t history_client_ = 0;
};

}  // namespace rtrs::sim
