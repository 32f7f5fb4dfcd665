// RNBD IO that does not change the device (protocol.md sections 9.1 to 9.3).
#include <algorithm>

#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {
namespace rnbd_io_checks {
namespace {

using namespace wire::rnbd;
using namespace wire::linux_errno;

Answer read(const Device& device, const Io& io) {
  const Answer answer = device.path->ask(io_ask(io));
  require(answer.error == 0, "a read of {} bytes was answered with errno {}", io.size, answer.error);
  require(answer.overflow.empty(), "a read of {} bytes wrote {} more", io.size, answer.overflow.size());
  return answer;
}

// Largest request that client and server support, in whole blocks.
std::uint32_t largest(const Device& device) {
  const std::uint64_t size = device.about.nsectors * kSectorBytes;
  const std::uint64_t most = std::min<std::uint64_t>({device.path->limits().max_io_size, size, 512U << 10});
  return static_cast<std::uint32_t>(most / device.block() * device.block());
}

void read_block(ServerTester& tester) {
  const Device device = open_device(tester);
  const Answer once = read(device, device.io(Opcode::read, device.block()));
  const Answer again = read(device, device.io(Opcode::read, device.block()));
  require(once.data == again.data, "two reads of one block differ");
}
void read_largest(ServerTester& tester) {
  const Device device = open_device(tester);
  read(device, device.io(Opcode::read, largest(device)));
}
void read_last(ServerTester& tester) {
  const Device device = open_device(tester);
  Io io = device.io(Opcode::read, device.block());
  io.sector = device.about.nsectors - device.block() / kSectorBytes;
  read(device, io);
}
void read_behind_end(ServerTester& tester) {
  const Device device = open_device(tester);
  Io io = device.io(Opcode::read, device.block());
  io.sector = device.about.nsectors;
  expect_refused(*device.path, io_ask(io), "a read behind the end");
}
void read_across_end(ServerTester& tester) {
  const Device device = open_device(tester);
  Io io = device.io(Opcode::read, 2 * device.block());
  io.sector = device.about.nsectors - device.block() / kSectorBytes;
  expect_refused(*device.path, io_ask(io), "a read across the end");
}
void read_far_away(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, device.block()));
  wire::store_le64(ask.user, 8, ~std::uint64_t{0} >> 8);
  expect_refused(*device.path, ask, "a read at sector 2^56");
}
void read_uneven(ServerTester& tester) {
  const Device device = open_device(tester);
  expect_refused(*device.path, io_ask(device.io(Opcode::read, 100)), "a read of 100 bytes");
}
void size_differs(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, 2 * device.block()));
  ask.room = device.block();
  expect_errno(*device.path, ask, kEinval, "a read of another size than its room");
}
void unknown_device(ServerTester& tester) {
  Io io;
  io.device_id = 0x7ffffffeU;
  io.size = 4096;
  expect_errno(tester.opened(), io_ask(with_kernel_flags(io)), kEnotconn, "IO to a device that is not open");
}
void device_of_another(ServerTester& tester) {
  const Device device = open_device(tester);
  Path& other = tester.opened();
  expect_errno(other, io_ask(device.io(Opcode::read, device.block())), kEnotconn,
               "IO to a device of another session");
}
void after_close(ServerTester& tester) {
  const Device device = open_device(tester);
  expect_errno(*device.path, close_ask(device.about.device_id), 0, "CLOSE");
  expect_errno(*device.path, io_ask(device.io(Opcode::read, device.block())), kEnotconn, "IO after CLOSE");
}
void unknown_opcode(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, device.block()));
  wire::store_le32(ask.user, 16, 77);
  expect_refused(*device.path, ask, "opcode 77");
}
void unknown_flags(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, device.block()));
  wire::store_le32(ask.user, 16, 0xfffffc00U | kRwSync);
  expect_errno(*device.path, ask, 0, "a read with unknown flags");
}
void priority(ServerTester& tester) {
  const Device device = open_device(tester);
  Io io = device.io(Opcode::read, device.block());
  io.prio = 0x4001;
  expect_errno(*device.path, io_ask(io), 0, "a read with a priority");
}
void header_28(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, device.block()));
  ask.user.resize(kIoMinBytes);
  expect_errno(*device.path, ask, 0, "an IO header of 28 bytes, as 32-bit clients send it");
}
void header_20(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, device.block()));
  ask.user.resize(20);
  expect_refused(*device.path, ask, "an IO header of 20 bytes");
}
void read_as_write(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::read, device.block()));
  ask.direction = Direction::write;
  ask.room = 0;
  ask.data.assign(device.block(), std::byte{0});
  expect_refused(*device.path, ask, "a read that has nowhere to go");
}
void many_reads(ServerTester& tester) {
  const Device device = open_device(tester);
  const std::uint16_t count = std::min<std::uint16_t>(device.path->depth(), 32);
  std::vector<Ask> asks;
  for (std::uint16_t chunk = 0; chunk < count; ++chunk) {
    asks.push_back(io_ask(device.io(Opcode::read, device.block())));
    asks.back().chunk = chunk;
  }
  device.path->send_all(asks);
  for (std::uint16_t chunk = 0; chunk < count; ++chunk) {
    const auto answer = device.path->await_answer(chunk, tester.deadlines().answer);
    require(answer.has_value() && answer->error == 0, "{} reads at once: that on chunk {} failed", count,
            chunk);
  }
}

// A server that does not know the extension writes the data separately before the response.
void read_with_answer(ServerTester& tester) {
  const Device plain = open_device(tester);
  const Answer expected = read(plain, plain.io(Opcode::read, plain.block()));
  Path& path = tester.path();
  path.offer(wire::Extensions::data_with_answer);
  path.open();
  exchange_versions(path);
  const Device device = open_on(path, tester.setup().device, AccessMode::read_only);
  require(read(device, device.io(Opcode::read, device.block())).data == expected.data,
          "the data of a read is another where it may come with the answer");
  Io behind = device.io(Opcode::read, device.block());
  behind.sector = device.about.nsectors;
  expect_refused(path, io_ask(behind), "a read behind the end");
}

// Kernel clients may leave any values in the unused fields of a flush.
void flush(ServerTester& tester) {
  const Device device = open_device(tester);
  expect_errno(*device.path, io_ask(device.io(Opcode::flush, 0)), 0, "a flush");
}
void flush_odd(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::flush, 0));
  wire::store_le64(ask.user, 8, ~std::uint64_t{0});
  expect_errno(*device.path, ask, 0, "a flush of sector 2^64 - 1, as kernel clients send it");
}
void flush_as_write(ServerTester& tester) {
  const Device device = open_device(tester);
  Ask ask = io_ask(device.io(Opcode::flush, 0));
  ask.direction = Direction::write;
  expect_errno(*device.path, ask, 0, "a flush that travels as a write");
}

constexpr const char* kChecks = "protocol.md section 9.3";
constexpr const char* kFraming = "protocol.md section 9.1";
constexpr const char* kMessages = "protocol.md section 2.9";

constexpr Case kCases[] = {
    {"C440-io-read", "io: a block is read twice with the same result", kFraming, Level::must, false,
     read_block},
    {"C441-io-read-largest", "io: the largest read that was announced", "protocol.md section 2.2",
     Level::must, false, read_largest},
    {"C442-io-read-last", "io: the last block is read", kMessages, Level::must, false, read_last},
    {"C443-io-read-behind", "io: a read behind the end is refused", kChecks, Level::must, false,
     read_behind_end},
    {"C444-io-read-across", "io: a read across the end is refused", kChecks, Level::must, false,
     read_across_end},
    {"C445-io-read-far", "io: a sector that overflows is refused", kChecks, Level::must, false,
     read_far_away},
    {"C446-io-read-uneven", "io: a size that is not a multiple of the block is refused", kChecks, Level::must,
     false, read_uneven},
    {"C447-io-size-differs", "io: a size that contradicts its room is answered with EINVAL", kChecks,
     Level::must, false, size_differs},
    {"C448-io-unknown-device", "io: an unknown device is answered with ENOTCONN", kChecks, Level::must, false,
     unknown_device},
    {"C449-io-other-session", "io: a device of another session is answered with ENOTCONN", kChecks,
     Level::must, false, device_of_another},
    {"C450-io-after-close", "io: a closed device is answered with ENOTCONN", "protocol.md section 9.4",
     Level::must, false, after_close},
    {"C451-io-opcode", "io: an unknown operation is refused", kMessages, Level::should, false,
     unknown_opcode},
    {"C452-io-flags", "io: unknown flags are ignored", "protocol.md section 9.2", Level::must, false,
     unknown_flags},
    {"C453-io-priority", "io: a priority is accepted", kMessages, Level::must, false, priority},
    {"C454-io-header-28", "io: a header of 28 bytes is accepted", kMessages, Level::quirk, false, header_28},
    {"C455-io-header-20", "io: a header that is too short is refused", kChecks, Level::should, false,
     header_20},
    {"C456-io-read-as-write", "io: a read that travels as a write is refused", kChecks, Level::should, false,
     read_as_write},
    {"C457-io-many", "io: 32 reads at once", "protocol.md section 5.1", Level::must, false, many_reads},
    {"C458-io-flush", "io: a flush travels as a read without descriptor", kFraming, Level::must, false,
     flush},
    {"C459-io-flush-odd", "io: the sector of a flush does not matter", kFraming, Level::must, false,
     flush_odd},
    {"C460-io-flush-as-write", "io: a flush may travel as a write", "protocol.md section 10.3", Level::should,
     false, flush_as_write},
    {"C461-io-data-with-answer", "io: the data of a read may come with its answer", "protocol.md section 12",
     Level::must, false, read_with_answer},
};

}  // namespace
}  // namespace rnbd_io_checks

std::span<const Case> rnbd_io_cases() {
  return rnbd_io_checks::kCases;
}

}  // namespace rtrs::conformance
