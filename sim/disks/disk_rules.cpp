// Rules of DiskBook about single requests and waiting times. The rules about disk contents are in
// disk_book.cpp.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/rnbd/device_reasons.hpp"
#include "sim/disks/disk_book.hpp"

namespace rtrs::sim {

namespace {

bool changes(Opcode opcode) {
  return opcode == Opcode::write || opcode == Opcode::discard || opcode == Opcode::write_zeroes;
}

}  // namespace

void DiskBook::polls(Nanos clock) {
  end_pause();
  clock_ = clock;
  for (auto& [handle, mapped] : mapped_) note_refused(mapped, handle, clock);
}

void DiskBook::note_refused(Mapped& mapped, DeviceHandle device, Nanos clock) const {
  if (client_->refused(device)) mapped.refused = clock;
}

// The size may differ from the size at the last opening, because opening an open export measures it again.
void DiskBook::judge_geometry(const rnbd::DeviceChanged& change, const std::string& disk) {
  rnbd::Geometry expected = disks_.at(disk).geometry;
  expected.nsectors = change.geometry.nsectors;
  expect(change.geometry == expected && rnbd::valid(change.geometry),
         "the client knows " + disk + " as the server opened it");
}

// Starts the retry pause of a refused device. ENOTCONN means that an operator closed the device: the client
// reopens it at once, unless reopening failed too often. A refusal in the poll that ends a pause belongs to
// that pause, because the client handles messages before its timer.
void DiskBook::note_refusal(const rnbd::DeviceChanged& change) {
  if (change.state == rnbd::DeviceState::open) {
    reopens_ = 0;
    mapped_.at(change.device).refused_since = kNever;
  }
  if (change.state != rnbd::DeviceState::closed || change.peer_errno == 0) return;
  if (change.peer_errno == ENOTCONN && !client_->refused(change.device)) return;
  note_refused(mapped_.at(change.device), change.device, clock_);
  mapped_.at(change.device).disruptions = 0;
  // A permanent refusal does not count as waiting, because requests of the device may still be executing at
  // the server.
  if (rnbd::may_pass(change.peer_errno))
    mapped_.at(change.device).refused_since = std::min(mapped_.at(change.device).refused_since, clock_);
  refused_ = true;
  if (reopen_at_ == kNever) reopen_at_ = clock_ + seconds(std::min(1U << reopens_, 15U));
}

// Ends the retry pause if it expired in the last poll.
void DiskBook::end_pause() {
  if (reopen_at_ <= clock_) {
    reopen_at_ = kNever;
    if (refused_ && was_connected_) reopens_ = std::min(reopens_ + 1, 4U);
  }
  refused_ = std::any_of(mapped_.begin(), mapped_.end(),
                         [this](const auto& one) { return client_->refused(one.first); });
}

void DiskBook::check_reopens() {
  end_pause();
  if (!client_->session().link_up()) return;
  for (const auto& [handle, mapped] : mapped_)
    expect(!client_->refused(handle) || (reopen_at_ != kNever && client_->next_timer() <= reopen_at_),
           "a refused device is retried in time");
}

// If an OPEN fails while the link is up, the client must send it again after kRetryPause.
void DiskBook::check_asks(Nanos clock) {
  const bool waits = std::any_of(mapped_.begin(), mapped_.end(), [this](const auto& one) {
    const rnbd::DeviceState state = client_->state(one.first);
    const bool closed = state == rnbd::DeviceState::init || state == rnbd::DeviceState::closed;
    return closed && !client_->refused(one.first);
  });
  const Client& session = client_->session();
  asks_since_ = waits && session.link_up() && session.inflight() == 0 ? std::min(asks_since_, clock) : kNever;
  expect(asks_since_ == kNever || clock - asks_since_ <= BlockClient::kRetryPause + milliseconds(1),
         "a device that is not open is reopened in time");
}

void DiskBook::check_waits(Nanos clock) {
  check_reopens();
  check_asks(clock);
  if (queue_timeout_ == kNever) return;
  check_refused(clock);
  // If only messages about devices (such as OPEN) are in flight, the client is holding back all IO.
  const bool holds = client_->session().inflight() <= client_->messages_in_flight();
  holds_since_ = holds ? std::min(holds_since_, clock) : kNever;
  const bool pathless = !client_->session().link_up();
  if (!pathless && !holds) return;
  for (const Io& io : ios_) {
    if (io.over || io.moment == 0) continue;
    const Nanos since = pathless ? without_path_.since(io.submitted_clock) : kNever;
    expect(since == kNever || clock - since <= queue_timeout_ + milliseconds(1),
           "a request waits for a path for at most queue_timeout");
    expect(!holds || clock - std::max(io.submitted_clock, holds_since_) <= queue_timeout_ + milliseconds(1),
           "a request waits for its device to be open for at most queue_timeout");
  }
}

void DiskBook::check_refused(Nanos clock) const {
  for (const Io& io : ios_) {
    if (io.over || io.moment == 0) continue;
    const Nanos refused = mapped_.at(io.device).refused_since;
    expect(refused == kNever ||
               clock - std::max(io.submitted_clock, refused) <= queue_timeout_ + milliseconds(1),
           "a request waits for a device that the server refuses for at most queue_timeout");
  }
}

void DiskBook::check_closing() {
  if (!client_->closed()) return;
  expect(under_way_ == 0 && client_->under_way() == 0, "every request has ended when the session is closed");
}

void DiskBook::judge_result(const Io& io, const BlockCompletion& done, Nanos clock) {
  Mapped& mapped = mapped_.at(io.device);
  if (done.result == Errc::no_path || done.result == Errc::no_permit)
    expect(queue_timeout_ != kNever && clock - io.submitted_clock >= queue_timeout_,
           "a request without a path or a permit fails after queue_timeout");
  // Only a refused OPEN has these errnos: simulated storage never fails with them.
  const bool absent =
      done.error == ENOENT || done.error == EACCES || done.error == EBUSY || done.error == ENODEV;
  if (done.result == Errc::peer_error && absent)
    expect(queue_timeout_ != kNever && clock - io.submitted_clock >= queue_timeout_,
           "a request waits for queue_timeout while the server refuses its device for a temporary reason");
  if (done.result == Errc::request_timeout)
    expect(clock - io.submitted_clock >= std::min(queue_timeout_, request_timeout_),
           "a request fails as unanswered after request_timeout, or after queue_timeout when it was held");
  if (done.result == Errc::no_path)
    expect(!client_->session().link_up() || reconnected_at_ >= io.submitted_clock,
           "a request fails as without a path only if no path is connected");
  if (done.result == Errc::not_open)
    expect(mapped.unmapped || mapped.opened == 0,
           "a request for a device that its user did not unmap reaches the device or fails with a reason");
  judge_errno(io, done);
  const BlockDisk& disk = disks_.at(io.disk);
  if (done.result == Errc::peer_error && io.piece.opcode == Opcode::flush && done.error == EIO)
    expect(io.submitted <= disk.opened_at ||
               (disk.damaged_at != kNever && disk.damaged_at >= disk.opened_at) ||
               waited_for_refused_device(io, mapped, clock),
           "a flush of " + io.disk +
               " fails because a sync failed since it was opened, or the server refused to open it");
  // A request sent before a loss may suit only the disk that has been replaced since.
  const bool malformed = done.error == EINVAL || done.error == EOPNOTSUPP;
  expect(done.result != Errc::peer_error || !malformed || losses_noted_ != io.losses,
         "a request is made for its device as it was opened the last time");
  const rnbd::DeviceState now_is = client_->state(io.device);
  const bool mapped_still = now_is != rnbd::DeviceState::unmapping && now_is != rnbd::DeviceState::unmapped;
  // A device that is being unmapped is not reopened. The server may have lost the session long before the
  // client detects it.
  const bool lost = losses_noted_ != io.losses || mapped.disruptions != 0 || mapped.unknown != kNever;
  if (done.result == Errc::peer_error && done.error == ENOTCONN)
    expect(mapped.refused >= io.submitted_clock ||
               (mapped_still ? mapped.disruptions >= rnbd::kMaxFutileReopens : lost),
           "a request does not fail because its device was closed once");
  if (done.error != 0) return;
  if (io.submitted > mapped.disrupted) mapped.disruptions = 0;
  if (mapped.unknown != kNever && io.submitted > mapped.unknown) mapped.unknown = kNever;
}

void DiskBook::storage_failed(const block::StartStorage& what, int error) {
  // The server sends EIO for an errno that it cannot send: ENOTCONN tells a client that its device is not
  // open, and a response has 9 bits for the errno.
  const bool passes = error != ENOTCONN && error <= 511;
  // Number 0 stands for all requests without a number; see judge_request().
  if (what.prio < ios_.size())
    ios_[what.prio].failures.push_back(passes ? static_cast<std::uint16_t>(error) : EIO);
}

// A request of several messages may fail for several reasons. Without a loss, each message is executed once,
// so that a failed message determines the result.
void DiskBook::judge_errno(const Io& io, const BlockCompletion& done) const {
  const auto failed = [this, &io](std::uint16_t error) {
    const auto& nameless = ios_.front().failures;
    return std::find(io.failures.begin(), io.failures.end(), error) != io.failures.end() ||
           std::find(nameless.begin(), nameless.end(), error) != nameless.end();
  };
  const bool of_storage = done.error == ENOSPC || done.error == ETIMEDOUT || done.error == EILSEQ;
  expect(done.result != Errc::peer_error || !of_storage || failed(done.error),
         "a request fails with " + errno_text(done.error) + " only if storage failed it so");
  // The server itself refuses syncs of a damaged cache, and IO beyond the end of a shortened disk.
  const BlockDisk& disk = disks_.at(io.disk);
  const bool refused = done.error == EIO && (disk.damaged_at != kNever || disks_.cuts() != 0);
  const bool judged = done.result == Errc::ok || done.result == Errc::peer_error;
  if (judged && !refused && !io.failures.empty() && losses_noted_ == io.losses)
    expect(failed(done.error), "a request that storage failed reports how, not " + errno_text(done.error));
}

// True if the request waited for queue_timeout, and the server refuses its device with EIO.
bool DiskBook::waited_for_refused_device(const Io& io, const Mapped& mapped, Nanos clock) const {
  return mapped.refused_since != kNever && mapped.refusal == EIO && queue_timeout_ != kNever &&
         clock - io.submitted_clock >= queue_timeout_;
}

// Records changes that no flush covers. A failed change counts too, because a part of it may have succeeded.
void DiskBook::note_changes(const Io& io, std::uint16_t error) {
  Mapped& mapped = mapped_.at(io.device);
  const rnbd::Geometry* geometry = client_->geometry(io.device);
  const bool changed = changes(io.piece.opcode);
  // If the disk cannot make a FUA change durable on its own, a flush follows the change.
  const bool alone = io.piece.opcode == Opcode::write && geometry != nullptr && geometry->fua;
  const bool cached = geometry != nullptr && geometry->write_cache;
  const bool flushes = io.piece.opcode == Opcode::flush || (changed && io.piece.fua && cached && !alone);
  if (error == 0 && flushes)
    std::erase_if(mapped.unflushed, [&io](std::uint64_t acked) { return acked < io.moment; });
  if (changed && !(error == 0 && io.piece.fua)) mapped.unflushed.push_back(disks_.next_moment());
}

void DiskBook::judge_replaced(const rnbd::CacheReplaced& event) {
  Mapped& mapped = mapped_.at(event.device);
  // A part of a change in flight may have succeeded. The maximum size of a discard may have changed since its
  // parts were made.
  const bool under_way = std::any_of(ios_.begin() + 1, ios_.end(), [&](const Io& io) {
    const bool several =
        io.piece.fua || io.piece.opcode != Opcode::write || io.piece.size > client_->session().max_io_size();
    return !io.over && io.device == event.device && changes(io.piece.opcode) && several;
  });
  expect(event.unflushed == 0 || under_way || !mapped.unflushed.empty(),
         "changes are lost only if no flush covers them");
  mapped.unflushed.clear();
  if (event.unflushed != 0) mapped.replaced = disks_.next_moment();
}

// The effect of a failed IO counts as unknown: the IO may have several messages, and its errno does not show
// whether all of them were answered.
void DiskBook::add_to_history(const Io& io, std::uint32_t number, Errc result) const {
  const HistoryIo who = history_io(io, number);
  if (result != Errc::ok) return history_->unknown(who, to_string(result));
  std::vector<std::int64_t> read;
  for (std::size_t at = 0; io.piece.opcode == Opcode::read && at < io.data.size(); at += kDiskSector) {
    std::uint64_t words[kDiskSector / sizeof(std::uint64_t)];
    std::memcpy(words, io.data.data() + at, kDiskSector);
    const bool whole = std::all_of(std::begin(words), std::end(words), [&](auto w) { return w == words[0]; });
    const auto writer = static_cast<std::uint32_t>(words[0]);
    const std::uint64_t expected =
        writer == 0 ? 0 : stamp(disks_.at(io.disk).number, io.piece.sector + at / kDiskSector, writer);
    read.push_back(whole && words[0] == expected ? std::int64_t{writer} : HistoryLog::kBroken);
  }
  history_->succeeded(who, read);
}

void DiskBook::cut_history(const std::string& disk, const char* why) const {
  if (history_ != nullptr) history_->cut(history_client_, disk, why);
}

bool DiskBook::is_part(const block::StartStorage& what) const {
  if (what.prio == 0 || what.prio >= ios_.size()) return false;
  const Io& io = ios_[what.prio];
  return changes(what.opcode) && !io.over && what.bytes < io.piece.size;
}

void DiskBook::judge_request(const block::StartStorage& action, const std::string& disk, Nanos now) {
  // The book does not judge a request without a number (`prio`). A server that does not know the client's
  // RNBD version yet drops the number.
  if (action.prio == 0 || action.prio >= ios_.size()) return;
  const Io& io = ios_[action.prio];
  const std::uint64_t end = io.piece.sector + io.piece.size / kDiskSector;
  const bool inside = action.sector >= io.piece.sector && action.sector + action.bytes / kDiskSector <= end;
  const bool flush = action.opcode == Opcode::flush;
  expect(io.disk == disk && (!action.preflush || action.opcode == Opcode::write) &&
             (flush ? io.piece.opcode == Opcode::flush || io.piece.fua
                    : action.opcode == io.piece.opcode && inside && action.nounmap == io.piece.nounmap),
         "storage sees request " + std::to_string(action.prio) + " as it was made");
  const rnbd::Geometry& geometry = disks_.at(disk).geometry;
  const std::uint32_t sectors = action.bytes / kDiskSector;
  expect((action.opcode != Opcode::discard || sectors <= geometry.max_discard_sectors) &&
             (action.opcode != Opcode::write_zeroes || sectors <= geometry.max_write_zeroes_sectors),
         "no message is larger than " + disk + " takes");
  const auto done = done_.find({action.prio, action.sector});
  if (flush || done == done_.end() || now - last_loss_ <= seconds(10)) return;
  // Each loss allows one more execution: messages that were in flight may arrive before the resent ones,
  // however late the next path connects.
  const std::uint64_t losses_since = losses_noted_ - io.losses;
  expect(done->second <= max_reexecutions(io, disks_.at(disk), action.bytes) + losses_since,
         "storage sees request " + std::to_string(action.prio) + " once");
}

// Maximum number of times that storage may execute a request again without a loss. A change that a flush
// makes durable restarts each time that its device is opened. A change of several messages restarts each time
// that its cache is replaced.
unsigned DiskBook::max_reexecutions(const Io& io, const BlockDisk& disk, std::uint32_t bytes) const {
  const bool by_itself =
      disk.memory || !disk.volatile_cache || (io.piece.opcode == Opcode::write && disk.fua);
  if (io.piece.fua && !by_itself) return disk.openings - io.openings;
  return bytes < io.piece.size ? disk.caches - io.caches : 0;
}

}  // namespace rtrs::sim
