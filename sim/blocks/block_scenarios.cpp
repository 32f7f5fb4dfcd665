#include "sim/blocks/block_scenarios.hpp"

#include <algorithm>
#include <cerrno>

#include "sim/blocks/block_caches.hpp"
#include "sim/blocks/block_lifecycles.hpp"
#include "sim/blocks/block_plays.hpp"
#include "sim/blocks/random_blocks.hpp"

namespace rtrs::sim {

namespace {

using rnbd::DeviceState;

void io_before_open(BlockWorld& w) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  load(w, device, 10);
  over(w);
  w.expect(w.times_opened(device) == 1, "it is opened once");
}
void nothing_of_old_memory(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (unsigned round = 0; round < 8; ++round) load(w, device, 12);
  over(w);
  open(w, "b");
  load(w, device, 10);
}
void refused_names(BlockWorld& w) {
  for (const char* name : {"nowhere", "a/../b", "../a", "a "}) {
    const std::int64_t handle = w.map(name);
    if (handle < 0) continue;
    const auto device = static_cast<DeviceHandle>(handle);
    w.until("the map ends", [&] { return w.state(device) == DeviceState::unmapped; });
    w.expect(w.refusal(device) == ENOENT, "with the errno of the server");
  }
  w.expect(w.map("") < 0 && w.map(std::string(255, 'x')) < 0, "what is no name is refused at once");
  w.disk("b").writable = false;
  const auto denied = static_cast<DeviceHandle>(w.map("b"));
  w.until("the map ends", [&] { return w.state(denied) == DeviceState::unmapped; });
  w.expect(w.refusal(denied) == EPERM, "a disk that may not be written says so");
}
void messages_sent_again(BlockWorld& w) {
  const DeviceHandle first = open(w, "a");
  const auto second = static_cast<DeviceHandle>(w.map("b"));
  w.break_path(0);
  w.pass(microseconds(w.draw(2000)));
  w.break_path(1);
  load(w, first, 5);
  w.until("both are open", [&] { return w.state(second) == DeviceState::open && w.all_over(); });
}
void closed_by_force_under_io(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  spread(w, device, 8);
  w.until("storage works", [&] { return w.storage_under_way() >= 2; });
  w.take_away("a");
  w.expect(w.disk("a").holders == 1, "it stays open until its IO is over");
  load(w, device, 8);
  over(w);
  w.until("it is open again", [&] { return w.state(device) == DeviceState::open; });
}
void force_then_close(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  spread(w, device, 6);
  w.until("storage works", [&] { return w.storage_under_way() >= 2; });
  w.take_away("a");
  w.unmap(device);
  w.until("it is unmapped", [&] { return w.state(device) == DeviceState::unmapped; });
  over(w);
  open(w, "a");
}
void close_then_force(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  load(w, device, 8);
  w.unmap(device);
  w.pass(microseconds(w.draw(1500)));
  w.take_away("a");
  w.until("it is unmapped", [&] { return w.state(device) == DeviceState::unmapped; });
  over(w);
  open(w, "a");
}
void session_lost_while_closing(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  spread(w, device, 6);
  w.until("storage works", [&] { return w.storage_under_way() >= 2; });
  w.take_away("a");
  w.unmap(device);
  w.cut(0);
  w.cut(1);
  w.pass(seconds(20));
  w.heal(0);
  w.heal(1);
  w.until("it is unmapped", [&] { return w.state(device) == DeviceState::unmapped; });
}
void taken_away(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  good(w, w.submit(device, Opcode::write, 0, 8));
  w.take_away("a");
  good(w, w.submit(device, Opcode::read, 0, 8));
  w.expect(w.times_opened(device) == 2, "it was opened again by itself");
}
// The disks are opened in another order by the next server, so that ids of its predecessor would name others.
void ids_of_a_former_server(BlockWorld& w) {
  const DeviceHandle first = open(w, "a");
  const DeviceHandle second = open(w, "b");
  load(w, first, 6);
  spread(w, second, 8);
  w.crash_server();
  w.unmap(first);
  w.pass(milliseconds(w.draw(3000)));
  w.start_server();
  const DeviceHandle again = open(w, "a");
  load(w, again, 6);
  load(w, second, 6);
  over(w);
}
void opened_twice(BlockWorld& w) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  w.remap(device);
  w.pass(microseconds(w.draw(300)));
  w.remap(device);
  load(w, device, 6);
  over(w);
  w.expect(w.state(device) == DeviceState::open, "it is open");
}
void map_without_path(BlockWorld& w) {
  const DeviceHandle first = open(w, "a");
  w.cut(0);
  w.cut(1);
  w.until("the link is down", [&] { return !w.link_up(); });
  const auto second = static_cast<DeviceHandle>(w.map("b"));
  w.pass(seconds(10));
  w.expect(w.state(second) != DeviceState::open, "nothing is open without a server");
  w.heal(0);
  w.heal(1);
  w.until("the link is up", [&] { return w.link_up(); });
  if (w.state(second) == DeviceState::unmapped) open(w, "b");
  w.until("the first is open", [&] { return w.state(first) == DeviceState::open; });
  good(w, w.submit(first, Opcode::write, 3, 4));
}
void link_lost_in_a_map(BlockWorld& w) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  w.pass(microseconds(w.draw(400)));
  w.crash_server();
  spread(w, device, 4);
  w.pass(seconds(5));
  w.start_server();
  w.until("it is open", [&] { return w.state(device) == DeviceState::open; });
  over(w);
}
void restarts_under_io(BlockWorld& w) {
  const DeviceHandle first = open(w, "a");
  const DeviceHandle second = open(w, "b");
  for (unsigned round = 0; round < 5 && !w.failed(); ++round) {
    load(w, first, 8);
    load(w, second, 8);
    restart(w, milliseconds(w.draw(3000)));
  }
  load(w, first, 10);
  over(w);
}
void without_data_over_failover(BlockWorld& w) {
  const DeviceHandle device = open(w, "a");
  for (unsigned round = 0; round < 4 && !w.failed(); ++round) {
    good(w, w.submit(device, Opcode::write, 0, 16));
    const auto zeroes = w.submit(device, Opcode::write_zeroes, 2, 4);
    const auto discard = w.submit(device, Opcode::discard, 8, 3);
    const auto flush = w.submit(device, Opcode::flush, 0, 0);
    w.break_path(round % 2);
    good(w, zeroes);
    good(w, discard);
    good(w, flush);
    good(w, w.submit(device, Opcode::read, 0, 16));
  }
}
void read_only(BlockWorld& w) {
  const DeviceHandle device = open(w, "a", AccessMode::read_only);
  good(w, w.submit(device, Opcode::read, 0, 8));
  for (const Opcode opcode : {Opcode::write, Opcode::discard, Opcode::write_zeroes})
    w.expect(done(w, w.submit(device, opcode, 0, 4)) != 0, "a change is refused");
  restart(w, milliseconds(500));
  good(w, w.submit(device, Opcode::read, 0, 8));
  w.expect(done(w, w.submit(device, Opcode::write, 4, 4)) != 0, "and after a restart");
}
void more_devices_than_permits(BlockWorld& w) {
  constexpr unsigned kDevices = 12;
  std::vector<DeviceHandle> devices;
  for (unsigned disk = 0; disk < kDevices; ++disk) {
    const std::string name = "disk" + std::to_string(disk);
    w.add_disk(name, kSectors);
    devices.push_back(open(w, name));
  }
  for (unsigned round = 0; round < 3 && !w.failed(); ++round) {
    for (const DeviceHandle device : devices) load(w, device, 2);
    restart(w, milliseconds(700));
    w.until("all are open again", [&] {
      return std::all_of(devices.begin(), devices.end(),
                         [&](auto device) { return w.state(device) == DeviceState::open; });
    });
  }
}
void anything(BlockWorld& w) {
  const DeviceHandle first = open(w, "a");
  const DeviceHandle second = open(w, "b", w.draw(4) == 0 ? AccessMode::read_only : AccessMode::read_write);
  for (unsigned round = 0; round < 12 && !w.failed(); ++round) {
    load(w, w.draw(2) == 0 ? first : second, 1 + w.draw(8));
    const std::uint32_t path = w.draw(2);
    switch (w.draw(8)) {
      case 0:
        restart(w, milliseconds(w.draw(5000)));
        break;
      case 1:
        w.take_away(w.draw(2) == 0 ? "a" : "b");
        break;
      case 2:
      case 3:
        w.break_path(path);
        break;
      case 4:
        w.cut(path);
        w.pass(milliseconds(w.draw(4000)));
        w.heal(path);
        break;
      case 5:
        w.remap(first);
        break;
      default:
        w.pass(milliseconds(w.draw(500)));
        break;
    }
  }
  over(w);
}

constexpr BlockOptions kUsual{};
constexpr BlockOptions kOnePermit{1, kNever, milliseconds(1), 0};
constexpr BlockOptions kImpatient{8, seconds(2), milliseconds(1), 0};
constexpr BlockOptions kSlow{8, kNever, milliseconds(400), 0};
constexpr BlockOptions kShort{4, kNever, milliseconds(1), 300'000};

constexpr BlockScenario kScenarios[] = {
    {"R68", "the memory of answers was full of data: nothing of it goes out with them", kUsual,
     nothing_of_old_memory},
    {"R69", "names that are not there, that lead elsewhere, that are none; a disk that may not be written",
     kUsual, refused_names},
    {"R71a", "paths die with messages on their way: they are sent again and answered", kUsual,
     messages_sent_again},
    {"R71b", "the same with slow storage and a fabric that takes a part of what is posted", kShort,
     messages_sent_again},
    {"R73", "a device is closed by force under IO, and opened again by its client", kSlow,
     closed_by_force_under_io},
    {"R74a", "closed by force, then by the client", kSlow, force_then_close},
    {"R74b", "closed by the client, then by force", kSlow, close_then_force},
    {"R74c", "closed by force and by the client, and the session is lost", kSlow, session_lost_while_closing},
    {"R75a", "the server takes a device away: IO goes on under another id", kUsual, taken_away},
    {"R75b", "ids of a server that died name other devices of the next: no IO goes astray", kUsual,
     ids_of_a_former_server},
    {"R76", "a device is asked for again while OPEN is unanswered: one answer counts", kUsual, opened_twice},
    {"R77a", "a map without any path, and requests that wait for ever", kUsual, map_without_path},
    {"R77b", "a map without any path, and requests that give up", kImpatient, map_without_path},
    {"R78", "the server dies in the middle of a map", kUsual, link_lost_in_a_map},
    {"R79", "the server restarts five times under IO: devices come back by themselves", kUsual,
     restarts_under_io},
    {"R81", "discard, write-zeroes and flush while paths die: lengths are right and each acts", kUsual,
     without_data_over_failover},
    {"R82a", "what was written with FUA or flushed survives the death of the server", kUsual, durable_writes},
    {"R82b", "a flush that moves to another path is a flush", kSlow, flush_and_failover},
    {"R83a", "a disk grows while the server is down", kUsual, grown},
    {"R83b", "a disk shrinks while the server is down", kUsual, shrunk},
    {"R83c", "a disk grows, shrinks and grows again while it is open", kUsual, grown_under_load},
    {"R83d", "a disk changes its size at any time under load", kUsual, resized_under_load},
    {"R83e", "the same with slow storage", kSlow, resized_under_load},
    {"L20", "a device that is opened read-only does not change, after a restart neither", kUsual, read_only},
    {"L21", "twelve devices and one permit: all come back after every restart", kOnePermit,
     more_devices_than_permits},
    {"BD01", "IO before OPEN was answered waits for it", kUsual, io_before_open},
    {"BD02", "anything at any time", kUsual, anything},
    {"BD03", "anything with one permit", kOnePermit, anything},
    {"BD04", "anything with slow storage", kSlow, anything},
    {"BD05", "anything with a fabric that takes a part of what is posted", kShort, anything},
    {"BD06", "a device is unmapped while it is opened again", kUsual, unmapped_in_a_remap},
    {"BD07", "a device is unmapped under IO: its CLOSE overtakes nothing", kSlow, unmapped_under_io},
    {"BD08", "a device is mapped as the link returns", kUsual, mapped_as_the_link_returns},
    {"BD09", "a device that the next server refuses, until it is asked for again", kUsual,
     refused_for_a_while},
    {"BD10", "a device is mapped twice", kUsual, mapped_twice},
    {"BD11", "the server's host dies over writes that were not flushed: the next flush says so", kUsual,
     lost_with_the_host},
    {"BD12", "the same, and writes with FUA say so, and flushes that wait together", kUsual,
     told_by_fua_and_by_all_that_wait},
    {"BD13", "the server's process dies alone, or its host with everything flushed: no flush complains",
     kUsual, nothing_lost},
    {"BD14", "writes are under way when the host dies: on the next host they are not flushed yet", kSlow,
     lost_under_way},
    {"BD15", "a memory disk dies with the server's process", kUsual, memory_lost},
    {"BD16", "a sync fails: every flush fails until the device is opened again", kUsual, sync_fails},
    {"BD17", "a sync of another session fails: this one's flush says so, over a reconnect too", kUsual,
     sync_of_another_fails},
    {"BD18", "anything, with hosts and processes that die and syncs that fail", kUsual, anything_cached},
    {"BD19", "the host died, and a flush is told while another one is held: both are", kSlow,
     two_flushes_one_held},
    {"BD20", "a sync fails, and one that runs at the same time ends first: both flushes fail", kSlow,
     two_flushes_one_failure},
    {"BD21", "a sync fails in one process of the server, and one in the next: both losses are told", kUsual,
     syncs_of_two_processes_fail},
    {"BD22", "requests of several messages, while servers die and devices are taken away", kSlow,
     requests_of_several_messages},
    {"BD23", "durable writes to a device that cannot write durably: a flush follows each", kUsual,
     durable_writes_by_flush},
    {"BD25",
     "the first message of a write is lost with its server, and a flush tells so before the write is over",
     {1, kNever, milliseconds(400), 0, 65536},
     lost_in_part},
    {kRandomBlocks, "random options, disks, load, faults and operators", {}, play_random_blocks, true},
};

}  // namespace

std::span<const BlockScenario> block_scenarios() {
  return kScenarios;
}

const BlockScenario* find_block_scenario(std::string_view id) {
  const auto all = block_scenarios();
  const auto found = std::find_if(all.begin(), all.end(), [id](const auto& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

namespace {

void play(World& world, const BlockScenario& scenario) {
  BlockWorld w(world);
  w.add_disk("a", kSectors);
  w.add_disk("b", kSectors);
  if (scenario.random) w.add_disk("c", kSectors);
  w.start_server();
  w.start_client();
  w.until("the session is up", [&] { return w.link_up(); });
  scenario.play(w);
  w.finish();
}

}  // namespace

Scenario make_block_world(const BlockScenario& scenario, ChoiceSource& choice) {
  Scenario s = block_world_of(scenario.random ? draw_block_options(choice) : scenario.options);
  drive(s, scenario);
  return s;
}

void drive(Scenario& world, const BlockScenario& scenario) {
  world.play = {&scenario, scenario.id, play};
}

}  // namespace rtrs::sim
