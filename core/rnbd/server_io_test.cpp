#include <gtest/gtest.h>

#include <vector>

#include "core/rnbd/server_devices.hpp"
#include "core/rnbd/test_server_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::server_io_test {
namespace {

using namespace wire::linux_errno;
using namespace test;
using Bytes = std::vector<std::byte>;
using wire::rnbd::Opcode;

TEST(ServerIo, IoReachesItsExport) {
  Session session;
  const auto first = session.opened("a");
  const auto second = session.opened("b");
  session.io(first, Opcode::read, 8, 4096);
  session.io(second, Opcode::write, 16, 512);
  EXPECT_EQ(session.storage[0].handle, 100U);
  EXPECT_EQ(session.storage[0].sector, 8U);
  EXPECT_EQ(session.storage[0].bytes, 4096U);
  EXPECT_EQ(session.storage[1].handle, 101U);
  EXPECT_EQ(session.storage[1].opcode, Opcode::write);
}

TEST(ServerIo, DirectionMustFitTheOperation) {
  Session session;
  const auto id = session.opened("disk");
  for (const Opcode opcode : {Opcode::read, Opcode::write, Opcode::discard, Opcode::write_zeroes}) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = opcode;
    message.size = 4096;
    const auto framing = io_framing(message);
    const Direction wrong = framing.direction == Direction::read ? Direction::write : Direction::read;
    EXPECT_EQ(session.errno_of(session.arrive(wrong, framing.data_len, encoded(message))), kEinval);
  }
  EXPECT_TRUE(session.storage.empty());
}

TEST(ServerIo, R81LengthComesFromTheMessageAndMustMatchThePayload) {
  Session session;
  const auto id = session.opened("disk");
  for (const Opcode opcode :
       {Opcode::read, Opcode::write, Opcode::flush, Opcode::discard, Opcode::write_zeroes}) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = opcode;
    message.size = 4096;
    const Direction direction = io_framing(message).direction;
    const bool has_data = opcode == Opcode::read || opcode == Opcode::write;
    for (const std::uint32_t payload : {0U, 4096U, 512U, 8192U}) {
      const bool good = opcode == Opcode::flush || opcode == Opcode::write_zeroes
                            ? payload == 0
                            : payload == 4096 || (!has_data && payload == 0);
      const std::size_t before = session.storage.size();
      const auto request = session.arrive(direction, payload, encoded(message));
      EXPECT_EQ(session.errno_of(request), good ? Session::kUnanswered : kEinval)
          << to_string(opcode) << payload;
      EXPECT_EQ(session.storage.size(), before + (good ? 1 : 0));
      if (good) {
        EXPECT_EQ(session.last_storage().bytes, opcode == Opcode::flush ? 0U : 4096U);
      }
    }
  }
}

TEST(ServerIo, R82FuaAndFlushReachTheStorage) {
  Session session;
  const auto id = session.opened("disk");
  for (const Opcode opcode :
       {Opcode::read, Opcode::write, Opcode::flush, Opcode::discard, Opcode::write_zeroes}) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = opcode;
    message.size = opcode == Opcode::flush ? 0 : 4096;
    message.fua = true;
    session.io(message);
    EXPECT_EQ(session.last_storage().opcode, opcode);
    EXPECT_EQ(session.last_storage().fua, opcode != Opcode::read && opcode != Opcode::flush);
  }
  wire::rnbd::Io kernel_flush;
  kernel_flush.device_id = id;
  kernel_flush.opcode = Opcode::flush;
  kernel_flush.sector = ~std::uint64_t{0};
  session.io(kernel_flush);
  EXPECT_EQ(session.last_storage().sector, 0U);
}

TEST(ServerIo, FlagsOfNewerClientsReachTheStorage) {
  Session session;
  const auto id = session.opened("disk");
  for (const Opcode opcode :
       {Opcode::read, Opcode::write, Opcode::flush, Opcode::discard, Opcode::write_zeroes}) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = opcode;
    message.size = opcode == Opcode::flush ? 0 : 4096;
    message.preflush = message.nounmap = true;
    session.io(message);
    EXPECT_EQ(session.last_storage().preflush, opcode != Opcode::flush);
    EXPECT_EQ(session.last_storage().nounmap, opcode == Opcode::write_zeroes);
  }
  EXPECT_EQ(session.devices.unknown_flags(), 0U);
}

TEST(ServerIo, UnknownFlagsAreCountedAndTheIoIsServed) {
  Session session;
  const auto id = session.opened("disk");
  wire::rnbd::Io message;
  message.device_id = id;
  message.opcode = Opcode::write;
  message.size = 4096;
  Header header = encoded(message);
  wire::store_le32(header, 16, 0x00040001U);
  session.arrive(Direction::write, 4096, header);
  EXPECT_EQ(session.last_storage().opcode, Opcode::write);
  EXPECT_EQ(session.devices.unknown_flags(), 1U);
}

// Up to Linux 5.17, WRITE_SAME had the opcode of write_zeroes and carried one block of data, so write_zeroes
// with data must be refused.
TEST(ServerIo, ZeroesWithDataAreRefused) {
  Session session;
  const auto id = session.opened("disk");
  wire::rnbd::Io message;
  message.device_id = id;
  message.opcode = Opcode::write_zeroes;
  message.size = 4096;
  for (const std::uint32_t payload : {512U, 4096U})
    EXPECT_EQ(session.errno_of(session.arrive(Direction::write, payload, encoded(message))), kEinval);
  EXPECT_TRUE(session.storage.empty());
}

TEST(ServerIo, R83IoBeyondTheKnownEndMeasuresTheExportFirst) {
  Session session;
  session.measures_automatically = false;
  const auto id = session.opened("disk");
  session.io(id, Opcode::read, 1016);
  EXPECT_TRUE(session.measures.empty()) << "no measurement for IO within the known size";
  session.storage_done(0);
  const auto grown = session.io(id, Opcode::write, 1024);
  const auto far = session.io(id, Opcode::read, 4096);
  EXPECT_EQ(session.measures.size(), 2U);
  EXPECT_TRUE(session.storage.empty());
  session.measured(2048);
  EXPECT_EQ(session.last_storage().sector, 1024U);
  session.measured(2048);
  EXPECT_EQ(session.errno_of(far), kEio);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(grown), 0);
  session.io(id, Opcode::read, 2040);
  EXPECT_TRUE(session.measures.empty());
}

TEST(ServerIo, R83ReopenOfAnOpenDeviceReportsTheCurrentSize) {
  Session session;
  session.opened("disk");
  session.sectors_now = 4096;
  EXPECT_EQ(session.errno_of(session.open("disk")), 0);
  EXPECT_EQ(session.response().nsectors, 4096U);
}

TEST(ServerIo, SizeIsRoundedDownToWholeBlocks) {
  Session session;
  session.geometry.logical_block_size = 4096;
  session.opened("disk");
  session.sectors_now = 2055;
  EXPECT_EQ(session.errno_of(session.open("disk")), 0);
  EXPECT_EQ(session.response().nsectors, 2048U);
}

TEST(ServerIo, ImpossibleSizeIsIgnored) {
  Session session;
  session.opened("disk");
  session.sectors_now = wire::rnbd::kMaxSectors;
  EXPECT_EQ(session.errno_of(session.open("disk")), 0);
  EXPECT_EQ(session.devices.begin()->geometry.nsectors, 1024U);
}

TEST(ServerIo, R83IoBeyondAShrunkEndIsRefusedAfterTheFirstError) {
  Session session;
  const auto id = session.opened("disk");
  const auto first = session.io(id, Opcode::read, 1000);
  session.sectors_now = 512;
  session.storage_done(kEio);
  EXPECT_EQ(session.errno_of(first), kEio);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write, 1000)), kEio);
  EXPECT_TRUE(session.storage.empty()) << "a write beyond the end would make the file grow again";
  session.sectors_now = 1024;
  session.io(id, Opcode::write, 1000);
  EXPECT_EQ(session.storage.size(), 1U);
}

TEST(ServerIo, R83CloseWaitsForTheSize) {
  Session session;
  session.measures_automatically = false;
  const auto id = session.opened("disk");
  const auto late = session.io(id, Opcode::read, 4096);
  const auto reopened = session.open("disk");
  const auto closed = session.close(id);
  EXPECT_EQ(session.errno_of(closed), Session::kUnanswered);
  session.measured(0);
  EXPECT_EQ(session.errno_of(late), kEio);
  EXPECT_EQ(session.errno_of(closed), Session::kUnanswered);
  session.measured(0);
  EXPECT_EQ(session.errno_of(reopened), kEnotconn);
  EXPECT_EQ(session.errno_of(closed), 0);
  EXPECT_EQ(session.closed.size(), 1U);
}

TEST(ServerIo, UnsupportedOperationsFailWithEopnotsupp) {
  Session session;
  session.geometry.max_discard_sectors = session.geometry.max_write_zeroes_sectors = 0;
  const auto id = session.opened("disk");
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::secure_erase)), kEopnotsupp);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::discard)), kEopnotsupp);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write_zeroes)), kEopnotsupp);
  wire::rnbd::Io message;
  message.device_id = id;
  message.size = 4096;
  Header header = encoded(message);
  header[16] = std::byte{6};
  EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 4096, header)), kEopnotsupp);
  EXPECT_TRUE(session.storage.empty());
}

TEST(ServerIo, IoBeyondTheDeviceIsAnIoError) {
  Session session;
  const auto id = session.opened("disk");
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::read, 1024, 512)), kEio);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write, 1023, 1024)), kEio);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::read, ~std::uint64_t{0}, 512)), kEio);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::read, 0, 100)), kEinval);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::read, 1023, 512)), Session::kUnanswered);
}

TEST(ServerIo, UnknownDeviceIsNotConnected) {
  Session session;
  EXPECT_EQ(session.errno_of(session.io(0, Opcode::read)), kEnotconn);
  session.open("disk");
  EXPECT_EQ(session.errno_of(session.io(0, Opcode::read)), kEnotconn) << "id not yet known to the client";
}

TEST(ServerIo, L18StorageErrorsStayErrors) {
  Session session;
  const auto id = session.opened("disk");
  for (const int error : {1, 5, 28, 110, 511, 512, 524, 529, -5, kEnotconn}) {
    const auto request = session.io(id, Opcode::write);
    session.storage_done(error);
    const bool kept = error > 0 && error <= 511 && error != kEnotconn;
    EXPECT_EQ(session.errno_of(request), kept ? error : kEio) << error;
  }
}

TEST(ServerIo, PriorityNeedsVersionTwo) {
  Session session;
  const auto id = session.opened("disk");
  wire::rnbd::Io message;
  message.device_id = id;
  message.size = 512;
  message.prio = 0x4004;
  session.io(message);
  EXPECT_EQ(session.last_storage().prio, 0U);
  session.arrive(Direction::read, 36, encoded(wire::rnbd::SessInfo{}));
  session.io(message);
  EXPECT_EQ(session.last_storage().prio, 0x4004U);
}

}  // namespace
}  // namespace rtrs::rnbd::server_io_test
