#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "sim/blocks/block_plays.hpp"
#include "sim/blocks/device_script.hpp"

namespace rtrs::sim {

namespace {

using Verb = DeviceLine::Verb;
using Outcome = DeviceLine::Outcome;
using rnbd::DeviceState;

class DevicePlayer {
 public:
  explicit DevicePlayer(BlockWorld& world) : w_(world) {}

  void play(const DeviceScript& script) {
    for (const DeviceLine& line : script) {
      if (w_.failed()) return;
      w_.set_place("line " + std::to_string(line.line) + " '" + line.text + "'");
      step(line);
    }
  }

 private:
  struct Io {
    std::uint32_t number = 0;
    DeviceLine line;  // script line with a drawn value in place of each range
  };

  std::uint64_t draw(DeviceLine::Range range) {
    const std::uint64_t span = range.high - range.low;
    return span == 1 ? range.low : range.low + w_.draw(static_cast<std::uint32_t>(span));
  }
  Nanos time(const DeviceLine& line) { return draw(line.time) * line.unit; }
  Death death(const DeviceLine& line) const { return line.process ? Death::process : Death::host; }

  DeviceHandle handle(const DeviceLine& line) {
    const auto found = handles_.find(line.disk);
    if (found == handles_.end()) w_.fail(line.disk + " is not mapped");
    return found == handles_.end() ? 0 : found->second;
  }

  void step(const DeviceLine& line) {
    if (line.verb <= Verb::holders) return device_step(line);
    if (line.verb <= Verb::spread) return io_step(line);
    if (line.verb >= Verb::repeat) return block_step(line);
    server_step(line);
  }

  static std::string refused_with(std::int64_t taken) {
    return errno_text(static_cast<std::uint16_t>(-taken));
  }
  void map(const DeviceLine& line) {
    const AccessMode mode = line.read_only ? AccessMode::read_only : AccessMode::read_write;
    const std::int64_t taken = w_.map(line.disk, mode);
    if (line.is == Outcome::error)
      return taken == -std::int64_t{line.error} ? void()
             : taken >= 0                       ? w_.fail("it is not refused at once")
                                                : w_.fail("it is refused with " + refused_with(taken));
    if (taken < 0) return w_.fail("it is refused at once with " + refused_with(taken));
    const auto device = static_cast<DeviceHandle>(taken);
    w_.expect(std::find(used_.begin(), used_.end(), device) == used_.end(), "a handle is never used again");
    used_.push_back(device);
    handles_[line.disk] = device;
  }
  void opened(const DeviceLine& line) {
    const DeviceHandle device = handle(line);
    if (w_.failed()) return;
    w_.until(
        line.disk + " is open", [&] { return w_.state(device) == DeviceState::open; },
        [&] { return state_text(device); });
  }
  std::string state_text(DeviceHandle device) const {
    const std::string refusal =
        w_.refusal(device) == 0 ? "" : ", refused with " + errno_text(w_.refusal(device));
    return std::string("it is ") + rnbd::to_string(w_.state(device)) + refusal;
  }

  void device_step(const DeviceLine& line) {
    switch (line.verb) {
      case Verb::disk: {
        BlockDisk& disk = w_.disk(line.disk);
        disk.memory = line.memory;
        disk.fua = !line.no_fua;
        disk.writable = !line.read_only;
        return;
      }
      case Verb::add_disk:
        w_.add_disk(line.disk, draw(line.sectors));
        return;
      case Verb::map:
        return map(line);
      case Verb::open:
        map(line);
        return opened(line);
      case Verb::opened:
        return opened(line);
      default:
        break;
    }
    const DeviceHandle device = handle(line);
    if (w_.failed()) return;
    switch (line.verb) {
      case Verb::remap:
        return w_.remap(device);
      case Verb::unmap:
        return w_.unmap(device);
      case Verb::unmapped:
        w_.until(
            line.disk + " is unmapped", [&] { return w_.state(device) == DeviceState::unmapped; },
            [&] { return state_text(device); });
        return;
      case Verb::refused:
        w_.until(
            line.disk + " is refused with " + errno_text(line.error),
            [&] { return w_.refusal(device) == line.error && w_.state(device) != DeviceState::open; },
            [&] { return state_text(device); });
        return;
      default:
        rule_of_device(line, device);
    }
  }
  // Fails the run, with the actual value, if the rule that the line states is broken.
  void rule_of_device(const DeviceLine& line, DeviceHandle device) {
    const auto compare = [this](std::uint64_t is, std::uint64_t asked, const char* before,
                                const char* after) {
      if (is != asked) w_.fail(before + std::to_string(is) + after + ", not " + std::to_string(asked));
    };
    switch (line.verb) {
      case Verb::not_open:
        if (w_.state(device) == DeviceState::open) w_.fail("it is open");
        return;
      case Verb::openings:
        return compare(w_.times_opened(device), draw(line.number), "it was opened ", " times");
      case Verb::size: {
        const rnbd::Geometry* geometry = w_.geometry(device);
        return compare(geometry == nullptr ? 0 : geometry->nsectors, line.sectors.low, "the client knows ",
                       " sectors");
      }
      default:
        compare(w_.disk(line.disk).holders, line.number.low, "it is held open by ", " sessions");
    }
  }

  static Opcode opcode(Verb verb) {
    return verb == Verb::write     ? Opcode::write
           : verb == Verb::read    ? Opcode::read
           : verb == Verb::flush   ? Opcode::flush
           : verb == Verb::discard ? Opcode::discard
                                   : Opcode::write_zeroes;
  }
  std::uint32_t submit(const DeviceLine& line) {
    const Opcode code = opcode(line.verb);
    const bool places = code != Opcode::flush;
    return w_.submit(handle(line), code, places ? line.sector.low : 0,
                     places ? static_cast<std::uint32_t>(line.sectors.low) : 0, line.fua);
  }
  void judge(const Io& io, const DeviceLine& asked) {
    const std::uint16_t result = done(w_, io.number);
    if (w_.failed()) return;
    const bool last = asked.is == Outcome::ok_at_last;
    const bool as_asked = asked.is == Outcome::ok       ? result == 0
                          : asked.is == Outcome::failed ? result != 0
                          : last                        ? result == 0 || result == EIO
                                                        : result == asked.error;
    const std::string which =
        asked.line == io.line.line ? "it" : "'" + io.line.text + "' of line " + std::to_string(io.line.line);
    if (!as_asked) return w_.fail(which + " ended with " + errno_text(result));
    if (!last || result == 0) return;
    const std::uint16_t again = done(w_, submit(io.line));
    if (again != 0)
      w_.fail(which + " ended with " + errno_text(result) + ", and then again with " + errno_text(again));
  }

  void any_load(const DeviceLine& line) {
    static constexpr Verb kVerbs[] = {Verb::write, Verb::read,    Verb::write,       Verb::read,
                                      Verb::flush, Verb::discard, Verb::write_zeroes};
    const std::uint64_t count = draw(line.number);
    // Default: one to eight sectors.
    const bool is_default = line.sectors.low == 8 && line.sectors.high == 9;
    for (std::uint64_t io = 0; io < count && !w_.failed(); ++io) {
      DeviceLine one = line;
      one.verb = kVerbs[w_.draw(7)];
      one.sectors.low = one.verb == Verb::flush ? 0 : is_default ? 1 + w_.draw(8) : draw(line.sectors);
      one.sector.low = one.verb == Verb::flush || one.sectors.low >= kSectors
                           ? 0
                           : w_.draw(kSectors - static_cast<std::uint32_t>(one.sectors.low));
      one.fua = one.verb == Verb::write && w_.draw(4) == 0;
      submit(one);
      if (w_.draw(3) == 0) w_.pass(microseconds(w_.draw(2000)));
    }
  }

  void io_step(const DeviceLine& line) {
    if (line.verb == Verb::done) {
      const auto found = ios_.find(line.disk);
      return found != ios_.end() ? judge(found->second, line)
                                 : w_.fail("no IO was submitted as=" + line.disk);
    }
    const DeviceHandle device = handle(line);
    if (w_.failed()) return;
    if (line.verb == Verb::load) return any_load(line);
    if (line.verb == Verb::spread) return spread(w_, device, static_cast<std::uint32_t>(draw(line.number)));
    Io io;
    io.line = line;
    io.line.sector.low = line.verb == Verb::flush ? 0 : draw(line.sector);
    io.line.sectors.low = line.verb == Verb::flush ? 0 : draw(line.sectors);
    io.number = submit(io.line);
    if (!line.as.empty()) ios_[line.as] = io;
    if (line.is != Outcome::unasked) judge(io, line);
  }

  template <class Act>
  void of_paths(const DeviceLine& line, Act act) {
    if (!line.both_paths) return act(static_cast<std::uint32_t>(draw(line.path)));
    for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path) act(path);
  }

  void server_step(const DeviceLine& line) {
    switch (line.verb) {
      case Verb::over:
        w_.until(
            "every IO has ended", [this] { return w_.all_completed(); },
            [this] { return std::to_string(w_.under_way()) + " are not"; });
        return;
      case Verb::crash:
        return w_.crash_server(death(line));
      case Verb::start:
        return w_.server_up() ? w_.fail("the server is up already") : w_.start_server();
      case Verb::restart:
        w_.crash_server(death(line));
        w_.pass(time(line));
        return w_.start_server();
      case Verb::replace:
        return w_.replace_server();
      case Verb::cut:
        return of_paths(line, [this](std::uint32_t path) { w_.cut(path); });
      case Verb::heal:
        return of_paths(line, [this](std::uint32_t path) { w_.heal(path); });
      case Verb::break_path:
        return of_paths(line, [this](std::uint32_t path) { w_.break_path(path); });
      case Verb::link_up:
        w_.until("the link is up", [this] { return w_.link_up(); });
        return;
      case Verb::link_down:
        w_.until("the link is down", [this] { return !w_.link_up(); });
        return;
      default:
        disk_step(line);
    }
  }

  void disk_step(const DeviceLine& line) {
    switch (line.verb) {
      case Verb::take_away:
        return w_.take_away(line.disk);
      case Verb::resize:
        return w_.resize(line.disk, draw(line.sectors));
      case Verb::absent:
        return w_.refuse_opens(line.disk, line.error);
      case Verb::fail_sync:
        return w_.fail_sync(line.disk);
      case Verb::next_sync_fails:
        w_.disk(line.disk).next_sync_fails = true;
        return;
      case Verb::in_storage:
        w_.until(
            "storage works for " + std::to_string(line.number.low),
            [&] { return w_.storage_in_flight() >= line.number.low; },
            [&] { return "it works for " + std::to_string(w_.storage_in_flight()); });
        return;
      case Verb::acted:
        w_.until(
            std::to_string(line.number.low) + " operations have acted",
            [&] { return w_.disk(line.disk).operations >= line.number.low; },
            [&] { return std::to_string(w_.disk(line.disk).operations) + " have"; });
        return;
      default:
        return w_.pass(time(line));
    }
  }

  void block_step(const DeviceLine& line) {
    if (line.verb == Verb::either)
      return play(line.parts[w_.draw(static_cast<std::uint32_t>(line.parts.size()))]);
    const std::uint64_t rounds = draw(line.number);
    for (std::uint64_t round = 0; round < rounds && !w_.failed(); ++round) play(line.parts.front());
  }

  BlockWorld& w_;
  std::map<std::string, DeviceHandle, std::less<>> handles_;  // last handle of each disk
  std::vector<DeviceHandle> used_;
  std::map<std::string, Io, std::less<>> ios_;
};

}  // namespace

void play(BlockWorld& world, const DeviceScript& script) {
  DevicePlayer(world).play(script);
  world.set_place({});
}

void play_disks(World& world, const std::vector<DeviceScriptReader::Disk>& disks,
                const std::function<void(BlockWorld&)>& what) {
  BlockWorld w(world);
  for (const DeviceScriptReader::Disk& disk : disks) w.add_disk(disk.name, disk.sectors);
  w.start_server();
  w.start_client();
  w.until("the session is up", [&] { return w.link_up(); });
  what(w);
  w.finish();
}

}  // namespace rtrs::sim
