#include "sim/blocks/random_blocks.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

namespace {

using rnbd::DeviceState;

constexpr std::array<const char*, 3> kNames{"a", "b", "c"};
constexpr unsigned kCrowd = 400;

BlockOptions draw_options(ChoiceSource& choice) {
  const auto draw = [&choice](std::uint32_t n) { return choice.draw(n, Label::swarm); };
  BlockOptions options;
  options.depth = static_cast<std::uint16_t>(1 + draw(draw(2) == 0 ? 3 : 16));
  if (draw(10) == 0) options.depth = 128;
  if (draw(4) == 0) options.queue_timeout = milliseconds(500 + draw(8000));
  static constexpr std::array<std::uint32_t, 4> kStorage{50, 1000, 20'000, 400'000};
  options.storage = microseconds(kStorage[draw(4)]);
  if (draw(4) == 0) options.post_short = 300'000;
  if (draw(8) == 0) options.max_requests = 1 + draw(4);
  if (draw(3) == 0) options.opening = milliseconds(1 + draw(draw(2) == 0 ? 20 : 4000));
  if (draw(6) == 0) options.request_timeout = milliseconds(500 + draw(6000));
  if (draw(4) == 0) options.actions = 1 + draw(3);
  if (draw(6) == 0) options.max_queued = 256;
  return options;
}

class RandomPlay {
 public:
  explicit RandomPlay(BlockWorld& world) : w(world) {
    for (const char* name : kNames) {
      BlockDisk& disk = w.disk(name);
      disk.memory = w.draw(6) == 0;
      disk.volatile_cache = w.draw(5) != 0;
      disk.fua = w.draw(3) != 0;
    }
    operator_only_removes_ = w.draw(8) == 0;
  }

  void run() {
    const unsigned steps = 30 + w.draw(120);
    for (unsigned step = 0; step < steps && !w.failed(); ++step) {
      if (w.choice().skips(Label::request)) continue;
      const ScopedGroup group(w.choice(), Label::request);
      const std::uint32_t kind = w.draw(100);
      if (kind < 50) {
        io();
      } else if (kind < 75) {
        w.pass(kind < 68 ? microseconds(w.draw(3000)) : milliseconds(w.draw(3000)));
      } else if (kind < 85) {
        cause_fault();
      } else {
        operate();
      }
    }
    if (w.draw(4) == 0) return close_under_load();
    heal();
    reopen();
    const bool deep = w.server_config().queue_depth >= 64;
    // With many permits, most requests of the busy device reach the server before the client sends one of
    // another device.
    if (w.load().max_queued == 256 && !deep) crowd();
    if (deep) fail_all_at_once();
    if (operator_only_removes_) take_away_until_given_up();
    unmap_during_open();
  }

 private:
  const char* draw_name() { return kNames[w.draw(kNames.size())]; }

  void io() {
    if (devices_.empty()) return operate();
    auto at = devices_.begin();
    std::advance(at, w.draw(static_cast<std::uint32_t>(devices_.size())));
    if (w.state(at->second) == DeviceState::unmapped) {
      devices_.erase(at);
      return;
    }
    static constexpr std::array<Opcode, 8> kOpcodes{Opcode::write, Opcode::read,    Opcode::write,
                                                    Opcode::read,  Opcode::discard, Opcode::write_zeroes,
                                                    Opcode::flush, Opcode::flush};
    const Opcode opcode = kOpcodes[w.draw(kOpcodes.size())];
    const std::uint32_t sectors = opcode == Opcode::flush ? 0 : 1 + w.draw(w.draw(3) == 0 ? kSectors : 8);
    const std::uint32_t sector = opcode == Opcode::flush ? 0 : w.draw(kSectors - sectors + 1);
    const bool fua = opcode != Opcode::read && opcode != Opcode::flush && w.draw(4) == 0;
    // Does not wait for another IO of these sectors, because that IO may last until the faults end.
    if (w.has_room() && !w.overlaps(at->first, sector, sectors))
      w.submit(at->second, opcode, sector, sectors, fua, opcode == Opcode::write_zeroes && w.draw(2) == 0);
  }

  void cause_fault() {
    const std::uint32_t path = w.draw(BlockWorld::kPaths);
    if (operator_only_removes_ && server_up_) return w.take_away(draw_name());
    switch (w.draw(10)) {
      case 8:
        w.fail_next_io(draw_name(), false);
        break;
      case 9:
        w.fail_next_io(draw_name(), true);
        break;
      case 6:
        if (server_up_) w.replace_server();
        break;
      case 0:
      case 1:
        if (server_up_) w.crash_server(w.draw(2) == 0 ? Death::host : Death::process);
        if (!server_up_) start_another();
        server_up_ = !server_up_;
        if (server_up_ && w.draw(2) == 0) after_restart();
        break;
      case 2:
        if (cut_[path]) w.heal(path);
        if (!cut_[path]) w.cut(path);
        cut_[path] = !cut_[path];
        break;
      case 3:
        w.break_path(path);
        break;
      case 4:
        if (server_up_) w.take_away(draw_name());
        break;
      case 5:
        w.disk(draw_name()).next_sync_fails = true;
        break;
      default:
        if (server_up_) w.fail_sync(draw_name());
        break;
    }
  }

  // Starts the next server, which may have lower or higher limits.
  void start_another() {
    static constexpr std::array<std::uint32_t, 4> kMost{1U << 16, 4, 64, 0};
    const auto draw = [this](std::uint32_t n) { return w.choice().draw(n, Label::closing); };
    if (draw(3) == 0) w.disk(kNames[draw(kNames.size())]).most_discard = kMost[draw(kMost.size())];
    if (w.choice().draw(3, Label::late_disk) == 2) delay_one_disk();
    w.start_server();
  }

  // Makes one disk available only some time after the next server has started.
  void delay_one_disk() {
    const char* name = kNames[w.choice().draw(kNames.size(), Label::late_disk)];
    const Nanos time = milliseconds(w.choice().draw(20'000, Label::late_disk));
    w.refuse_opens(name, Disks::draw_open_errno(w.choice()), time);
  }

  // Submits requests that must report the changes that were lost with the server.
  void after_restart() {
    for (const auto& [name, device] : devices_) {
      for (const Opcode opcode : {Opcode::write, Opcode::flush, Opcode::flush}) {
        const std::uint32_t sectors = opcode == Opcode::write ? 8 : 0;
        const std::uint32_t sector = opcode == Opcode::write ? w.draw(kSectors - 8) : 0;
        if (w.draw(2) == 0 && w.has_room() && !w.overlaps(name, sector, sectors))
          w.submit(device, opcode, sector, sectors, opcode == Opcode::write);
        if (w.draw(2) == 0) w.pass(milliseconds(w.draw(1000)));
      }
      // The first flush reports the loss. The client holds back the second one, submitted at the same time,
      // until the device is open again.
      if (w.draw(2) != 0 || !w.has_room()) continue;
      w.submit(device, Opcode::flush, 0, 0);
      if (w.has_room()) w.submit(device, Opcode::flush, 0, 0);
      w.pass(w.load().disk_time / 2);
      w.take_away(name);
    }
  }

  void operate() {
    const std::string name = draw_name();
    const auto mapped = devices_.find(name);
    switch (w.draw(5)) {
      case 0:
        w.resize(name, kSectors / 2 + w.draw(kSectors));
        break;
      case 1:
        w.disk(name).writable = !w.disk(name).writable;
        break;
      case 2:
        if (mapped != devices_.end()) w.remap(mapped->second);
        break;
      default:
        if (mapped == devices_.end()) {
          map(name);
        } else if (w.draw(2) == 0) {
          w.unmap(mapped->second);
          devices_.erase(mapped);
        }
    }
  }

  void map(const std::string& name) {
    const std::int64_t handle = w.map(name, w.draw(5) == 0 ? AccessMode::read_only : AccessMode::read_write);
    // map() must succeed even for a device that is still being unmapped.
    w.expect(handle >= 0, "a map begins");
    if (handle >= 0) devices_[name] = static_cast<DeviceHandle>(handle);
  }

  void heal() {
    for (const char* name : kNames) {
      w.disk(name).writable = true;
      w.disk(name).next_error = 0;
      w.refuse_opens(name, 0);
    }
    for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path)
      if (cut_[path]) w.heal(path);
    if (!server_up_) w.start_server();
    server_up_ = true;
    over(w);
  }

  // Waits until every device is open. The client reopens refused devices automatically.
  void reopen() {
    w.until("every device is open", [this] {
      return std::all_of(devices_.begin(), devices_.end(), [this](const auto& one) {
        const DeviceState state = w.state(one.second);
        return state == DeviceState::open || state == DeviceState::unmapped;
      });
    });
    over(w);
  }

  // Many requests of one device must not delay a request or the CLOSE of another device.
  void crowd() {
    std::erase_if(devices_, [this](const auto& one) { return w.state(one.second) != DeviceState::open; });
    if (devices_.size() < 2 || w.load().max_requests < kCrowd || w.failed()) return;
    const auto other = std::next(devices_.begin());
    gather(devices_.begin()->second, 0);
    const std::uint32_t last = w.submit(other->second, Opcode::read, 0, 1);
    w.until("the other device is read", [&] { return w.is_over(last); });
    const auto served = std::count_if(w.unjudged().begin(), w.unjudged().end(),
                                      [](const BlockCompletion& one) { return one.error == 0; });
    w.expect(served < kCrowd * 3 / 4, "a busy device leaves the others their turn");
    const std::uint64_t losses = w.losses();
    std::vector<std::string> unmapped;
    for (auto at = other; at != devices_.end(); ++at) {
      w.unmap(at->second);
      unmapped.push_back(at->first);
    }
    w.until("the crowd has ended", [this] { return w.unjudged().size() == kCrowd; });
    // Requests may also wait for a slow OPEN of another device, or for a server whose death was not detected.
    const bool may_expire =
        w.client_config().queue_timeout != kNever || w.client_config().request_timeout != kNever;
    for (const BlockCompletion& one : w.unjudged())
      w.expect(one.error == 0 || (may_expire && one.result == Errc::request_timeout),
               "reads of a crowd end well");
    w.until("the other device is unmapped", [&] { return w.state(other->second) == DeviceState::unmapped; });
    for (const std::string& name : unmapped) w.until_closed(name, losses);
    devices_.erase(other, devices_.end());
  }

  void gather(DeviceHandle device, std::uint64_t sector) {
    BlockRequest read;
    read.offset = sector * BlockWorld::kSector;
    read.length = crowd_bytes_.size();
    read.data = crowd_bytes_.data();
    for (unsigned count = 0; count < kCrowd && w.has_room(); ++count)
      w.expect(w.client().submit(w.client_fabric(), w.now(), device, read) == Errc::ok, "a crowd is taken");
  }

  // All requests at storage fail at the same moment, because the disk was shortened.
  void fail_all_at_once() {
    if (devices_.empty() || w.state(devices_.begin()->second) != DeviceState::open || w.failed()) return;
    const auto& [name, device] = *devices_.begin();
    const std::size_t before = w.unjudged().size();
    w.resize(name, kSectors);
    gather(device, kSectors - 1);
    w.pass(microseconds(w.draw(2000)));
    w.resize(name, kSectors / 2);
    w.pause_server(seconds(1));
    w.until("all failed IO has ended", [this] { return w.client().under_way() == 0; });
    w.expect(w.unjudged().size() > before, "a crowd is pending");
  }

  // An operator closes the device each time that it is open, before the client can use it, until the client
  // stops reopening it. When the client retries, the operator closes the device again.
  void take_away_until_given_up() {
    if (devices_.empty() || w.state(devices_.begin()->second) != DeviceState::open || w.failed()) return;
    const auto& [name, device] = *devices_.begin();
    // Submits a read, because the client detects a removed device only by IO.
    w.submit(device, Opcode::read, 0, 1);
    over(w);
    reopen();
    const auto refused = [this, of = device] { return w.client().refused(of); };
    for (unsigned times = 0; times <= rnbd::kMaxFutileReopens && !refused() && !w.failed(); ++times)
      take_away_once_open(name, device);
    w.until("it is retried", [&refused] { return !refused(); });
    take_away_once_open(name, device);
    over(w);
    reopen();
  }

  // Submits a read so that the client detects the loss of the device. Submits another read if the first one
  // was not sent in time or not answered.
  void take_away_once_open(const std::string& name, DeviceHandle device) {
    const auto is_held = [&] {
      const bool held = w.disk(name).holders != 0;
      const bool open = w.state(device) == DeviceState::open;
      if (!held && open && w.all_completed()) w.submit(device, Opcode::read, 0, 1);
      return held;
    };
    w.until("it is held open", is_held);
    w.take_away(name);
    w.until("it is closed", [&] { return w.disk(name).holders == 0; });
    w.until("it is reopened or abandoned", [&] { return is_held() || w.client().refused(device); });
  }

  // A device that is unmapped during its OPEN must not stay open.
  void unmap_during_open() {
    if (w.load().opening == 0 || w.failed() || !w.link_up()) return;
    for (const char* name : kNames) {
      if (devices_.contains(name) || w.disk(name).holders != 0) continue;
      map(name);
      const DeviceHandle device = devices_[name];
      w.pass(microseconds(w.draw(3000)));
      const std::uint64_t losses = w.losses();
      w.unmap(device);
      devices_.erase(name);
      w.until("it is unmapped", [&] { return w.state(device) == DeviceState::unmapped; });
      // If an OPEN is not answered in time, it is unknown whether it opened the device.
      if (w.client_config().request_timeout == kNever) w.until_closed(name, losses);
    }
  }

  void close_under_load() {
    const auto device = std::find_if(devices_.begin(), devices_.end(), [this](const auto& one) {
      return w.state(one.second) == DeviceState::open;
    });
    const bool deep = w.server_config().queue_depth >= 64;
    // The paused server answers nothing until the session is closed, so that all permits are in use then.
    if (deep && server_up_) w.pause_server(seconds(60));
    if (device != devices_.end() && (deep || w.draw(2) == 0)) gather(device->second, 0);
    if (w.draw(2) == 0) w.pass(microseconds(w.draw(1000)));
    if (!devices_.empty() && w.draw(2) == 0 && server_up_) w.take_away(devices_.begin()->first);
    if (w.draw(2) == 0 && server_up_) w.pause_server(seconds(8));
    w.close_session();
    w.until("the session is closed", [this] { return w.closed(); });
  }

  BlockWorld& w;
  std::array<std::byte, BlockWorld::kSector> crowd_bytes_{};
  std::map<std::string, DeviceHandle> devices_;
  std::array<bool, BlockWorld::kPaths> cut_{};
  bool server_up_ = true;
  bool operator_only_removes_ = false;
};

}  // namespace

BlockOptions draw_block_options(ChoiceSource& choice) {
  return draw_options(choice);
}

void play_random_blocks(BlockWorld& w) {
  RandomPlay(w).run();
}

}  // namespace rtrs::sim
