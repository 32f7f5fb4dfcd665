// Tests the text of RNBD messages.
#include "tools/lib/trace/reader/rnbd_words.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::trace::rnbd_words_test {
namespace {

namespace rnbd = wire::rnbd;

template <class Message>
std::vector<std::byte> bytes_of(const Message& message) {
  std::vector<std::byte> bytes(rnbd::kOpenBytes);
  bytes.resize(encode(message, bytes));
  EXPECT_FALSE(bytes.empty());
  return bytes;
}

rnbd::Io some_io() {
  rnbd::Io io;
  io.device_id = 7;
  io.opcode = rnbd::Opcode::write;
  io.sector = 8;
  io.size = 4096;
  return io;
}

TEST(RnbdWords, Requests) {
  EXPECT_EQ(rnbd_request_words(bytes_of(rnbd::SessInfo{2})), "SESS_INFO version 2");
  EXPECT_EQ(
      rnbd_request_words(bytes_of(rnbd::Open{rnbd::AccessMode::read_only, wire::make_name("a\\b").value})),
      "OPEN \"a\\\\b\" ro");
  EXPECT_EQ(rnbd_request_words(bytes_of(rnbd::Close{7})), "CLOSE device 7");
  rnbd::Io io = some_io();
  EXPECT_EQ(rnbd_request_words(bytes_of(io)), "WRITE 4096 B at sector 8 of device 7");
  io.fua = io.sync = io.preflush = true;
  io.prio = 3;
  EXPECT_EQ(rnbd_request_words(bytes_of(io)),
            "WRITE 4096 B at sector 8 of device 7, sync, FUA, preflush, priority 3");
  rnbd::Io flush;
  flush.device_id = 7;
  flush.opcode = rnbd::Opcode::flush;
  EXPECT_EQ(rnbd_request_words(bytes_of(flush)), "FLUSH of device 7");
}

TEST(RnbdWords, Answers) {
  EXPECT_EQ(rnbd_response_words({}), "");
  EXPECT_EQ(rnbd_response_words(bytes_of(rnbd::SessInfoRsp{1})), "SESS_INFO_RSP version 1");
  rnbd::OpenRsp open;
  open.device_id = 7;
  open.nsectors = 1024;
  open.logical_block_size = open.physical_block_size = 512;
  open.max_hw_sectors = 256;
  open.max_segments = 1;
  open.cache_policy = rnbd::kCacheWriteback;
  open.instance = 99;
  EXPECT_EQ(rnbd_response_words(bytes_of(open)),
            "OPEN_RSP device 7, 1024 sectors, 512 B a block, 512 B a physical block, 256 sectors at most, 1 "
            "segments, write-back cache, cache 99");
}

TEST(RnbdWords, IdsAreNamedByTheCaller) {
  const RnbdNames names{[](std::uint32_t id) { return "D" + std::to_string(id); },
                        [](std::uint64_t instance) { return "C" + std::to_string(instance); }};
  EXPECT_EQ(rnbd_request_words(bytes_of(some_io()), names), "WRITE 4096 B at sector 8 of device D7");
  rnbd::OpenRsp open;
  open.device_id = 7;
  open.logical_block_size = 512;
  open.instance = 99;
  const std::string words = rnbd_response_words(bytes_of(open), names);
  EXPECT_TRUE(words.starts_with("OPEN_RSP device D7, ") && words.ends_with(", cache C99")) << words;
}

TEST(RnbdWords, InvalidMessageIsShownAsBytes) {
  const std::array<std::byte, 3> three{std::byte{1}, std::byte{0}, std::byte{0xfe}};
  EXPECT_EQ(rnbd_request_words({}), "no message of RNBD (too_short) ");
  EXPECT_EQ(rnbd_request_words(three), "no message of RNBD (too_short) 0100fe");
  EXPECT_TRUE(
      rnbd_request_words(bytes_of(rnbd::SessInfoRsp{2})).starts_with("no message of RNBD (bad_type) "));
  EXPECT_TRUE(rnbd_response_words(bytes_of(rnbd::Close{7})).starts_with("no answer of RNBD (bad_type) "));
  std::vector<std::byte> open = bytes_of(rnbd::Open{rnbd::AccessMode::read_only, wire::make_name("a").value});
  open.resize(100);
  EXPECT_TRUE(rnbd_request_words(open).starts_with("no message of RNBD (too_short) "));
  EXPECT_FALSE(is_rnbd_request(open));
  EXPECT_FALSE(is_rnbd_request({}));
  EXPECT_FALSE(is_rnbd_request(bytes_of(rnbd::SessInfoRsp{2})));
  EXPECT_TRUE(is_rnbd_request(bytes_of(rnbd::SessInfo{2})));
  EXPECT_TRUE(is_rnbd_request(bytes_of(rnbd::Close{7})));
}

TEST(RnbdWords, DeviceOfAMessage) {
  EXPECT_EQ(rnbd_device_of(bytes_of(some_io())), 7U);
  EXPECT_EQ(rnbd_device_of(bytes_of(rnbd::Close{9})), 9U);
  EXPECT_EQ(rnbd_device_of(bytes_of(rnbd::SessInfo{2})), std::nullopt);
  EXPECT_EQ(rnbd_device_of({}), std::nullopt);
}

// The wire note of a request ends with its RTRS header, which has three forms.
TEST(RnbdWords, UserHeaderOfANote) {
  const std::vector<std::byte> header = bytes_of(some_io());
  const auto length = static_cast<std::uint16_t>(header.size());
  const auto head_of = [&header](const auto& rtrs, std::size_t data) {
    std::vector<std::byte> head(data, std::byte{3});
    head.insert(head.end(), header.begin(), header.end());
    std::array<std::byte, wire::kMaxIoHeaderBytes> bytes{};
    const std::size_t size = encode(rtrs, bytes);
    head.insert(head.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    return head;
  };
  wire::IoRequest write;
  write.usr_len = length;
  write.generation = 5;
  wire::IoRequest read = write;
  read.direction = Direction::read;
  wire::IoRequest descriptor = read;
  descriptor.has_descriptor = true;
  descriptor.desc = {0x1000, 7, 4096};
  for (const std::size_t data : {0U, 512U}) {
    for (const auto& head : {head_of(write, data), head_of(read, data), head_of(descriptor, data)}) {
      const wire::Bytes found = user_header_of(head);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), header.begin(), header.end()));
    }
  }
  EXPECT_TRUE(user_header_of({}).empty());
  EXPECT_TRUE(user_header_of(header).empty());
  EXPECT_TRUE(user_header_of(std::vector<std::byte>(64)).empty());
}

}  // namespace
}  // namespace rtrs::trace::rnbd_words_test
