#include "sim/disks/disk_book.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace rtrs::sim {

namespace {

constexpr std::uint64_t kChanging = ~std::uint64_t{0};

bool changes(Opcode opcode) {
  return opcode == Opcode::write || opcode == Opcode::discard || opcode == Opcode::write_zeroes;
}

}  // namespace

DiskBook::DiskBook(Disks& disks, const ClientConfig& client, Disks::Fail fail)
    : disks_(disks),
      queue_timeout_(client.queue_timeout),
      request_timeout_(client.request_timeout),
      fail_(std::move(fail)) {}

void DiskBook::dies() {
  client_ = nullptr;
  for (Io& io : ios_) io.abandoned = io.abandoned || !std::exchange(io.over, true);
  for (auto& [disk, sectors] : expected_)
    for (Expected& known : sectors) known.acked = 0;
  losses_.clear();
  mapped_.clear();
  under_way_ = reads_ = 0;
  without_path_ = {};
  holds_since_ = asks_since_ = kNever;
  reopen_at_ = kNever;
  reopens_ = 0;
  refused_ = was_connected_ = false;
}

void DiskBook::session_closed(Nanos now) {
  for (Io& io : ios_) io.abandoned = false;
  for (auto& [handle, mapped] : mapped_) mapped.unknown = now;
}

void DiskBook::map_began(const rnbd::MapOutcome& outcome, const std::string& disk, AccessMode mode) {
  expect(outcome.error == 0, "a map begins");
  if (outcome.error == 0) mapped(outcome.device, disk, mode);
}

void DiskBook::mapped(DeviceHandle device, const std::string& disk, AccessMode mode) {
  Mapped& fresh = mapped_[device] = Mapped{};
  fresh.disk = disk;
  fresh.mode = mode;
}

bool DiskBook::overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const {
  return std::any_of(ios_.begin() + 1, ios_.end(), [&](const Io& io) {
    const std::uint64_t end = io.piece.sector + io.piece.size / kDiskSector;
    return (!io.over || io.abandoned) && io.disk == disk && io.piece.sector < sector + sectors &&
           sector < end;
  });
}

BlockRequest DiskBook::open(DeviceHandle device, Opcode opcode, std::uint64_t sector, std::uint32_t sectors,
                            bool fua, bool nounmap, Nanos now, Nanos clock) {
  if (client_ != nullptr) note_refused(mapped_.at(device), device, clock);
  const std::string disk = mapped_.at(device).disk;
  const auto number = static_cast<std::uint32_t>(ios_.size());
  Io& io = ios_.emplace_back();
  io.device = device;
  io.disk = disk;
  io.deaths = disks_.deaths();
  io.cuts = disks_.cuts();
  io.openings = disks_.at(disk).openings;
  io.caches = disks_.at(disk).caches;
  io.moment = disks_.next_moment();
  io.submitted = now;
  io.submitted_clock = clock;
  io.losses = losses_noted_;
  io.piece.opcode = opcode;
  io.piece.sector = sector;
  io.piece.size = static_cast<std::uint32_t>(sectors * kDiskSector);
  io.piece.fua = fua;
  io.piece.nounmap = nounmap;
  if (opcode == Opcode::read || opcode == Opcode::write)
    io.data.assign(sectors * kDiskSector, std::byte{0xa5});
  for (std::uint32_t at = 0; opcode == Opcode::write && at < sectors; ++at) {
    const std::uint64_t content = stamp(disks_.at(disk).number, sector + at, number);
    for (std::size_t word = 0; word < kDiskSector; word += sizeof content)
      std::memcpy(io.data.data() + at * kDiskSector + word, &content, sizeof content);
  }
  disks_.note([&] {
    return "IO " + std::to_string(number) + ": " + text_of(opcode) + " of sectors " + std::to_string(sector) +
           "+" + std::to_string(sectors) + " of " + disk + (fua ? ", FUA" : "");
  });
  if (history_ != nullptr) history_->invoked(history_io(io, number), text_of(opcode), sector, sectors);
  for (const Expected& known : expected_[disk])
    if (opcode == Opcode::flush) io.seen.push_back(known.any_of.size() == 1 ? known.changes : kChanging);
  // The change may take effect at any time from now on.
  if (changes(opcode)) expect_change(io, number, false);
  ++under_way_;
  if (opcode == Opcode::read) ++reads_;
  BlockRequest request;
  request.opcode = opcode;
  request.offset = sector * kDiskSector;
  request.length = sectors * kDiskSector;
  request.data = io.data.data();
  request.fua = fua;
  request.nounmap = nounmap;
  request.prio = static_cast<std::uint16_t>(number);  // identifies the request at storage
  request.user_data = number;
  return request;
}

void DiskBook::event(const BlockEvent& event, Nanos now) {
  if (const auto* news = std::get_if<PathEvent>(&event)) {
    without_path_.note(*news);
    if (news->kind == PathEvent::Kind::link_up) reconnected_at_ = news->at;
    // The server closes all devices when a session ends.
    if (news->kind == PathEvent::Kind::link_down)
      for (auto& [handle, mapped] : mapped_) disrupt(mapped, now);
    if (news->kind == PathEvent::Kind::path && news->path.state != PathState::connected) note_loss(now);
  }
  if (const auto* replaced = std::get_if<rnbd::CacheReplaced>(&event)) judge_replaced(*replaced);
  const auto* change = std::get_if<rnbd::DeviceChanged>(&event);
  if (change == nullptr) return;
  Mapped& mapped = mapped_[change->device];
  mapped.refusal = change->peer_errno;
  if (change->state == rnbd::DeviceState::open) {
    ++mapped.opened;
    judge_geometry(*change, mapped.disk);
  }
  note_refusal(*change);
}

void DiskBook::over(const BlockCompletion& done, Nanos clock) {
  if (done.user_data == 0) return unjudged_.push_back(done);
  const auto number = static_cast<std::uint32_t>(done.user_data);
  Io& io = ios_.at(number);
  expect(!io.over, "an IO ends once");
  expect((done.error == 0) == (done.result == Errc::ok), "a failure has an errno");
  io.over = true;
  io.error = done.error;
  disks_.note([&] {
    const std::string what = "IO " + std::to_string(number) + " of " + io.disk + " is over: ";
    // The application sees only the errno. This note also gives the reason.
    return what + errno_text(done.error) +
           (done.error == 0 ? "" : std::string(", because: ") + to_string(done.result));
  });
  --under_way_;
  if (io.piece.opcode == Opcode::read) --reads_;
  if (history_ != nullptr) add_to_history(io, number, done.result);
  judge_result(io, done, clock);
  if (done.result == Errc::cache_lost) judge_alarm(io);
  if (done.error == 0 && io.piece.opcode == Opcode::read) judge_read(io, number);
  if (done.error == 0 && changes(io.piece.opcode)) {
    disks_.next_moment();
    expect_change(io, number, true);
  }
  if (io.piece.opcode == Opcode::flush) judge_flush(io, done.error);
  if (done.error == 0 && io.piece.fua && changes(io.piece.opcode)) cover(io);
  note_changes(io, done.error);
}

void DiskBook::disrupt(Mapped& mapped, Nanos now) {
  ++mapped.disruptions;
  mapped.disrupted = now;
}

void DiskBook::added(const std::string& disk, std::uint64_t sectors) {
  expected_[disk].assign(sectors, Expected{{0}, true});
}

void DiskBook::resized(const std::string& disk, std::uint64_t sectors) {
  std::vector<Expected>& expected = expected_[disk];
  if (sectors < expected.size()) cut_history(disk, "shortened");
  // If the disk grows again, a sector beyond the new end reads as zeroes, or contains what an IO that is in
  // flight now has written.
  for (std::size_t gone = sectors; gone < expected.size(); ++gone) {
    expected[gone].any_of.push_back(0);
    expected[gone].durable = false;
    expected[gone].acked = 0;  // no flush has to report data that a resize removed
    ++expected[gone].changes;
  }
  if (sectors > expected.size()) expected.resize(sectors, Expected{{0}, true, 0});
}

void DiskBook::reverted(const std::string& disk, std::size_t sector, std::uint64_t content) {
  Expected& known = expected_[disk][sector];
  const auto& any = known.any_of;
  const bool expected = std::find(any.begin(), any.end(), content) != any.end();
  expect(expected || !known.durable || disks_.at(disk).may_lose_flushed(),
         "sector " + std::to_string(sector) + " of " + disk + " is durable, and lost");
  if (expected) return;
  known.any_of.push_back(content);
  ++known.changes;
}

void DiskBook::lost(const std::string& disk, std::size_t sector) {
  cut_history(disk, "data_lost");
  Expected& known = expected_[disk][sector];
  if (known.acked != 0) losses_[disk].push_back({known.by, known.acked, disks_.deaths()});
  known.acked = 0;
}

void DiskBook::forget_loss_reports(const std::string& disk) {
  for (Loss& loss : losses_[disk]) loss.reported = 0;
}

void DiskBook::taken_away(const std::string& disk, Nanos now) {
  for (auto& [handle, mapped] : mapped_)
    if (mapped.disk == disk) disrupt(mapped, now);
}

void DiskBook::server_died(Nanos now) {
  session_closed(now);
  note_loss(now);
  for (auto& [handle, mapped] : mapped_) disrupt(mapped, now);
}

void DiskBook::note_loss(Nanos now) {
  ++losses_noted_;
  last_loss_ = now;
  done_.clear();
}

void DiskBook::judge_flush(const Io& io, std::uint16_t error) {
  disks_.next_moment();
  for (Loss& loss : losses_[io.disk]) {
    if (loss.device != io.device) continue;
    // A memory disk loses flushed data when its server dies, and the server on which this flush succeeded may
    // have died in the meantime.
    const bool outlived = disks_.at(io.disk).may_lose_flushed() && io.deaths < loss.deaths && error == 0;
    if (outlived && loss.acked < io.moment) loss.reported = 0;
    if (outlived) continue;
    if (error != 0) loss.reported = std::min(loss.reported, disks_.moment());
    expect(error != 0 || loss.acked > io.moment || loss.reported < io.moment,
           "no flush of " + io.disk + " succeeds although an acknowledged change is lost");
  }
  // This failed flush reported the changes that completed before the client learned of a new cache. Later
  // changes still need a flush, because a failed flush covers nothing.
  for (Expected& known : expected_[io.disk])
    if (error != 0 && known.by == io.device && known.acked < mapped_.at(io.device).replaced) known.acked = 0;
  if (error != 0) return;
  const BlockDisk& disk = disks_.at(io.disk);
  for (std::size_t sector = 0; sector < std::min(io.seen.size(), expected_[io.disk].size()); ++sector) {
    Expected& known = expected_[io.disk][sector];
    // A disk that may lose flushed data never has to report changes that completed before the flush. The
    // flush makes a sector durable only if the content was known when the flush began and has not changed
    // since.
    if (disk.may_lose_flushed() && known.acked < io.moment) known.acked = 0;
    if (known.changes != io.seen[sector] || disk.forgotten[sector]) continue;
    known.durable = true;
    known.acked = 0;
  }
}

// A client may follow a FUA change with a flush of its own. That flush made all earlier completed changes
// durable, so that no later flush has to report their loss.
void DiskBook::cover(const Io& io) {
  for (Expected& known : expected_[io.disk])
    if (known.by == io.device && known.acked < io.synced) known.acked = 0;
  for (Loss& loss : losses_[io.disk])
    if (loss.device == io.device && loss.acked < io.synced) loss.reported = 0;
}

// Any IO may report a loss, until a flush has reported it. After that, only IO that was submitted before the
// report of the flush may.
void DiskBook::judge_alarm(const Io& io) {
  BlockDisk& disk = disks_.at(io.disk);
  expect(disk.may_alarm || io.moment < disk.alarm_at,
         "nothing of " + io.disk + " was lost, and an IO reports it");
  if (io.piece.opcode != Opcode::flush) return;
  if (disk.may_alarm) disk.alarm_at = disks_.moment() + 1;
  // A flush submitted before the last loss may have reported an earlier one. The last loss may still be
  // reported.
  if (io.moment > disk.alarm_from) disk.may_alarm = false;
}

void DiskBook::judge_read(const Io& io, std::uint32_t number) {
  for (std::uint32_t at = 0; at < io.piece.size / kDiskSector; ++at) {
    std::uint64_t words[kDiskSector / sizeof(std::uint64_t)];
    std::memcpy(words, io.data.data() + at * kDiskSector, kDiskSector);
    const bool whole = std::all_of(std::begin(words), std::end(words), [&](auto w) { return w == words[0]; });
    Expected& known = expected_[io.disk].at(io.piece.sector + at);
    const bool fits = std::find(known.any_of.begin(), known.any_of.end(), words[0]) != known.any_of.end();
    expect(whole && fits, "read " + std::to_string(number) + " finds in sector " +
                              std::to_string(io.piece.sector + at) + " of " + io.disk +
                              " what belongs there");
    // The read shows whether a write with unknown result took effect, unless the response is from a server
    // that has died in the meantime.
    if (known.any_of.size() > 1 && io.deaths == disks_.deaths() && io.cuts == disks_.cuts())
      known.any_of = {words[0]};
  }
}

void DiskBook::expect_change(const Io& io, std::uint32_t number, bool good) {
  for (std::uint32_t at = 0; at < io.piece.size / kDiskSector; ++at) {
    const std::uint64_t sector = io.piece.sector + at;
    if (sector >= expected_[io.disk].size()) return;
    const bool writes = io.piece.opcode == Opcode::write;
    const std::uint64_t content = writes ? stamp(disks_.at(io.disk).number, sector, number) : 0;
    Expected& known = expected_[io.disk][sector];
    ++known.changes;
    // The content is uncertain if the disk was shortened in the meantime, or if the response is from a server
    // that died before it made the change durable.
    const bool cut = io.cuts != disks_.cuts();
    const BlockDisk& disk = disks_.at(io.disk);
    const bool safe = !disk.may_lose_flushed() && (io.piece.fua || !disk.volatile_cache);
    const bool kept = !cut && (io.deaths == disks_.deaths() || safe);
    if (good && kept)
      known.any_of = {content};
    else if (!good)
      known.any_of.push_back(content);
    known.durable = good && !cut && (io.piece.fua || !disk.volatile_cache);
    known.acked = 0;
    if (!good || known.durable || cut) continue;
    const bool there =
        disks_.at(io.disk).now.at(sector) == content && !disks_.at(io.disk).forgotten.at(sector);
    if (there) known.acked = disks_.moment();
    if (!there) {
      Loss& loss = losses_[io.disk].emplace_back(Loss{io.device, disks_.moment(), disks_.deaths()});
      // A server that has died may have acknowledged a part of the change, and only that process knew of the
      // failed sync.
      if (io.moment < disk.lost_unknown_at.at(sector)) loss.reported = 0;
    }
    known.by = io.device;
  }
}

}  // namespace rtrs::sim
