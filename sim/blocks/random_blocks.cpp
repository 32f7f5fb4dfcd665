#include "sim/blocks/random_blocks.hpp"

#include <array>
#include <map>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

namespace {

using rnbd::DeviceState;

constexpr std::array<const char*, 3> kNames{"a", "b", "c"};

BlockOptions draw_options(SeededChoice& choice) {
  const auto draw = [&choice](std::uint32_t n) { return choice.draw(n, Label::swarm); };
  BlockOptions options;
  options.depth = static_cast<std::uint16_t>(1 + draw(draw(2) == 0 ? 3 : 16));
  if (draw(4) == 0) options.queue_timeout = milliseconds(500 + draw(8000));
  static constexpr std::array<std::uint32_t, 4> kStorage{50, 1000, 20'000, 400'000};
  options.storage = microseconds(kStorage[draw(4)]);
  if (draw(4) == 0) options.post_short = 300'000;
  if (draw(8) == 0) options.max_requests = 1 + draw(4);
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
  }

  void run() {
    const unsigned steps = 30 + w.draw(120);
    for (unsigned step = 0; step < steps && !w.failed(); ++step) {
      const std::uint32_t kind = w.draw(100);
      if (kind < 50) {
        io();
      } else if (kind < 75) {
        w.pass(kind < 68 ? microseconds(w.draw(3000)) : milliseconds(w.draw(3000)));
      } else if (kind < 85) {
        trouble();
      } else {
        operate();
      }
    }
    heal();
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
    // To wait for another IO of these sectors could take until the trouble is over.
    if (w.has_room() && !w.overlaps(at->first, sector, sectors))
      w.submit(at->second, opcode, sector, sectors, fua);
  }

  void trouble() {
    const std::uint32_t path = w.draw(BlockWorld::kPaths);
    switch (w.draw(7)) {
      case 0:
      case 1:
        if (server_up_) w.crash_server(w.draw(2) == 0 ? Death::host : Death::process);
        if (!server_up_) w.start_server();
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

  // Requests that tell of changes which died with the server.
  void after_restart() {
    for (const auto& [name, device] : devices_) {
      for (const Opcode opcode : {Opcode::write, Opcode::flush, Opcode::flush}) {
        const std::uint32_t sectors = opcode == Opcode::write ? 8 : 0;
        const std::uint32_t sector = opcode == Opcode::write ? w.draw(kSectors - 8) : 0;
        if (w.draw(2) == 0 && w.has_room() && !w.overlaps(name, sector, sectors))
          w.submit(device, opcode, sector, sectors, opcode == Opcode::write);
        if (w.draw(2) == 0) w.pass(milliseconds(w.draw(1000)));
      }
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
    // While it is being unmapped it can be mapped again.
    w.expect(handle >= 0, "a map begins");
    if (handle >= 0) devices_[name] = static_cast<DeviceHandle>(handle);
  }

  void heal() {
    for (const char* name : kNames) w.disk(name).writable = true;
    for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path)
      if (cut_[path]) w.heal(path);
    if (!server_up_) w.start_server();
    over(w);
  }

  BlockWorld& w;
  std::map<std::string, DeviceHandle> devices_;
  std::array<bool, BlockWorld::kPaths> cut_{};
  bool server_up_ = true;
};

}  // namespace

// Not from the choices of the world: what it draws is the same for all options.
BlockOptions draw_block_options(std::uint64_t seed) {
  SeededChoice choice(~seed);
  return draw_options(choice);
}

void play_random_blocks(BlockWorld& w) {
  RandomPlay(w).run();
}

}  // namespace rtrs::sim
