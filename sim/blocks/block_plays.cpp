#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

using rnbd::DeviceState;

DeviceHandle open(BlockWorld& w, const std::string& name, AccessMode mode) {
  const std::int64_t handle = w.map(name, mode);
  w.expect(handle >= 0, "a map begins");
  const auto device = static_cast<DeviceHandle>(handle);
  w.until("the device is open", [&] { return w.state(device) == DeviceState::open; });
  return device;
}
std::uint16_t done(BlockWorld& w, std::uint32_t io) {
  w.until("an IO has ended", [&] { return w.is_over(io); });
  return w.result(io);
}
void good(BlockWorld& w, std::uint32_t io) {
  w.expect(done(w, io) == 0, "an IO succeeds");
}
void load(BlockWorld& w, DeviceHandle device, unsigned count) {
  static constexpr Opcode kOpcodes[] = {Opcode::write, Opcode::read,    Opcode::write,       Opcode::read,
                                        Opcode::flush, Opcode::discard, Opcode::write_zeroes};
  for (unsigned io = 0; io < count && !w.failed(); ++io) {
    const Opcode opcode = kOpcodes[w.draw(7)];
    const std::uint32_t sectors = opcode == Opcode::flush ? 0 : 1 + w.draw(8);
    const std::uint64_t at = opcode == Opcode::flush ? 0 : w.draw(kSectors - sectors);
    w.submit(device, opcode, at, sectors, opcode == Opcode::write && w.draw(4) == 0);
    if (w.draw(3) == 0) w.pass(microseconds(w.draw(2000)));
  }
}
void spread(BlockWorld& w, DeviceHandle device, std::uint32_t count) {
  w.until("every IO has ended", [&] { return w.all_completed(); });
  for (std::uint32_t io = 0; io < count && !w.failed(); ++io)
    w.submit(device, io % 3 == 2 ? Opcode::read : Opcode::write, 8 * io, 4, io % 2 == 0);
}
void over(BlockWorld& w) {
  w.until("every IO has ended", [&] { return w.all_completed(); });
}
void restart(BlockWorld& w, Nanos down) {
  w.crash_server();
  w.pass(down);
  w.start_server();
}

}  // namespace rtrs::sim
