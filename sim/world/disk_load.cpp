#include "sim/world/disk_load.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace rtrs::sim {

namespace {

// Further cases of disturb(): the next IO fails; the next IO fails, and then storage answers nothing for a
// while.
constexpr std::uint32_t kFailingIo = 10, kSilence = 11;

}  // namespace

std::vector<std::string> disk_names(std::uint32_t client, std::uint32_t disks) {
  std::vector<std::string> names;
  for (std::uint32_t disk = 0; disk < disks; ++disk)
    names.push_back("disk" + std::to_string(client) + "." + std::to_string(disk));
  return names;
}

DiskLoad::DiskLoad(BlockClient& client, DiskBook& book, Disks& disks, ChoiceSource& choice,
                   std::vector<std::string> names)
    : client_(client), book_(book), disks_(disks), choice_(choice), names_(std::move(names)) {}

bool DiskLoad::act(const Call& call, bool may_disturb) {
  forget_unmapped();
  return devices_.empty() || draw(8) == 0 ? operate(call, may_disturb) : io(call);
}

void DiskLoad::forget_unmapped() {
  std::erase_if(devices_,
                [this](const auto& one) { return client_.state(one.second) == rnbd::DeviceState::unmapped; });
}

bool DiskLoad::io(const Call& call) {
  auto at = devices_.begin();
  std::advance(at, draw(static_cast<std::uint32_t>(devices_.size())));
  static constexpr std::array<Opcode, 8> kOpcodes{Opcode::write, Opcode::read,    Opcode::write,
                                                  Opcode::read,  Opcode::discard, Opcode::write_zeroes,
                                                  Opcode::flush, Opcode::flush};
  const Opcode opcode = kOpcodes[draw(kOpcodes.size())];
  if (opcode == Opcode::flush) return submit(call, at->second, opcode, 0, 0, false, false);
  const std::uint32_t sectors = 1 + draw(draw(3) == 0 ? kSectorsOfADisk : 8);
  const std::uint32_t sector = draw(kSectorsOfADisk - sectors + 1);
  const bool fua = opcode != Opcode::read && draw(4) == 0;
  const bool nounmap = opcode == Opcode::write_zeroes && draw(2) == 0;
  return submit(call, at->second, opcode, sector, sectors, fua, nounmap);
}

bool DiskLoad::submit(const Call& call, DeviceHandle device, Opcode opcode, std::uint64_t sector,
                      std::uint32_t sectors, bool fua, bool nounmap) {
  // Does not wait for another IO of these sectors, because that IO may last until the faults end.
  if (book_.overlaps(book_.at(device).disk, sector, sectors)) return false;
  const BlockRequest request =
      book_.open(device, opcode, sector, sectors, fua, nounmap, call.now, call.clock);
  book_.check_submit(client_.submit(call.fabric, call.clock, device, request));
  return true;
}

void DiskLoad::disturb(const std::string& name, std::uint32_t how) {
  BlockDisk& disk = disks_.at(name);
  const bool syncs = how == 2 || how == 3;
  if (syncs && disks_.is_shared(disk) && draw(2) == 0) return disks_.fail_sync_during_open(disk);
  if (syncs && disk.replaceable && draw(2) == 0) {
    disk.replaced_during_write = true;
    return;
  }
  switch (how) {
    case 0:
      disks_.resize(name, kSectorsOfADisk / 2 + draw(kSectorsOfADisk));
      return;
    case 1:
      disk.writable = !disk.writable;
      return;
    case 2:
      disk.next_sync_fails = true;
      return;
    case 3:
      disk.foreign_sync_fails = true;
      return;
    case kFailingIo:
    case kSilence:
      return disks_.fail_next_io(disk, how == kSilence);
    default:
      disk.removal_planned = true;
  }
}

bool DiskLoad::operate(const Call& call, bool may_disturb) {
  const std::string& name = names_[draw(static_cast<std::uint32_t>(names_.size()))];
  const auto mapped = devices_.find(name);
  const std::uint32_t what = draw(12);
  if (what < 5 || what == kFailingIo || what == kSilence) {
    if (may_disturb) disturb(name, what);
    return may_disturb;
  }
  if (what == 5) {
    if (mapped != devices_.end()) client_.remap(call.fabric, call.clock, mapped->second);
    return mapped != devices_.end();
  }
  if (mapped == devices_.end()) return map(call, name);
  if (draw(4) != 0) return false;
  unmap(call, name, mapped->second);
  return true;
}

void DiskLoad::unmap(const Call& call, const std::string& name, DeviceHandle device) {
  book_.unmapped(device);
  client_.unmap(call.fabric, call.clock, device);
  devices_.erase(name);
}

bool DiskLoad::map(const Call& call, const std::string& name) {
  return map(call, name, draw(5) == 0 ? AccessMode::read_only : AccessMode::read_write);
}

bool DiskLoad::map(const Call& call, const std::string& name, AccessMode mode) {
  const rnbd::MapOutcome outcome = client_.map(call.fabric, call.clock, name, mode);
  // map() must succeed even for a device that is still being unmapped.
  book_.map_began(outcome, name, mode);
  if (outcome.error == 0) devices_[name] = outcome.device;
  return outcome.error == 0;
}

bool DiskLoad::carry_out(const Call& call, const Step& step) {
  forget_unmapped();
  const std::string& name = names_[step.con];
  const auto mapped = devices_.find(name);
  if (step.verb == Step::Verb::map) {
    if (mapped == devices_.end())
      map(call, name, step.number == 1 ? AccessMode::read_only : AccessMode::read_write);
    return true;
  }
  if (mapped == devices_.end()) return true;
  const std::uint32_t sectors = std::clamp<std::uint32_t>(step.number, 1, kSectorsOfADisk);
  const std::uint64_t sector = std::min<std::uint64_t>(step.time, kSectorsOfADisk - sectors);
  const bool fua = step.value == 1;
  switch (step.verb) {
    case Step::Verb::unmap:
      unmap(call, name, mapped->second);
      return true;
    case Step::Verb::remap:
      client_.remap(call.fabric, call.clock, mapped->second);
      return true;
    case Step::Verb::disk_write:
      return submit(call, mapped->second, Opcode::write, sector, sectors, fua, false);
    case Step::Verb::disk_discard:
      return submit(call, mapped->second, Opcode::discard, sector, sectors, fua, false);
    case Step::Verb::disk_read:
      return submit(call, mapped->second, Opcode::read, sector, sectors, false, false);
    default:
      return submit(call, mapped->second, Opcode::flush, 0, 0, false, false);
  }
}

void DiskLoad::probe(const Call& call) {
  forget_unmapped();
  if (devices_.empty()) map(call, names_.front());
  for (const auto& [name, device] : devices_) {
    client_.remap(call.fabric, call.clock, device);
    submit(call, device, Opcode::read, 0, 8, false, false);
    submit(call, device, Opcode::flush, 0, 0, false, false);
  }
}

bool DiskLoad::all_open() const {
  return std::all_of(devices_.begin(), devices_.end(), [this](const auto& one) {
    const rnbd::DeviceState state = client_.state(one.second);
    return state == rnbd::DeviceState::open || state == rnbd::DeviceState::unmapped;
  });
}

std::string DiskLoad::describe() const {
  std::string text = ", " + std::to_string(client_.messages_in_flight()) + " messages, devices";
  for (const auto& [name, device] : devices_)
    text += " " + name + " (" + rnbd::to_string(client_.state(device)) + ", refused with errno " +
            std::to_string(book_.at(device).refusal) + ")";
  return text;
}

}  // namespace rtrs::sim
