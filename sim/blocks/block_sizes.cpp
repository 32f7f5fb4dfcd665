// Disks that change their size, with and without a server that restarts.
#include <cerrno>

#include "sim/blocks/block_lifecycles.hpp"
#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

void grown(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  w.expect(done(w, w.submit(device, Opcode::write, kSectors - 1, 2)) == EIO, "nothing is behind the end");
  w.crash_server();
  w.resize("a", 2 * kSectors);
  w.start_server();
  // A client that never was without a path learns of the new server by its IO.
  good(w, w.submit(device, Opcode::read, 0, 1));
  w.expect(w.times_opened(device) == 2, "it was opened again");
  w.expect(w.geometry(device)->nsectors == 2 * kSectors, "the size is that of the last OPEN");
  good(w, w.submit(device, Opcode::write, 2 * kSectors - 4, 4));
  good(w, w.submit(device, Opcode::read, 2 * kSectors - 4, 4));
}
void shrunk(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  good(w, w.submit(device, Opcode::write, kSectors - 8, 8));
  w.crash_server();
  w.resize("a", kSectors / 2);
  const auto late = w.submit(device, Opcode::read, kSectors - 8, 8);
  w.start_server();
  w.expect(done(w, late) == EIO, "what is behind the new end is an error");
  good(w, w.submit(device, Opcode::write, 0, 8));
}
void grown_under_load(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  spread(w, device, 8);
  w.resize("a", 2 * kSectors);
  over(w);
  w.break_path(0);
  w.break_path(1);
  w.until("it was opened again", [&] { return w.times_opened(device) == 2; });
  w.expect(w.geometry(device)->nsectors == 2 * kSectors, "the size is that of the last OPEN");
  good(w, w.submit(device, Opcode::write, 2 * kSectors - 4, 4, true));
  good(w, w.submit(device, Opcode::read, 2 * kSectors - 4, 4));
  // Larger than the client knows, and as large as it knew, without another OPEN.
  w.resize("a", kSectors);
  w.expect(done(w, w.submit(device, Opcode::read, 2 * kSectors - 4, 4)) == EIO, "what is gone is an error");
  w.expect(done(w, w.submit(device, Opcode::write, 2 * kSectors - 8, 4)) == EIO, "for writes as well");
  w.resize("a", 2 * kSectors);
  good(w, w.submit(device, Opcode::read, 2 * kSectors - 4, 4));
  good(w, w.submit(device, Opcode::write, 2 * kSectors - 8, 4));
}
void resized_under_load(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (unsigned round = 0; round < 10 && !w.failed(); ++round) {
    load(w, device, 1 + w.draw(8));
    if (w.draw(2) == 0) w.resize("a", w.draw(2) == 0 ? kSectors : kSectors / 2 + w.draw(kSectors));
    if (w.draw(3) == 0) w.break_path(w.draw(2));
    if (w.draw(4) == 0) w.remap(device);
    if (w.draw(6) == 0) restart(w, milliseconds(w.draw(2000)));
  }
  over(w);
  w.resize("a", kSectors);
  w.remap(device);
  good(w, w.submit(device, Opcode::write, 0, 8));
  good(w, w.submit(device, Opcode::read, 0, 8));
}

}  // namespace rtrs::sim
