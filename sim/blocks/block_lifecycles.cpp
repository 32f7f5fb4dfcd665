#include "sim/blocks/block_lifecycles.hpp"

#include <cerrno>

namespace rtrs::sim {

namespace {

using rnbd::DeviceState;

DeviceHandle mapped(BlockWorld& w, const std::string& name) {
  const std::int64_t handle = w.map(name);
  w.expect(handle >= 0, "a map begins");
  return static_cast<DeviceHandle>(handle);
}
void open_now(BlockWorld& w, DeviceHandle device) {
  w.until("the device is open", [&] { return w.state(device) == DeviceState::open; });
}
std::uint16_t ended(BlockWorld& w, std::uint32_t io) {
  w.until("an IO is over", [&] { return w.is_over(io); });
  return w.result(io);
}
void gone(BlockWorld& w, DeviceHandle device) {
  w.until("it is unmapped", [&] { return w.state(device) == DeviceState::unmapped; });
}
void works(BlockWorld& w, DeviceHandle device) {
  w.expect(ended(w, w.submit(device, Opcode::write, 0, 8)) == 0, "a write succeeds");
  w.expect(ended(w, w.submit(device, Opcode::read, 0, 8)) == 0, "a read succeeds");
}

}  // namespace

// Each round at another moment of the remap.
void unmapped_in_a_remap(BlockWorld& w) {
  for (unsigned round = 0; round < 6 && !w.failed(); ++round) {
    const DeviceHandle device = mapped(w, "a");
    open_now(w, device);
    works(w, device);
    w.crash_server();
    w.start_server();
    w.until("the link is up", [&] { return w.link_up(); });
    const auto io = w.submit(device, Opcode::read, 0, 4);
    w.pass(microseconds(w.draw(700)));
    w.unmap(device);
    gone(w, device);
    ended(w, io);
  }
  const DeviceHandle last = mapped(w, "a");
  open_now(w, last);
  works(w, last);
}

// The server holds its requests to be of a device that is open: nothing of it comes after its CLOSE.
void unmapped_under_io(BlockWorld& w) {
  for (unsigned round = 0; round < 4 && !w.failed(); ++round) {
    const DeviceHandle device = mapped(w, "a");
    open_now(w, device);
    std::vector<std::uint32_t> ios;
    for (std::uint32_t io = 0; io < 8; ++io)
      ios.push_back(w.submit(device, io % 2 == 0 ? Opcode::write : Opcode::read, 8 * io, 4));
    w.pass(microseconds(w.draw(600)));
    if (round % 2 == 1) w.break_path(round / 2);
    w.unmap(device);
    gone(w, device);
    for (const std::uint32_t io : ios) ended(w, io);
    w.expect(w.disk("a").holders == 0, "it is closed at the server");
  }
}

void mapped_as_the_link_returns(BlockWorld& w) {
  const DeviceHandle first = mapped(w, "a");
  open_now(w, first);
  w.cut(0);
  w.cut(1);
  w.until("the link is down", [&] { return !w.link_up(); });
  w.heal(0);
  w.heal(1);
  w.until("the link is up", [&] { return w.link_up(); });
  const DeviceHandle second = mapped(w, "b");
  open_now(w, first);
  open_now(w, second);
  works(w, first);
  works(w, second);
}

// The next server lets nobody write: the device is refused with its errno until it is asked for again, by
// somebody or when its time comes.
void refused_for_a_while(BlockWorld& w) {
  const DeviceHandle device = mapped(w, "a");
  open_now(w, device);
  works(w, device);
  w.crash_server();
  w.disk("a").writable = false;
  w.start_server();
  w.expect(ended(w, w.submit(device, Opcode::write, 0, 8)) != 0, "nothing is written to it");
  w.until("it is refused", [&] { return w.refusal(device) == EPERM; });
  w.expect(w.state(device) == DeviceState::closed, "it stays mapped");
  w.disk("a").writable = true;
  if (w.draw(2) == 0) w.remap(device);
  open_now(w, device);
  works(w, device);
}

void mapped_twice(BlockWorld& w) {
  const DeviceHandle device = mapped(w, "a");
  w.expect(w.map("a") == -EEXIST, "a name is mapped once");
  open_now(w, device);
  w.expect(w.map("a", AccessMode::read_only) == -EEXIST, "in whatever mode");
  works(w, device);
  w.unmap(device);
  gone(w, device);
  const DeviceHandle next = mapped(w, "a");
  w.expect(next != device, "a handle is never used again");
  open_now(w, next);
  works(w, next);
}

// A message carries 24 sectors at most. Of a request some messages are over, some are sent again to the next
// server, and some were never sent.
void requests_of_several_messages(BlockWorld& w) {
  static constexpr Opcode kOpcodes[] = {Opcode::write, Opcode::read,    Opcode::write,
                                        Opcode::flush, Opcode::discard, Opcode::write_zeroes};
  const DeviceHandle devices[] = {mapped(w, "a"), mapped(w, "b")};
  for (unsigned round = 0; round < 8 && !w.failed(); ++round) {
    for (unsigned io = 0; io < 3 && !w.failed(); ++io) {
      const Opcode opcode = kOpcodes[w.draw(6)];
      const std::uint32_t sectors = opcode == Opcode::flush ? 0 : 20 + w.draw(44);
      const std::uint64_t at = opcode == Opcode::flush ? 0 : w.draw(65 - sectors);
      w.submit(devices[w.draw(2)], opcode, at, sectors, opcode == Opcode::write && w.draw(3) == 0);
    }
    w.pass(microseconds(w.draw(3000)));
    const std::uint32_t event = w.draw(5);
    if (event == 0 || event == 1) {
      w.crash_server(event == 0 ? Death::host : Death::process);
      w.pass(milliseconds(w.draw(1000)));
      w.start_server();
    }
    if (event == 2) w.break_path(w.draw(2));
    if (event == 3) w.take_away("a");
  }
  w.until("every IO is over", [&] { return w.all_over(); });
}

}  // namespace rtrs::sim
