#include "tools/lib/control/kernel_nbd/handshake.hpp"

#include <gtest/gtest.h>

namespace rtrs::kernel_nbd::handshake_test {
namespace {

using namespace std::string_literals;

const std::string kGreeting = "NBDMAGICIHAVEOPT\0\3"s;

std::string big(std::uint64_t value, std::size_t octets) {
  std::string text;
  for (std::size_t i = octets; i-- > 0;) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string reply(std::uint32_t type, const std::string& content) {
  return big(0x3e889045565a9, 8) + big(7, 4) + big(type, 4) + big(content.size(), 4) + content;
}

std::string exported(std::uint64_t bytes, std::uint16_t flags) {
  return reply(3, big(0, 2) + big(bytes, 8) + big(flags, 2));
}

std::string blocks(std::uint32_t least) {
  return reply(3, big(3, 2) + big(least, 4) + big(4096, 4) + big(1 << 20, 4));
}

const std::string kAck = reply(1, "");

std::string error_after(const std::string& octets) {
  Handshake one("disk0");
  one.take(octets);
  EXPECT_FALSE(one.is_done());
  return one.error();
}

TEST(Handshake, RequestsTheExportAndGetsItsFacts) {
  Handshake one("disk0");
  const std::string asked =
      big(3, 4) + "IHAVEOPT" + big(7, 4) + big(13, 4) + big(5, 4) + "disk0" + big(1, 2) + big(3, 2);
  EXPECT_EQ(one.take(kGreeting), asked);
  EXPECT_EQ(one.take(exported(8192, 0x16d) + blocks(1024)), "");
  EXPECT_FALSE(one.is_done());
  one.take(kAck);
  EXPECT_TRUE(one.is_done());
  EXPECT_EQ(one.error(), "");
  EXPECT_EQ(one.result(), (Export{8192, 0x16d, 1024}));
}

TEST(Handshake, AcceptsSingleBytes) {
  Handshake one("disk0");
  std::string sent;
  // The handshake skips information that it did not request.
  for (const char c : kGreeting + reply(3, big(1, 2) + "name") + exported(512, 1) + blocks(1) + kAck)
    sent += one.take({&c, 1});
  EXPECT_EQ(sent.size(), 4U + 8 + 4 + 4 + 13);
  EXPECT_TRUE(one.is_done());
  EXPECT_EQ(one.result(), (Export{512, 1, 512}));
}

TEST(Handshake, NoZeroesIsRequestedOnlyIfTheServerOffersIt) {
  Handshake one("");
  EXPECT_EQ(one.take("NBDMAGICIHAVEOPT\0\1"s).substr(0, 4), big(1, 4));
}

TEST(Handshake, UnknownHandshakeFlagsAreNotEchoed) {
  Handshake one("");
  EXPECT_EQ(one.take("NBDMAGICIHAVEOPT\xff\xff"s).substr(0, 4), big(3, 4));
}

TEST(Handshake, InformationWithAWrongLengthIsSkipped) {
  for (const std::size_t octets : {0, 1, 2, 11, 13}) {
    Handshake one("disk0");
    one.take(kGreeting + reply(3, std::string(octets, '\0')) + kAck);
    EXPECT_EQ(one.error(), "the NBD server did not send the size of the export") << octets;
  }
  for (const std::size_t octets : {4, 13, 15}) {
    Handshake one("disk0");
    one.take(kGreeting + exported(8192, 1) + reply(3, big(3, 2) + big(8192, 4) + std::string(octets, '\1')) +
             kAck);
    EXPECT_EQ(one.error(), "") << octets;
    EXPECT_EQ(one.result(), (Export{8192, 1, 512})) << octets;
  }
}

TEST(Handshake, BlockSizesAndReplyLengthsAreBounded) {
  Handshake one("disk0");
  one.take(kGreeting + exported(8192, 1) + reply(3, big(1, 2) + std::string(4094, 'n')) + blocks(600));
  EXPECT_EQ(one.result(), (Export{8192, 1, 1024})) << "the next power of two";
  one.take(blocks(4096) + kAck);
  EXPECT_TRUE(one.is_done()) << one.error();
  EXPECT_EQ(one.result(), (Export{8192, 1, 4096}));
  // A reply that is too long must be refused before its content arrives.
  EXPECT_EQ(error_after(kGreeting + big(0x3e889045565a9, 8) + big(7, 4) + big(3, 4) + big(4097, 4)),
            "a reply of the NBD server is too long");
  EXPECT_NE(error_after(kGreeting + exported(512, 1) + blocks(4097)), "");
}

TEST(Handshake, UnexpectedBytesEndTheHandshake) {
  EXPECT_NE(error_after("NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\3"s), "") << "oldstyle";
  EXPECT_EQ(error_after(kGreeting + big(0x3e889045565a9, 8) + big(6, 4) + big(1, 4) + big(0, 4)),
            "unexpected reply of the NBD server")
      << "reply to another option";
  EXPECT_NE(error_after("HTTP/1.1 400 Bad Request"), "");
  EXPECT_NE(error_after("NBDMAGICIHAVEOPT\0\0"s), "");
  EXPECT_NE(error_after(kGreeting + std::string(20, 'x')), "");
  EXPECT_NE(error_after(kGreeting + kAck), "") << "without a size";
  EXPECT_NE(error_after(kGreeting + big(0x3e889045565a9, 8) + big(7, 4) + big(3, 4) + big(1 << 20, 4)), "");
  EXPECT_NE(error_after(kGreeting + blocks(8192)), "");
  EXPECT_EQ(error_after(kGreeting + reply(0x80000006, "no such export")),
            "the NBD server refuses the export: no such export");
  EXPECT_EQ(error_after(kGreeting + reply(0x80000006, "")), "the NBD server refuses the export (error 6)");
  Handshake one("disk0");
  one.take(kGreeting + exported(512, 1) + kAck + "x");
  EXPECT_NE(one.error(), "") << "the kernel would take it for an answer";
}

}  // namespace
}  // namespace rtrs::kernel_nbd::handshake_test
