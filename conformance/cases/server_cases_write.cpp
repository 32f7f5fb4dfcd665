// RNBD IO that changes the device; runs only on a scratch device (protocol.md section 9).
#include <algorithm>

#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {
namespace rnbd_write_checks {
namespace {

using namespace wire::rnbd;
using namespace wire::linux_errno;

Message pattern(std::size_t bytes, unsigned salt) {
  Message made(bytes);
  std::uint32_t state = salt * 2654435761U + 1;
  for (std::byte& one : made) {
    state = state * 1664525U + 1013904223U;
    one = static_cast<std::byte>(state >> 24);
  }
  return made;
}

void write(const Device& device, const Io& io, const Message& data) {
  const Answer answer = device.path->ask(io_ask(io, data));
  require(answer.error == 0, "a write of {} bytes was answered with errno {}", io.size, answer.error);
}

void expect_content(const Device& device, std::uint64_t sector, const Message& data) {
  Io io = device.io(Opcode::read, static_cast<std::uint32_t>(data.size()));
  io.sector = sector;
  const Answer answer = device.path->ask(io_ask(io));
  require(answer.error == 0, "reading back failed with errno {}", answer.error);
  const auto at = std::mismatch(data.begin(), data.end(), answer.data.begin()).first;
  require(at == data.end(), "byte {} of {} reads back differently", at - data.begin(), data.size());
}

std::uint32_t largest(const Device& device) {
  const std::uint64_t size = device.about.nsectors * kSectorBytes;
  const std::uint64_t most = std::min<std::uint64_t>({device.path->limits().max_io_size, size, 512U << 10});
  return static_cast<std::uint32_t>(most / device.block() * device.block());
}

void write_and_read(ServerTester& tester, std::uint32_t bytes, unsigned salt, bool fua = false) {
  const Device device = open_scratch_device(tester);
  const std::uint32_t size = bytes == 0 ? largest(device) : std::max(bytes, device.block());
  Io io = device.io(Opcode::write, size);
  io.fua = fua;
  const Message data = pattern(size, salt);
  write(device, with_kernel_flags(io), data);
  expect_content(device, 0, data);
}
void write_block(ServerTester& tester) {
  write_and_read(tester, 512, 1);
}
void write_largest(ServerTester& tester) {
  write_and_read(tester, 0, 2);
}
void write_fua(ServerTester& tester) {
  write_and_read(tester, 4096, 3, true);
}

void neighbours(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  const std::uint32_t block = device.block();
  const std::uint64_t step = block / kSectorBytes;
  write(device, device.io(Opcode::write, 3 * block), pattern(3 * block, 4));
  Io middle = device.io(Opcode::write, block);
  middle.sector = step;
  write(device, middle, pattern(block, 5));
  const Message before = pattern(3 * block, 4);
  expect_content(device, 0, Message(before.begin(), before.begin() + block));
  expect_content(device, step, pattern(block, 5));
  expect_content(device, 2 * step, Message(before.begin() + 2 * static_cast<int>(block), before.end()));
}

void behind_end(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  Io io = device.io(Opcode::write, device.block());
  io.sector = device.about.nsectors;
  expect_refused(*device.path, io_ask(io, pattern(device.block(), 6)), "a write behind the end");
}

void write_as_read(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  const Message data = pattern(device.block(), 7);
  write(device, device.io(Opcode::write, device.block()), data);
  Ask ask = io_ask(device.io(Opcode::write, device.block()));
  ask.direction = Direction::read;
  ask.room = device.block();
  ask.chunk = 1;  // this chunk does not hold the data of the write above
  expect_refused(*device.path, ask, "a write that brings no data");
}

void size_differs(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  Ask ask = io_ask(device.io(Opcode::write, 2 * device.block()), pattern(device.block(), 8));
  expect_errno(*device.path, ask, kEinval, "a write of another size than its data");
}

// Discard and write zeroes are optional: a device that supports the operation must execute it, others must
// return an error.
void unmap(ServerTester& tester, Opcode opcode, const char* what) {
  const Device device = open_scratch_device(tester);
  const std::uint32_t most =
      opcode == Opcode::discard ? device.about.max_discard_sectors : device.about.max_write_zeroes_sectors;
  const std::uint32_t size =
      std::max({device.block(), 4096U, opcode == Opcode::discard ? device.about.discard_granularity : 0U});
  write(device, device.io(Opcode::write, size), pattern(size, 9));
  Ask ask = io_ask(device.io(opcode, size));
  if (most == 0) return expect_errno(*device.path, ask, kEopnotsupp, what);
  require(std::uint64_t{most} * kSectorBytes >= device.block(), "{}: {} sectors at most", what, most);
  expect_errno(*device.path, ask, 0, what);
  if (opcode == Opcode::write_zeroes) expect_content(device, 0, Message(size, std::byte{0}));
}
void discard(ServerTester& tester) {
  unmap(tester, Opcode::discard, "a discard");
}
void write_zeroes(ServerTester& tester) {
  unmap(tester, Opcode::write_zeroes, "write-zeroes");
}

void discard_behind_end(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  if (device.about.max_discard_sectors == 0) not_run("the device cannot discard");
  Io io = device.io(Opcode::discard, std::max(device.block(), 4096U));
  io.sector = device.about.nsectors;
  expect_refused(*device.path, io_ask(io), "a discard behind the end");
}

void secure_erase(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  if (device.about.secure_discard != 0) not_run("the device can erase securely; it is not tried");
  expect_errno(*device.path, io_ask(device.io(Opcode::secure_erase, std::max(device.block(), 4096U))),
               kEopnotsupp, "secure erase of a device that cannot");
}

void read_only(ServerTester& tester) {
  if (!tester.setup().scratch) not_run("it tries to write to the device: --scratch allows that");
  const Device device = open_device(tester, AccessMode::read_only);
  expect_refused(*device.path, io_ask(device.io(Opcode::write, device.block()), pattern(device.block(), 10)),
                 "a write to a device that was opened read-only");
}

void overlapping(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  const std::uint16_t count = std::min<std::uint16_t>(device.path->depth(), 16);
  const std::uint32_t block = device.block();
  if (device.about.nsectors * kSectorBytes < std::uint64_t{count} * block) not_run("the device is too small");
  std::vector<Ask> asks;
  for (std::uint16_t i = 0; i < count; ++i) {
    Io io = device.io(Opcode::write, block);
    io.sector = i * std::uint64_t{block} / kSectorBytes;
    asks.push_back(io_ask(io, pattern(block, 20U + i)));
    asks.back().chunk = i;
  }
  device.path->send_all(asks);
  for (std::uint16_t i = 0; i < count; ++i) {
    const auto answer = device.path->await_answer(i, tester.deadlines().answer);
    require(answer.has_value() && answer->error == 0, "{} writes at once: number {} failed", count, i);
  }
  for (std::uint16_t i = 0; i < count; ++i)
    expect_content(device, i * std::uint64_t{block} / kSectorBytes, pattern(block, 20U + i));
}

constexpr const char* kChecks = "protocol.md section 9.3";
constexpr const char* kFraming = "protocol.md section 9.1";

constexpr Case kCases[] = {
    {"C470-write-block", "write: a block reads back", kFraming, Level::must, false, write_block},
    {"C471-write-largest", "write: the largest that was announced reads back", "protocol.md section 2.2",
     Level::must, false, write_largest},
    {"C472-write-fua", "write: a write with FUA reads back", "protocol.md section 9.2", Level::must, false,
     write_fua},
    {"C473-write-neighbours", "write: adjacent blocks are unchanged", kFraming, Level::must, false,
     neighbours},
    {"C474-write-behind", "write: behind the end is refused", kChecks, Level::must, false, behind_end},
    {"C475-write-as-read", "write: one that travels as a read is refused", kChecks, Level::must, false,
     write_as_read},
    {"C476-write-size-differs", "write: a size that contradicts its data is answered with EINVAL", kChecks,
     Level::must, false, size_differs},
    {"C477-write-discard", "write: discard is done or refused as announced", kChecks, Level::must, false,
     discard},
    {"C478-write-zeroes", "write: write-zeroes is done or refused as announced", kChecks, Level::must, false,
     write_zeroes},
    {"C479-write-discard-behind", "write: a discard behind the end is refused", kChecks, Level::must, false,
     discard_behind_end},
    {"C480-write-secure-erase", "write: secure erase that was not announced is refused", kChecks, Level::must,
     false, secure_erase},
    {"C481-write-read-only", "write: a device opened read-only is unchanged", kChecks, Level::must, false,
     read_only},
    {"C482-write-many", "write: 16 concurrent writes all read back", "protocol.md section 5.1", Level::must,
     false, overlapping},
};

}  // namespace
}  // namespace rnbd_write_checks

std::span<const Case> rnbd_write_cases() {
  return rnbd_write_checks::kCases;
}

}  // namespace rtrs::conformance
