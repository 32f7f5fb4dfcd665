#include "sim/blocks/block_caches.hpp"

#include <cerrno>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

namespace {

using rnbd::DeviceState;
void told(BlockWorld& w, std::uint32_t io) {
  w.expect(done(w, io) == EIO, "an IO tells that something was lost");
}
std::uint32_t flush(BlockWorld& w, DeviceHandle device) {
  return w.submit(device, Opcode::flush, 0, 0);
}
std::uint32_t write(BlockWorld& w, DeviceHandle device, bool fua = false) {
  return w.submit(device, Opcode::write, w.draw(kSectors - 8), 8, fua);
}
// Once it may tell of a loss, not twice.
void good_in_the_end(BlockWorld& w, DeviceHandle device, Opcode opcode, std::uint64_t at, bool fua) {
  const std::uint32_t sectors = opcode == Opcode::flush ? 0 : 8;
  const std::uint16_t error = done(w, w.submit(device, opcode, at, sectors, fua));
  w.expect(error == 0 || error == EIO, "an IO succeeds, or tells that something was lost");
  if (error != 0) good(w, w.submit(device, opcode, at, sectors, fua));
}
void mixed_load(BlockWorld& w, DeviceHandle device, unsigned count) {
  static constexpr Opcode kOpcodes[] = {Opcode::write, Opcode::read,    Opcode::write,
                                        Opcode::flush, Opcode::discard, Opcode::write_zeroes};
  for (unsigned io = 0; io < count && !w.failed(); ++io) {
    const Opcode opcode = kOpcodes[w.draw(6)];
    const std::uint32_t sectors = opcode == Opcode::flush ? 0 : 1 + w.draw(8);
    const std::uint64_t at = opcode == Opcode::flush ? 0 : w.draw(kSectors - sectors);
    w.submit(device, opcode, at, sectors, opcode == Opcode::write && w.draw(4) == 0);
    if (w.draw(3) == 0) w.pass(microseconds(w.draw(2000)));
  }
}
void restart(BlockWorld& w, Death death, Nanos down = milliseconds(100)) {
  w.crash_server(death);
  w.pass(down);
  w.start_server();
}
void lose_session(BlockWorld& w) {
  for (const std::uint32_t path : {0U, 1U}) w.cut(path);
  w.pass(seconds(30));
  for (const std::uint32_t path : {0U, 1U}) w.heal(path);
  w.until("the link is up", [&] { return w.link_up(); });
}

}  // namespace

void durable_writes(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (unsigned round = 0; round < 6 && !w.failed(); ++round) {
    good_in_the_end(w, device, Opcode::write, w.draw(20), true);
    good(w, w.submit(device, Opcode::write, 30 + w.draw(20), 8));
    if (round % 2 == 0) good_in_the_end(w, device, Opcode::flush, 0, false);
    mixed_load(w, device, 3);
    restart(w, Death::host);
  }
  over(w);
  good(w, w.submit(device, Opcode::read, 0, 20));
}

void durable_writes_by_flush(BlockWorld& w) {
  w.disk("a").fua = false;
  durable_writes(w);
}

void flush_and_failover(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (unsigned round = 0; round < 6 && !w.failed(); ++round) {
    good(w, w.submit(device, Opcode::write, w.draw(50), 8));
    const auto io = flush(w, device);
    w.pass(microseconds(w.draw(1200)));
    w.break_path(round % 2);
    good(w, io);
    restart(w, Death::host, milliseconds(50));
  }
}

void lost_with_the_host(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (const Opcode change : {Opcode::write, Opcode::discard, Opcode::write_zeroes}) {
    good(w, w.submit(device, change, w.draw(kSectors - 8), 8));
    restart(w, Death::host);
    if (w.draw(2) == 0) good(w, write(w, device));
    told(w, flush(w, device));
    good(w, write(w, device));
    good(w, write(w, device, true));
    good(w, flush(w, device));
  }
  // Twice another host before anybody asked: told once.
  good(w, write(w, device));
  restart(w, Death::host);
  w.until("it is open again", [&] { return w.state(device) == DeviceState::open; });
  restart(w, Death::host);
  told(w, flush(w, device));
  good(w, flush(w, device));
}

void told_by_fua_and_by_all_that_wait(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  good(w, write(w, device));
  restart(w, Death::host);
  told(w, write(w, device, true));
  good(w, write(w, device, true));
  told(w, flush(w, device));
  good(w, flush(w, device));
  good(w, write(w, device));
  w.crash_server();
  const std::uint32_t first = flush(w, device), second = flush(w, device), third = flush(w, device);
  w.pass(milliseconds(100));
  w.start_server();
  for (const std::uint32_t io : {first, second, third}) told(w, io);
  good(w, flush(w, device));
}

void nothing_lost(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  const DeviceHandle reader = open(w, "b", AccessMode::read_only);
  for (unsigned round = 0; round < 3 && !w.failed(); ++round) {
    good(w, write(w, device));
    restart(w, Death::process, milliseconds(w.draw(3000)));
    good(w, write(w, device, true));
    good(w, flush(w, device));
    good(w, w.submit(reader, Opcode::read, 0, 8));
    restart(w, Death::host);
    good(w, flush(w, reader));
    good(w, write(w, device, true));
    restart(w, Death::host);
    good(w, flush(w, device));
    good(w, write(w, device));
    lose_session(w);
    good(w, flush(w, device));
  }
}

void lost_under_way(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (unsigned round = 0; round < 3 && !w.failed(); ++round) {
    for (std::uint32_t io = 0; io < 6; ++io) w.submit(device, Opcode::write, 8 * io, 8);
    w.pass(milliseconds(w.draw(500)));
    restart(w, Death::host);
    over(w);
    // Those that the first host did not acknowledge were sent again, and are in the cache of the second.
    restart(w, Death::host);
    told(w, flush(w, device));
    good(w, flush(w, device));
  }
}

void memory_lost(BlockWorld& w) {
  w.disk("a").memory = true;
  const DeviceHandle device = open(w, "a");
  for (const Death death : {Death::process, Death::host}) {
    good(w, write(w, device));
    restart(w, death);
    told(w, flush(w, device));
    good(w, flush(w, device));
    good(w, w.submit(device, Opcode::read, 0, 8));
  }
}

void lost_in_part(BlockWorld& w) {
  w.disk("a").memory = true;
  const DeviceHandle device = open(w, "a");
  const std::uint32_t io = w.submit(device, Opcode::write, 0, 60);
  w.until("its first message has acted", [&] { return w.disk("a").operations == 1; });
  w.pass(milliseconds(1));
  w.crash_server(Death::process);
  const std::uint32_t first = flush(w, device);
  w.start_server();
  told(w, first);
  good(w, io);
  good(w, flush(w, device));
  good(w, w.submit(device, Opcode::read, 0, 60));
}

void sync_fails(BlockWorld& w) {
  DeviceHandle device = open(w, "a");
  good(w, write(w, device));
  w.disk("a").next_sync_fails = true;
  told(w, flush(w, device));
  good(w, write(w, device));
  for (unsigned again = 0; again < 3; ++again) told(w, flush(w, device));
  good(w, write(w, device, true));
  w.unmap(device);
  w.until("it is unmapped", [&] { return w.state(device) == DeviceState::unmapped; });
  device = open(w, "a");
  good(w, write(w, device));
  good(w, flush(w, device));
}

void sync_of_another_fails(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  good(w, write(w, device));
  w.fail_sync("a");
  told(w, flush(w, device));
  told(w, flush(w, device));
  // Opened again it is another instance, because the changes of before were never flushed.
  lose_session(w);
  told(w, flush(w, device));
  good(w, flush(w, device));
  good(w, write(w, device));
  w.fail_sync("a");
  lose_session(w);
  good(w, write(w, device));
  told(w, flush(w, device));
  good(w, flush(w, device));
}

void two_flushes_one_held(BlockWorld& w) {
  w.add_disk("c", kSectors);
  const DeviceHandle device = open(w, "a");
  good(w, write(w, device));
  restart(w, Death::host);
  w.until("it is open again", [&] { return w.state(device) == DeviceState::open; });
  const std::uint32_t first = flush(w, device);
  w.pass(microseconds(w.draw(1000)));
  const auto other = w.map("c");  // holds all IO until what is under way has ended
  w.expect(other >= 0, "a map begins");
  const std::uint32_t second = flush(w, device);
  told(w, first);
  told(w, second);
  good(w, flush(w, device));
}

void two_flushes_one_failure(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  good(w, write(w, device));
  w.disk("a").next_sync_fails = true;
  const std::uint32_t first = flush(w, device), second = flush(w, device);
  for (const std::uint32_t io : {first, second}) told(w, io);
}

void syncs_of_two_processes_fail(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  good(w, write(w, device));
  w.fail_sync("a");
  lose_session(w);
  told(w, flush(w, device));
  good(w, flush(w, device));
  good(w, write(w, device));
  w.crash_server(Death::process);
  w.pass(milliseconds(100));
  w.start_server();
  w.fail_sync("a");
  told(w, flush(w, device));
  good(w, flush(w, device));
}

void anything_cached(BlockWorld& w) {
  w.disk("b").memory = w.draw(2) == 0;
  const DeviceHandle file = open(w, "a");
  const DeviceHandle other = open(w, "b");
  for (unsigned round = 0; round < 12 && !w.failed(); ++round) {
    mixed_load(w, w.draw(3) == 0 ? other : file, 1 + w.draw(6));
    switch (w.draw(8)) {
      case 0:
      case 1:
        restart(w, Death::host, milliseconds(w.draw(2000)));
        break;
      case 2:
        restart(w, Death::process, milliseconds(w.draw(2000)));
        break;
      case 3:
        w.fail_sync("a");
        break;
      case 4:
        w.disk("a").next_sync_fails = true;
        break;
      case 5:
        lose_session(w);
        break;
      case 6:
        w.break_path(w.draw(2));
        break;
      default:
        w.pass(milliseconds(w.draw(500)));
        break;
    }
  }
  over(w);
}

}  // namespace rtrs::sim
