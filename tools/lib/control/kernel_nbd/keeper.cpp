#include "tools/lib/control/kernel_nbd/keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rtrs::kernel_nbd {

namespace {

constexpr std::uint16_t kReadOnly = 1U << 1;
constexpr std::uint64_t kSector = 512;  // size of a sector in bytes; the size of a device is a multiple of it

std::uint64_t whole_sectors(std::uint64_t bytes) {
  return bytes / kSector * kSector;
}

bool is_open(Keeper::State state) {
  return state == Keeper::State::unknown || state == Keeper::State::lost;
}

}  // namespace

std::string mismatch(const Attachment& before, std::uint64_t bytes, const Export& now) {
  if ((before.flags & kReadOnly) != (now.flags & kReadOnly))
    return fmt::format("the export is now {}, but the device is not",
                       (now.flags & kReadOnly) != 0 ? "read-only" : "writable");
  if (before.flags != now.flags)
    return fmt::format("the export has the NBD flags {:#x} now, and the device {:#x}", now.flags,
                       before.flags);
  if (whole_sectors(now.bytes) < bytes)
    return fmt::format("the export now has {} bytes, but the device has {}", now.bytes, bytes);
  return {};
}

Actions Keeper::on(const Input& input, Nanos now) {
  actions_.clear();
  std::visit([&](const auto& one) { take(one, now); }, input);
  for (auto& [index, device] : devices_) settle(index, device, now);
  if (now >= next_list_) {
    next_list_ = now + options_.list_pause;
    actions_.push_back(List{});
    for (const auto& [index, device] : devices_)
      if (device.state == State::connected && !device.resizing)
        actions_.push_back(QuerySize{index, device.what.socket, device.what.name});
  }
  return std::exchange(actions_, {});
}

Keeper::Device* Keeper::find(unsigned index) {
  const auto found = devices_.find(index);
  return found == devices_.end() ? nullptr : &found->second;
}

void Keeper::tell(Tell::Grade grade, unsigned index, const Device& device, const std::string& what) {
  actions_.push_back(Tell{grade, fmt::format("/dev/nbd{} ({}): {}", index, device.what.name, what)});
}

void Keeper::take(const Listed& listed, Nanos now) {
  for (auto at = devices_.begin(); at != devices_.end();) {
    const auto found = std::find_if(listed.devices.begin(), listed.devices.end(),
                                    [&](const Attached& one) { return one.index == at->first; });
    if (found != listed.devices.end() && found->what == at->second.what) {
      at->second.bytes = found->bytes;
      // The device is still attached: it was attached to the same export again, or detaching failed.
      if (at->second.state == State::over) {
        at->second.state = State::unknown;
        at->second.since = at->second.next = now;
      }
      ++at;
      continue;
    }
    // If an Open of the device is pending, take(Opened) will not find the device and will close the
    // connection.
    tell(Tell::Grade::info, at->first, at->second, "is detached");
    at = devices_.erase(at);
  }
  for (const Attached& one : listed.devices) {
    const auto [at, made] = devices_.try_emplace(one.index);
    if (!made) continue;
    Device& device = at->second;
    device.what = one.what;
    device.bytes = one.bytes;
    device.since = device.next = now;
    tell(Tell::Grade::info, one.index, device, fmt::format("monitored; NBD socket {}", one.what.socket));
  }
}

void Keeper::lose(unsigned index, Device& device, Nanos now) {
  if (device.state != State::connected && device.state != State::unknown) return;
  device.state = State::lost;
  device.since = device.next = now;
  device.pause = 0;
  device.trouble.clear();
  device.told = false;
  tell(Tell::Grade::warning, index, device,
       fmt::format("its connection is lost; IO waits for up to {} s", device.what.wait));
}

void Keeper::take(const Lost& lost, Nanos now) {
  Device* const device = find(lost.index);
  if (device != nullptr) return lose(lost.index, *device, now);
  next_list_ = now;  // requests the list immediately, because the device may be new
}

void Keeper::take(const NewsMissed&, Nanos now) {
  for (auto& [index, device] : devices_) {
    if (device.state != State::connected) continue;
    device.state = State::unknown;
    device.since = device.next = now;
    device.pause = 0;
  }
}

void Keeper::again(unsigned index, Device& device, const std::string& why, Nanos now) {
  const Nanos end = device.since + seconds(device.what.wait);
  if (device.state == State::lost && now >= end) return give_up(index, device, why, now);
  device.pause = std::clamp(2 * device.pause, options_.least_pause, options_.most_pause);
  device.next = now + device.pause;
  if (device.state == State::lost) device.next = std::min(device.next, end);
  // Remembers the cause without logging it at first, because nbdkit is probably still starting.
  if (now - device.since < options_.most_pause)
    device.trouble = why;
  else
    log_trouble(Tell::Grade::warning, index, device, why);
}

// Called only after a failed attempt, so that no device is detached that could be connected again. Detaching
// fails the in-flight requests of the device, which would otherwise wait forever.
void Keeper::give_up(unsigned index, Device& device, const std::string& why, Nanos now) {
  device.state = State::over;
  tell(Tell::Grade::error, index, device,
       fmt::format("has had no connection for {} s and is detached: {}", device.what.wait, why));
  actions_.push_back(Detach{index, device.what});
  next_list_ = now;
}

// Logs the cause, unless it is the same as in the last message.
void Keeper::log_trouble(Tell::Grade grade, unsigned index, Device& device, const std::string& why) {
  if (device.told && why == device.trouble) return;
  device.trouble = why;
  device.told = true;
  tell(grade, index, device, why + "; retrying");
}

void Keeper::take(const Opened& opened, Nanos now) {
  for (auto& [index, device] : devices_) {
    if (device.asked != opened.serial) continue;
    const std::string wrong = mismatch(device.what, device.bytes, opened.what);
    if (is_open(device.state) && wrong.empty()) {
      actions_.push_back(HandOver{opened.serial, index, device.what});
      return;
    }
    device.asked = 0;
    if (!is_open(device.state)) break;
    log_trouble(Tell::Grade::error, index, device, wrong);
    again(index, device, wrong, now);
    break;
  }
  actions_.push_back(Close{opened.serial});
}

void Keeper::take(const NotOpened& refused, Nanos now) {
  for (auto& [index, device] : devices_) {
    if (device.asked != refused.serial) continue;
    device.asked = 0;
    // The kernel reports a lost connection only once, and possibly before the driver listens. A dead server
    // also proves the loss.
    if (refused.is_dead) lose(index, device, now);
    if (is_open(device.state)) again(index, device, refused.why, now);
  }
}

void Keeper::take(const HandedOver& handed, Nanos now) {
  Device* const device = find(handed.index);
  if (device == nullptr || !is_open(device->state)) return;
  device->asked = 0;
  if (handed.error != 0) {
    next_list_ = now;  // requests the list immediately, because the device may be detached
    return again(handed.index, *device,
                 fmt::format("the kernel refuses a new connection: {}", std::strerror(handed.error)), now);
  }
  if (device->state == State::lost)
    tell(Tell::Grade::info, handed.index, *device,
         fmt::format("is connected again after {:.1f} s", static_cast<double>(now - device->since) / 1e9));
  device->state = State::connected;
  device->since = now;
  device->pause = 0;
  device->trouble.clear();
  device->told = false;
}

void Keeper::take(const SizeReported& seen, Nanos now) {
  Device* const device = find(seen.index);
  const std::uint64_t bytes = whole_sectors(seen.bytes);
  if (device == nullptr || device->state != State::connected || device->resizing || bytes == 0 ||
      bytes == device->bytes || now - device->since < options_.settle)
    return;
  device->resizing = true;
  tell(bytes < device->bytes ? Tell::Grade::warning : Tell::Grade::info, seen.index, *device,
       fmt::format("has {} bytes now, before {}", bytes, device->bytes));
  actions_.push_back(Resize{seen.index, device->what, bytes});
}

void Keeper::take(const Resized& resized, Nanos now) {
  Device* const device = find(resized.index);
  if (device == nullptr) return;
  device->resizing = false;
  next_list_ = now;
  if (resized.error != 0)
    tell(Tell::Grade::warning, resized.index, *device,
         fmt::format("the kernel refuses the new size: {}", std::strerror(resized.error)));
}

void Keeper::settle(unsigned index, Device& device, Nanos now) {
  if (!is_open(device.state) || device.asked != 0 || now < device.next) return;
  device.asked = ++serials_;
  actions_.push_back(Open{device.asked, index, device.what.socket, device.what.name});
}

Nanos Keeper::next_tick() const {
  Nanos next = next_list_;
  for (const auto& [index, device] : devices_) {
    if (is_open(device.state) && device.asked == 0) next = std::min(next, device.next);
  }
  return next;
}

}  // namespace rtrs::kernel_nbd
