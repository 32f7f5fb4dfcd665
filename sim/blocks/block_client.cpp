// The client's half of a block world.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

namespace {

constexpr std::uint64_t kChanging = ~std::uint64_t{0};
constexpr Nanos kRetryPause = milliseconds(250);

bool changes(Opcode opcode) {
  return opcode == Opcode::write || opcode == Opcode::discard || opcode == Opcode::write_zeroes;
}
bool was_delivered(Errc result) {
  return result == Errc::ok || result == Errc::peer_error;
}

}  // namespace

std::int64_t BlockWorld::map(const std::string& name, AccessMode mode) {
  rnbd::ClientActions actions;
  const rnbd::MapOutcome outcome = devices_.on(rnbd::MapRequested{name, mode}, actions);
  if (outcome.error == 0) mapped_[outcome.device] = Mapped{name, mode, 0, 0};
  carry_out(actions);
  return outcome.error != 0 ? -std::int64_t{outcome.error} : std::int64_t{outcome.device};
}

void BlockWorld::unmap(DeviceHandle device) {
  rnbd::ClientActions actions;
  devices_.on(rnbd::UnmapRequested{device}, actions);
  carry_out(actions);
}

void BlockWorld::remap(DeviceHandle device) {
  rnbd::ClientActions actions;
  devices_.on(rnbd::RemapRequested{device}, actions);
  carry_out(actions);
}

bool BlockWorld::overlaps(const std::string& disk, std::uint64_t sector, std::uint32_t sectors) const {
  return std::any_of(ios_.begin() + 1, ios_.end(), [&](const Io& io) {
    const std::uint64_t end = io.piece.sector + io.piece.bytes / kSector;
    return !io.over && io.disk == disk && io.piece.sector < sector + sectors && sector < end;
  });
}

std::uint32_t BlockWorld::submit(DeviceHandle device, Opcode opcode, std::uint64_t sector,
                                 std::uint32_t sectors, bool fua) {
  const std::string disk = mapped_.at(device).disk;
  until("other IO of these sectors is over", [&] { return !overlaps(disk, sector, sectors); });
  const auto number = static_cast<std::uint32_t>(ios_.size());
  Io& io = ios_.emplace_back();
  io.device = device;
  io.disk = disk;
  io.deaths = deaths_;
  io.cuts = cuts_;
  io.moment = ++moment_;
  io.ticket.arrival = devices_.arrive(device);
  io.piece = rnbd::IoPiece{opcode, sector, static_cast<std::uint32_t>(sectors * kSector), fua};
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
  held_.push_back(number);
  send_held();
  return number;
}

void BlockWorld::poll_client() {
  std::array<IoCompletion, 64> done;
  const std::size_t count = client_->poll(*client_fabric_, now(), done);
  PathNews news;
  while (client_->take_news(news)) {
    rnbd::ClientActions actions;
    if (news.kind == PathNews::Kind::link_up) devices_.on(rnbd::LinkUp{client_->peer_extends()}, actions);
    if (news.kind == PathNews::Kind::link_down) devices_.on(rnbd::LinkDown{}, actions);
    carry_out(actions);
  }
  for (const IoCompletion& one : std::span(done).first(count)) client_event(one);
  const char* broken = client_->broken_invariant();
  expect(broken == nullptr, broken == nullptr ? "" : broken);
}

void BlockWorld::client_event(const IoCompletion& done) {
  rnbd::ClientActions actions;
  if (const auto found = messages_.find(done.user_data); found != messages_.end()) {
    const Message message = std::move(found->second);
    messages_.erase(found);
    devices_.on(
        rnbd::MessageDone{message.token, was_delivered(done.result), done.peer_errno, message.response},
        actions);
    return carry_out(actions);
  }
  const auto number = static_cast<std::uint32_t>(done.user_data);
  const Io& io = ios_.at(number);
  const rnbd::Disposition end =
      devices_.on(rnbd::IoDone{io.device, was_delivered(done.result), done.peer_errno, io.ticket}, actions);
  if (end == rnbd::Disposition::retry_after_remap) {
    ios_[number].held = true;
    held_.push_front(number);
  } else if (end == rnbd::Disposition::lost) {
    judge_alarm(io);
    end_io(number, EIO);
  } else {
    const std::uint16_t error = done.result == Errc::peer_error ? done.peer_errno : std::uint16_t{EIO};
    end_io(number, end == rnbd::Disposition::ok ? std::uint16_t{0} : error);
  }
  carry_out(actions);
}

void BlockWorld::carry_out(const rnbd::ClientActions& actions) {
  for (const rnbd::ClientAction& action : actions) {
    if (const auto* message = std::get_if<rnbd::SendMessage>(&action)) send(*message);
    const auto* change = std::get_if<rnbd::DeviceChanged>(&action);
    if (change == nullptr) continue;
    Mapped& mapped = mapped_[change->device];
    mapped.refusal = change->peer_errno;
    if (change->state == rnbd::DeviceState::open) ++mapped.opened;
  }
  if (devices_.retry_wanted() && retry_at_ == kNever) retry_at_ = now() + kRetryPause;
  if (devices_.reopen_wanted() && reopen_at_ == kNever)
    reopen_at_ = now() + seconds(devices_.reopen_pause_s());
}

void BlockWorld::send(const rnbd::SendMessage& action) {
  const std::uint64_t name = next_message_++;
  Message& message = messages_[name];
  message.token = action.token;
  message.response.assign(action.response_length, std::byte{0xee});
  IoRequest request;
  request.direction = action.direction == wire::Direction::read ? Direction::read : Direction::write;
  request.service = true;
  request.user_header = action.user_header();
  request.data = message.response;
  request.user_data = name;
  const Errc taken = client_->submit(*client_fabric_, now(), request);
  expect(taken == Errc::ok || taken == Errc::session_closed || taken == Errc::not_open,
         "the transport takes a message");
  if (taken == Errc::ok) return;
  const std::uint64_t token = message.token;
  messages_.erase(name);
  rnbd::ClientActions actions;
  devices_.on(rnbd::MessageDone{token, false, 0, {}}, actions);
  carry_out(actions);
}

void BlockWorld::send_held() {
  for (std::size_t left = held_.size(); left != 0 && !failed(); --left) {
    const std::uint32_t number = held_.front();
    held_.pop_front();
    if (!send_io(number)) held_.push_back(number);
  }
}

// False: not now.
bool BlockWorld::send_io(std::uint32_t number) {
  Io& io = ios_[number];
  const rnbd::Gate gate = devices_.gate(io.device);
  if (gate == rnbd::Gate::hold) return false;
  if (gate == rnbd::Gate::refuse) {
    end_io(number, devices_.refusal_errno(io.device));
    return true;
  }
  const bool writable = rnbd::is_writable(mapped_.at(io.device).mode);
  if (const auto error = rnbd::check_piece(*devices_.geometry(io.device), writable, io.piece)) {
    end_io(number, error);
    return true;
  }
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  io.ticket.nature = rnbd::nature_of(io.piece.opcode, io.piece.fua);
  const rnbd::IoStart start = devices_.begin_io(io.device, io.ticket);
  io.ticket = start.ticket;
  const auto framing = rnbd::encode_io(start.device_id, io.piece, header);
  IoRequest request;
  request.direction = framing.direction == wire::Direction::read ? Direction::read : Direction::write;
  request.affinity = static_cast<std::uint16_t>(number);
  request.user_header = header;
  request.data = std::span(io.data).first(framing.data_len);
  request.user_data = number;
  io.held = false;
  const Errc taken = client_->submit(*client_fabric_, now(), request);
  expect(taken == Errc::ok, std::string("the transport takes an IO, and says ") + to_string(taken));
  return true;
}

void BlockWorld::end_io(std::uint32_t number, std::uint16_t error) {
  Io& io = ios_[number];
  expect(!io.over, "an IO ends once");
  io.over = true;
  io.error = error;
  --ios_under_way_;
  if (error == 0 && io.piece.opcode == Opcode::read) judge_read(io, number);
  if (error == 0 && changes(io.piece.opcode)) {
    ++moment_;
    expect_change(io, number, true);
  }
  if (io.piece.opcode == Opcode::flush) judge_flush(io, error);
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
    const bool kept = !cut && (io.deaths == deaths_ || io.piece.fua || !disks_[io.disk].volatile_cache);
    if (good && kept)
      known.any_of = {content};
    else if (!good)
      known.any_of.push_back(content);
    known.durable = good && !cut && (io.piece.fua || !disks_[io.disk].volatile_cache);
    known.acked = 0;
    if (!good || known.durable || cut) continue;
    const bool there = disks_[io.disk].now.at(sector) == content && !disks_[io.disk].forgotten.at(sector);
    if (there) known.acked = moment_;
    if (!there) losses_[io.disk].push_back({io.device, moment_, deaths_});
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
