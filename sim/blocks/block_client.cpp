// The client's half of a block world.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

namespace {

constexpr std::uint64_t kChanging = ~std::uint64_t{0};

bool changes(Opcode opcode) {
  return opcode == Opcode::write || opcode == Opcode::discard || opcode == Opcode::write_zeroes;
}

}  // namespace

std::int64_t BlockWorld::map(const std::string& name, AccessMode mode) {
  const rnbd::MapOutcome outcome = client_->map(*client_fabric_, now(), name, mode);
  if (outcome.error == 0) {
    Mapped& mapped = mapped_[outcome.device] = Mapped{};
    mapped.disk = name;
    mapped.mode = mode;
  }
  take_events();
  return outcome.error != 0 ? -std::int64_t{outcome.error} : std::int64_t{outcome.device};
}

void BlockWorld::unmap(DeviceHandle device) {
  mapped_[device].unmapped = true;
  client_->unmap(*client_fabric_, now(), device);
  take_events();
}

void BlockWorld::remap(DeviceHandle device) {
  client_->remap(*client_fabric_, now(), device);
  take_events();
}

bool BlockWorld::overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const {
  return std::any_of(ios_.begin() + 1, ios_.end(), [&](const Io& io) {
    const std::uint64_t end = io.piece.sector + io.piece.bytes / kSector;
    return !io.over && io.disk == disk && io.piece.sector < sector + sectors && sector < end;
  });
}

std::uint32_t BlockWorld::submit(DeviceHandle device, Opcode opcode, std::uint64_t sector,
                                 std::uint32_t sectors, bool fua, bool nounmap) {
  const std::string disk = mapped_.at(device).disk;
  until("other IO of these sectors is over", [&] { return !overlaps(disk, sector, sectors); });
  const auto number = static_cast<std::uint32_t>(ios_.size());
  Io& io = ios_.emplace_back();
  io.device = device;
  io.disk = disk;
  io.deaths = deaths_;
  io.cuts = cuts_;
  io.moment = ++moment_;
  io.submitted = now();
  io.losses = losses_noted_;
  io.piece = rnbd::IoPiece{opcode, sector, static_cast<std::uint32_t>(sectors * kSector), fua};
  io.piece.nounmap = nounmap;
  if (opcode == Opcode::read || opcode == Opcode::write) io.data.assign(sectors * kSector, std::byte{0xa5});
  for (std::uint32_t at = 0; opcode == Opcode::write && at < sectors; ++at) {
    const std::uint64_t content = stamp(disks_[disk].number, sector + at, number);
    for (std::size_t word = 0; word < kSector; word += sizeof content)
      std::memcpy(io.data.data() + at * kSector + word, &content, sizeof content);
  }
  for (const Expected& known : expected_[disk])
    if (opcode == Opcode::flush) io.seen.push_back(known.any_of.size() == 1 ? known.changes : kChanging);
  // It may act at any time from now on.
  if (changes(opcode)) expect_change(io, number, false);
  ++ios_under_way_;
  BlockRequest request;
  request.opcode = opcode;
  request.offset = sector * kSector;
  request.length = sectors * kSector;
  request.data = io.data.data();
  request.fua = fua;
  request.nounmap = nounmap;
  request.prio = static_cast<std::uint16_t>(number);  // storage tells by it which request it sees
  request.user_data = number;
  const Errc taken = client_->submit(*client_fabric_, now(), device, request);
  expect(taken == Errc::ok, std::string("the client takes an IO, and says ") + to_string(taken));
  return number;
}

void BlockWorld::poll_client() {
  check_waits();
  std::array<BlockCompletion, 64> done;
  const std::size_t count = client_->poll(*client_fabric_, now(), done);
  for (const BlockCompletion& one : std::span(done).first(count)) end_io(one);
  take_events();
  if (count < done.size()) check_closing();
  const char* broken = client_->session().broken_invariant();
  expect(broken == nullptr, broken == nullptr ? "" : broken);
}

void BlockWorld::take_events() {
  BlockEvent event;
  while (client_->take_event(event)) {
    if (const auto* news = std::get_if<PathEvent>(&event)) {
      without_path_.note(*news);
      if (news->kind == PathEvent::Kind::link_up) pathless_until_ = news->at;
      // The next session knows no device.
      if (news->kind == PathEvent::Kind::link_down)
        for (auto& [handle, mapped] : mapped_) disrupt(mapped);
      if (news->kind == PathEvent::Kind::path && news->path.state != PathState::connected) note_loss();
    }
    if (const auto* replaced = std::get_if<rnbd::CacheReplaced>(&event)) judge_replaced(*replaced);
    const auto* change = std::get_if<rnbd::DeviceChanged>(&event);
    if (change == nullptr) continue;
    Mapped& mapped = mapped_[change->device];
    mapped.refusal = change->peer_errno;
    if (change->state == rnbd::DeviceState::open) ++mapped.opened;
  }
}

void BlockWorld::end_io(const BlockCompletion& done) {
  if (done.user_data == 0) return unjudged_.push_back(done);
  const auto number = static_cast<std::uint32_t>(done.user_data);
  Io& io = ios_.at(number);
  expect(!io.over, "an IO ends once");
  expect((done.error == 0) == (done.result == Errc::ok), "a failure has an errno");
  io.over = true;
  io.error = done.error;
  --ios_under_way_;
  judge_result(io, done);
  if (done.result == Errc::cache_lost) judge_alarm(io);
  if (done.error == 0 && io.piece.opcode == Opcode::read) judge_read(io, number);
  if (done.error == 0 && changes(io.piece.opcode)) {
    ++moment_;
    expect_change(io, number, true);
  }
  if (io.piece.opcode == Opcode::flush) judge_flush(io, done.error);
  note_changes(io, done.error);
}

void BlockWorld::judge_flush(const Io& io, std::uint16_t error) {
  ++moment_;
  for (Loss& loss : losses_[io.disk]) {
    if (loss.device != io.device) continue;
    // A memory device keeps until its server dies what was flushed, no longer: this answer may come from
    // there.
    const bool outlived = disks_.at(io.disk).memory && io.deaths < loss.deaths && error == 0;
    if (outlived && loss.acked < io.moment) loss.told = 0;
    if (outlived) continue;
    if (error != 0) loss.told = std::min(loss.told, moment_);
    expect(error != 0 || loss.acked > io.moment || loss.told < io.moment,
           "no flush of " + io.disk + " succeeds over a change that was acknowledged and is lost");
  }
  if (error != 0) return;
  const BlockDisk& disk = disks_.at(io.disk);
  for (std::size_t sector = 0; sector < std::min(io.seen.size(), expected_[io.disk].size()); ++sector) {
    Expected& known = expected_[io.disk][sector];
    // Of a sector whose content is one of several nobody can say that it is durable. Nor is a memory disk,
    // which loses with its server what was flushed; nothing more is owed for what was acknowledged before the
    // flush.
    if (disk.memory && known.acked < io.moment) known.acked = 0;
    if (known.changes != io.seen[sector] || disk.forgotten[sector]) continue;
    known.durable = true;
    known.acked = 0;
  }
}

void BlockWorld::allow_alarm(BlockDisk& disk) {
  disk.may_alarm = true;
  disk.alarm_from = moment_;
}

// Several IOs that arrived before the first of them told so may say the same.
void BlockWorld::judge_alarm(const Io& io) {
  BlockDisk& disk = disks_.at(io.disk);
  expect(disk.may_alarm || io.moment < disk.alarm_at,
         "nothing of " + io.disk + " was lost, and an IO says so");
  if (io.piece.opcode != Opcode::flush) return;
  if (disk.may_alarm) disk.alarm_at = moment_ + 1;
  // One that was submitted before the last loss may have told of an earlier one.
  if (io.moment > disk.alarm_from) disk.may_alarm = false;
}

void BlockWorld::judge_read(const Io& io, std::uint32_t number) {
  for (std::uint32_t at = 0; at < io.piece.bytes / kSector; ++at) {
    std::uint64_t words[kSector / sizeof(std::uint64_t)];
    std::memcpy(words, io.data.data() + at * kSector, kSector);
    const bool whole = std::all_of(std::begin(words), std::end(words), [&](auto w) { return w == words[0]; });
    Expected& known = expected_[io.disk].at(io.piece.sector + at);
    const bool fits = std::find(known.any_of.begin(), known.any_of.end(), words[0]) != known.any_of.end();
    expect(whole && fits, "read " + std::to_string(number) + " finds in sector " +
                              std::to_string(io.piece.sector + at) + " of " + io.disk +
                              " what belongs there");
    // A write whose end nobody knows acted or not; from here on it is known, unless the answer left a server
    // that died meanwhile.
    if (known.any_of.size() > 1 && io.deaths == deaths_ && io.cuts == cuts_) known.any_of = {words[0]};
  }
}

void BlockWorld::expect_change(const Io& io, std::uint32_t number, bool good) {
  for (std::uint32_t at = 0; at < io.piece.bytes / kSector; ++at) {
    const std::uint64_t sector = io.piece.sector + at;
    if (sector >= expected_[io.disk].size()) return;
    const bool writes = io.piece.opcode == Opcode::write;
    const std::uint64_t content = writes ? stamp(disks_[io.disk].number, sector, number) : 0;
    Expected& known = expected_[io.disk][sector];
    ++known.changes;
    // An answer may have left a server that died with what it had not made durable.
    const bool cut = io.cuts != cuts_;
    const BlockDisk& disk = disks_[io.disk];
    const bool safe = !disk.memory && (io.piece.fua || !disk.volatile_cache);
    const bool kept = !cut && (io.deaths == deaths_ || safe);
    if (good && kept)
      known.any_of = {content};
    else if (!good)
      known.any_of.push_back(content);
    known.durable = good && !cut && (io.piece.fua || !disks_[io.disk].volatile_cache);
    known.acked = 0;
    if (!good || known.durable || cut) continue;
    const bool there = disks_[io.disk].now.at(sector) == content && !disks_[io.disk].forgotten.at(sector);
    if (there) known.acked = moment_;
    if (!there) {
      Loss& loss = losses_[io.disk].emplace_back(Loss{io.device, moment_, deaths_});
      // A piece of it may have been acknowledged by the server that died with what it knew of the failed
      // sync.
      if (io.moment < disk.lost_unknown_at.at(sector)) loss.told = 0;
    }
    known.by = io.device;
  }
}

std::uint16_t BlockWorld::refusal(DeviceHandle device) const {
  return mapped_.at(device).refusal;
}

unsigned BlockWorld::times_opened(DeviceHandle device) const {
  return mapped_.at(device).opened;
}

}  // namespace rtrs::sim
