#include "core/rnbd/io_request.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "core/rnbd/slot_id.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::io_request_test {
namespace {

using namespace wire::linux_errno;
using wire::rnbd::Opcode;

Geometry disk() {
  Geometry geometry;
  geometry.logical_block_size = 4096;
  geometry.max_discard_sectors = 64;
  geometry.max_write_zeroes_sectors = 64;
  geometry.nsectors = 800;
  return geometry;
}

wire::rnbd::Io message(Opcode opcode, std::uint64_t sector, std::uint32_t size, bool fua = false) {
  wire::rnbd::Io io;
  io.device_id = 7;
  io.opcode = opcode;
  io.sector = sector;
  io.size = size;
  io.fua = fua;
  return io;
}

TEST(IoRequest, FlushIsSentAsReadWithoutData) {
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  const auto framing = encode_io(message(Opcode::flush, 0, 0), header);
  EXPECT_EQ(framing.direction, Direction::read);
  EXPECT_EQ(framing.data_len, 0U);
  EXPECT_FALSE(framing.has_descriptor);
  const auto io = wire::rnbd::parse_io(header);
  ASSERT_TRUE(io);
  EXPECT_EQ(io.value.device_id, 7U);
  EXPECT_EQ(wire::load_le32(header, 16), 0x302U);
}

TEST(IoRequest, FlagsEqualTheKernelClients) {
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  EXPECT_EQ(encode_io(message(Opcode::read, 8, 4096, true), header).data_len, 4096U);
  EXPECT_EQ(wire::load_le32(header, 16), 0x100U);
  EXPECT_EQ(encode_io(message(Opcode::write, 8, 4096), header).direction, Direction::write);
  EXPECT_EQ(wire::load_le32(header, 16), 0x001U);
  EXPECT_EQ(encode_io(message(Opcode::write, 8, 4096, true), header).data_len, 4096U);
  EXPECT_EQ(wire::load_le32(header, 16), 0x301U);
  EXPECT_EQ(encode_io(message(Opcode::discard, 8, 4096, true), header).data_len, 0U);
  EXPECT_EQ(wire::load_le32(header, 16), 0x003U);
}

TEST(IoRequest, R81DataLessOperationsCarryTheirLengthInTheMessage) {
  for (const Opcode opcode : {Opcode::discard, Opcode::write_zeroes}) {
    std::array<std::byte, wire::rnbd::kIoBytes> header{};
    const auto framing = encode_io(message(opcode, 16, 8192), header);
    EXPECT_EQ(framing.data_len, 0U);
    EXPECT_EQ(framing.direction, Direction::write);
    EXPECT_EQ(wire::rnbd::parse_io(header).value.size, 8192U);
  }
}

TEST(IoRequest, PiecesAreWholeBlocksWithinTheLimits) {
  const Geometry geometry = disk();
  EXPECT_EQ(next_piece(geometry, 126976, Opcode::write, 1 << 20), 126976U);
  EXPECT_EQ(next_piece(geometry, 10000, Opcode::read, 1 << 20), 8192U);
  EXPECT_EQ(next_piece(geometry, 10000, Opcode::read, 4096), 4096U);
  EXPECT_EQ(next_piece(geometry, 10000, Opcode::discard, 1 << 20), 64U * 512U);
  EXPECT_EQ(next_piece(geometry, 10000, Opcode::write_zeroes, 1 << 20), 64U * 512U);
  EXPECT_EQ(next_piece(geometry, 4095, Opcode::read, 1 << 20), 0U);
  EXPECT_EQ(next_piece(geometry, 4096, Opcode::flush, 1 << 20), 0U);
}

RC_GTEST_PROP(IoRequest, PiecesCoverARequestExactly, ()) {
  Geometry geometry;
  geometry.logical_block_size = 512U << *rc::gen::inRange(0, 7);
  geometry.max_discard_sectors = 0xffffffff;
  const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 3000);
  const auto max_io_size = *rc::gen::inRange<std::uint32_t>(geometry.logical_block_size, 1U << 20);
  const Opcode opcode = *rc::gen::element(Opcode::read, Opcode::write, Opcode::discard);
  std::uint64_t left = blocks * geometry.logical_block_size;
  while (left != 0) {
    const std::uint32_t piece = next_piece(geometry, max_io_size, opcode, left);
    RC_ASSERT(piece > 0U && piece <= left && piece % geometry.logical_block_size == 0U);
    RC_ASSERT(opcode == Opcode::discard || piece <= max_io_size);
    left -= piece;
  }
}

TEST(IoRequest, R82DurabilityFollowsTheCachePolicy) {
  Geometry geometry = disk();
  EXPECT_EQ(durability(geometry), Durability::as_written);
  geometry.write_cache = true;
  EXPECT_EQ(durability(geometry), Durability::flush);
  geometry.fua = true;
  EXPECT_EQ(durability(geometry), Durability::fua);
}

TEST(IoRequest, R82FuaCountsOnlyTogetherWithAWriteCache) {
  Geometry geometry = disk();
  geometry.fua = true;
  const auto response = make_open_rsp(3, geometry);
  EXPECT_EQ(response.cache_policy, wire::rnbd::kCacheFua);
  EXPECT_FALSE(geometry_of(response).fua);
  geometry.write_cache = true;
  EXPECT_EQ(geometry_of(make_open_rsp(3, geometry)), geometry);
}

TEST(IoRequest, R83SizesBeyond32BitsSurvive) {
  Geometry geometry = disk();
  geometry.nsectors = (std::uint64_t{1} << 40) + 8;
  EXPECT_EQ(geometry_of(make_open_rsp(0, geometry)).nsectors, geometry.nsectors);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::write, std::uint64_t{1} << 40, 4096)), 0);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::write, (std::uint64_t{1} << 40) + 8, 4096)), kEio);
}

TEST(IoRequest, RangeAndAlignmentAreChecked) {
  const Geometry geometry = disk();
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, 792, 4096)), 0);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, 800, 4096)), kEio);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, 792, 8192)), kEio);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, ~std::uint64_t{7}, 4096)), kEio);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, 1, 4096)), kEinval);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, 0, 512)), kEinval);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::read, 0, 0)), kEinval);
  EXPECT_EQ(check_io(geometry, false, message(Opcode::write, 0, 4096)), kEperm);
  EXPECT_EQ(check_io(geometry, false, message(Opcode::flush, 0, 0)), 0);
  EXPECT_EQ(check_io(geometry, true, message(Opcode::secure_erase, 0, 4096)), kEopnotsupp);
}

TEST(IoRequest, GeometryWithoutWireFormIsNotValid) {
  Geometry geometry = disk();
  EXPECT_TRUE(valid(geometry));
  for (const std::uint32_t block : {0U, 256U, 513U, 3072U, 65536U}) {
    geometry.logical_block_size = block;
    EXPECT_FALSE(valid(geometry)) << block;
  }
  geometry = disk();
  geometry.nsectors = 801;
  EXPECT_FALSE(valid(geometry));
  geometry.nsectors = wire::rnbd::kMaxSectors;
  EXPECT_FALSE(valid(geometry));
}

TEST(IoRequest, L18ErrnosBeyondNineBitsStayErrors) {
  EXPECT_EQ(to_wire_errno(0), 0);
  for (int error = 1; error <= 511; ++error) EXPECT_EQ(to_wire_errno(error), error);
  for (const int error : {512, 524, 529, 1024, 65536, -1, -5, -512}) EXPECT_EQ(to_wire_errno(error), kEio);
}

TEST(SlotId, NeverRepeatsAcrossItsRange) {
  EXPECT_EQ(make_slot_id(3, 0, 0), 3U);
  EXPECT_EQ(slot_of(make_slot_id(255, 0xffffff, 77)), 255U);
  EXPECT_NE(make_slot_id(0, 5, 0), make_slot_id(0, 5, kMaxGenerations - 1));
  EXPECT_EQ(make_slot_id(0, 5, 0), make_slot_id(0, 5, kMaxGenerations));
}

TEST(IoRequest, OnlyZeroesCarryNounmap) {
  for (const Opcode opcode : {Opcode::write, Opcode::discard, Opcode::write_zeroes}) {
    std::array<std::byte, wire::rnbd::kIoBytes> header{};
    wire::rnbd::Io io = message(opcode, 0, 4096);
    io.nounmap = true;
    (void)encode_io(io, header);
    EXPECT_EQ(wire::rnbd::parse_io(header).value.nounmap, opcode == Opcode::write_zeroes);
  }
}

}  // namespace
}  // namespace rtrs::rnbd::io_request_test
