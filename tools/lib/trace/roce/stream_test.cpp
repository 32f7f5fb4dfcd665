// Tests packets of one direction in all orders that can occur in a capture.
#include "tools/lib/trace/roce/stream.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rtrs::roce::stream_test {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

struct Heard {
  std::vector<std::string> messages;
  std::vector<std::uint64_t> gaps;
  std::vector<Stream::Psn> last;

  Stream::Sink sink() {
    return {[this](std::uint64_t, Stream::Psn psn, Message&& message) {
              std::string text;
              for (const std::byte one : message.payload) text += static_cast<char>(one);
              messages.push_back(text);
              last.push_back(psn);
            },
            [this](std::uint64_t, std::uint64_t packets) { gaps.push_back(packets); }};
  }
};

Packet packet(std::uint32_t psn, Opcode opcode, const std::string& text) {
  Packet one;
  one.psn = psn & kPsnMask;
  one.opcode = opcode;
  one.payload = bytes_of(text);
  return one;
}

using Messages = std::vector<std::string>;

TEST(Stream, MessagesAreAssembledAcrossTheSequenceNumberWrap) {
  Heard heard;
  Stream stream(0xfffffe, heard.sink());
  EXPECT_TRUE(stream.packet(0, packet(0xfffffe, Opcode::send_only, "a")));
  EXPECT_TRUE(stream.packet(0, packet(0xffffff, Opcode::write_first, "b")));
  EXPECT_TRUE(stream.packet(0, packet(0, Opcode::write_middle, "c")));
  EXPECT_TRUE(stream.packet(0, packet(1, Opcode::write_last_imm, "d")));
  EXPECT_EQ(heard.messages, (Messages{"a", "bcd"}));
  EXPECT_EQ(heard.last[1] - heard.last[0], 3U);
  EXPECT_FALSE(stream.incomplete());
}

TEST(Stream, RetransmissionsAreDropped) {
  Heard heard;
  Stream stream(5, heard.sink());
  EXPECT_TRUE(stream.packet(0, packet(5, Opcode::send_only, "a")));
  EXPECT_FALSE(stream.packet(0, packet(5, Opcode::send_only, "a")));
  EXPECT_FALSE(stream.packet(0, packet(4, Opcode::send_only, "x")));
  EXPECT_EQ(heard.messages, (Messages{"a"}));
}

TEST(Stream, EarlyPacketsWaitForMissingOnes) {
  Heard heard;
  Stream stream(0, heard.sink());
  EXPECT_TRUE(stream.packet(0, packet(2, Opcode::send_only, "c")));
  EXPECT_TRUE(stream.packet(0, packet(1, Opcode::send_last, "b")));
  EXPECT_TRUE(stream.incomplete());
  EXPECT_TRUE(heard.messages.empty());
  EXPECT_TRUE(stream.packet(0, packet(0, Opcode::send_first, "a")));
  EXPECT_EQ(heard.messages, (Messages{"ab", "c"}));
}

TEST(Stream, AcknowledgedPacketMissingInTheCaptureIsAGap) {
  Heard heard;
  Stream stream(0, heard.sink());
  stream.packet(0, packet(0, Opcode::send_first, "a"));
  stream.packet(0, packet(2, Opcode::send_last, "c"));
  stream.packet(0, packet(4, Opcode::send_only, "e"));
  EXPECT_TRUE(heard.gaps.empty());
  stream.acknowledged_before(0, 3);
  EXPECT_EQ(heard.gaps, (std::vector<std::uint64_t>{1}));
  stream.acknowledged_before(0, 6);
  EXPECT_EQ(heard.gaps, (std::vector<std::uint64_t>{1, 1, 1}));
  EXPECT_EQ(heard.messages, (Messages{"e"}));
  stream.packet(0, packet(6, Opcode::send_only, "g"));
  EXPECT_EQ(heard.messages, (Messages{"e", "g"}));
}

TEST(Stream, TruncatedPacketIsAGap) {
  Heard heard;
  Stream stream(0, heard.sink());
  Packet cut = packet(0, Opcode::send_first, "a");
  cut.payload_cut = 3;
  stream.packet(0, std::move(cut));
  stream.packet(0, packet(1, Opcode::send_last, "b"));
  EXPECT_EQ(heard.gaps.size(), 1U);
  EXPECT_TRUE(heard.messages.empty());
}

TEST(Stream, PacketsBehindAMissingOneAreBounded) {
  Heard heard;
  Stream stream(0, heard.sink());
  const auto many = static_cast<std::uint32_t>(Stream::kMaxWaiting) + 10;
  for (std::uint32_t psn = 1; psn <= many; ++psn) stream.packet(0, packet(psn, Opcode::send_only, "x"));
  EXPECT_EQ(heard.gaps, (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(heard.messages.size(), many);
}

TEST(Stream, KindsOfMessages) {
  std::vector<Message> messages;
  Stream stream(0, {[&](std::uint64_t, Stream::Psn, Message&& one) { messages.push_back(std::move(one)); },
                    [](std::uint64_t, std::uint64_t) { FAIL(); }});
  Packet write = packet(0, Opcode::write_only_imm, "data");
  write.remote_addr = 0x1000;
  write.rkey = 7;
  write.imm = 0x80000000;
  stream.packet(0, std::move(write));
  Packet inv = packet(1, Opcode::send_only_inv, "");
  inv.rkey = 9;
  stream.packet(0, std::move(inv));
  Packet keyed = packet(2, Opcode::send_only_imm, "rkey");
  keyed.imm = 0x10000003;
  stream.packet(0, std::move(keyed));
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0], (Message{Message::Op::write_imm, 0x80000000, 7, 0x1000, bytes_of("data")}));
  EXPECT_EQ(messages[1], (Message{Message::Op::send_inv, 0, 9, 0, {}}));
  EXPECT_EQ(messages[2], (Message{Message::Op::send_imm, 0x10000003, 0, 0, bytes_of("rkey")}));
}

}  // namespace
}  // namespace rtrs::roce::stream_test
