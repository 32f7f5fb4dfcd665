#include "core/iwarp/greeting.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "core/iwarp/test_frames.hpp"

namespace rtrs::iwarp::test::greeting_test {
namespace {

// The keys "MPA ID Req Frame" and "MPA ID Rep Frame" in hexadecimal.
const char* const kReq = "4D504120494420526571204672616D65";
const char* const kRep = "4D504120494420526570204672616D65";

ByteVector frame(const char* key, const char* rest, const ByteVector& more = {}) {
  ByteVector octets = hex(key);
  octets += hex(rest);
  octets += more;
  return octets;
}

Fault fed(GreetingReader& reader, const ByteVector& octets, std::size_t step) {
  for (std::size_t at = 0; at < octets.size(); at += step)
    reader.feed(Bytes(octets).subspan(at, std::min(step, octets.size() - at)));
  return reader.fault();
}

struct Read {
  Fault fault = Fault::none;
  Greeting greeting{};
  ByteVector data{};
};
// Reads a frame in pieces of several sizes. The result must not depend on the size.
Read read(GreetingKind kind, const ByteVector& octets) {
  Read result;
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{600}}) {
    GreetingReader reader(kind);
    const Fault fault = fed(reader, octets, step);
    EXPECT_TRUE(step == 1 || fault == result.fault);
    EXPECT_EQ(reader.complete(), fault == Fault::none);
    result.fault = fault;
    result.greeting = reader.greeting();
    result.data.assign(result.greeting.private_data.begin(), result.greeting.private_data.end());
  }
  return result;
}

TEST(Greeting, RequestOfUrtrs) {
  const Read got =
      read(GreetingKind::request, frame(kReq, "50 02 000F 8001 8001 75525452 01 01 0000 414243"));
  ASSERT_EQ(got.fault, Fault::none);
  EXPECT_EQ(got.greeting.revision, 2);
  EXPECT_TRUE(got.greeting.enhanced && got.greeting.peer_to_peer && got.greeting.own &&
              !got.greeting.rejected);
  EXPECT_EQ(got.greeting.ird, 1);
  EXPECT_EQ(got.greeting.ord, 1);
  EXPECT_EQ(got.greeting.wishes, (Wishes{.crc = true, .send_with_immediate = true}));
  EXPECT_EQ(got.data, text("ABC"));
}

TEST(Greeting, RequestOfAKernel) {
  // The Linux siw driver sends revision 2 without peer-to-peer.
  const Read two = read(GreetingKind::request, frame(kReq, "10 02 0006 0007 3FFF BD1B"));
  ASSERT_EQ(two.fault, Fault::none);
  EXPECT_TRUE(two.greeting.enhanced && !two.greeting.peer_to_peer && !two.greeting.own);
  EXPECT_EQ(two.greeting.ird, 7);
  EXPECT_EQ(two.greeting.ord, 0x3fff);
  EXPECT_EQ(two.greeting.wishes, (Wishes{.crc = false, .send_with_immediate = false}));
  EXPECT_EQ(two.data, hex("BD1B"));
  // Frames of revision 1, in which the S flag has no meaning.
  for (const char* const rest : {"00 01 0002 BD1B", "1F 01 0002 BD1B"}) {
    const Read one = read(GreetingKind::request, frame(kReq, rest));
    ASSERT_EQ(one.fault, Fault::none);
    EXPECT_EQ(one.greeting.revision, 1);
    EXPECT_FALSE(one.greeting.enhanced);
    EXPECT_EQ(one.data, hex("BD1B"));
  }
  // A frame of revision 2 without the IRD/ORD field.
  EXPECT_FALSE(read(GreetingKind::request, frame(kReq, "00 02 0000")).greeting.enhanced);
}

TEST(Greeting, PeerToPeerNeedsAnEmptyWriteAsFirstFpdu) {
  EXPECT_TRUE(read(GreetingKind::request, frame(kReq, "10 02 0004 C000 C000")).greeting.peer_to_peer);
  EXPECT_FALSE(read(GreetingKind::request, frame(kReq, "10 02 0004 C000 4000")).greeting.peer_to_peer);
  EXPECT_FALSE(read(GreetingKind::request, frame(kReq, "10 02 0004 4000 C000")).greeting.peer_to_peer);
}

TEST(Greeting, UrtrsFieldMustBeComplete) {
  const ByteVector whole = hex("75525452 01 01 0000");
  const ByteVector cut(whole.begin(), whole.end() - 1);
  const Read seven = read(GreetingKind::request, frame(kReq, "10 02 000B 0000 0000", cut));
  ASSERT_EQ(seven.fault, Fault::none);
  EXPECT_FALSE(seven.greeting.own);
  EXPECT_EQ(seven.data, cut);
  const Read one = read(GreetingKind::request, frame(kReq, "00 01 0008", whole));
  EXPECT_TRUE(one.greeting.own && one.greeting.wishes.send_with_immediate);
  // Unknown flags and bytes are ignored.
  const Read other = read(GreetingKind::request, frame(kReq, "00 01 0008 75525452 01 FE FFFF"));
  EXPECT_TRUE(other.greeting.own && !other.greeting.wishes.send_with_immediate);
}

TEST(Greeting, EachWrongByteIsRejectedAtOnce) {
  struct Row {
    GreetingKind kind;
    std::size_t length;  // number of bytes after which the frame is rejected
    Fault fault;
    ByteVector octets;
  };
  const auto request = [](const char* rest) { return frame(kReq, rest); };
  const auto reply = [](const char* rest) { return frame(kRep, rest); };
  const Row rows[] = {
      {GreetingKind::request, 17, Fault::bad_flags, request("20")},
      {GreetingKind::request, 18, Fault::bad_revision, request("10 00")},
      {GreetingKind::request, 18, Fault::bad_revision, request("10 03")},
      {GreetingKind::request, 18, Fault::bad_revision, request("80 FF")},
      {GreetingKind::request, 18, Fault::markers, request("80 01")},
      {GreetingKind::request, 18, Fault::markers, request("D0 02")},
      {GreetingKind::request, 19, Fault::private_data_too_long, request("10 02 03")},
      {GreetingKind::request, 20, Fault::private_data_too_long, request("10 02 0201")},
      {GreetingKind::request, 20, Fault::private_data_too_short, request("10 02 0003")},
      {GreetingKind::request, 20, Fault::private_data_too_short, request("10 02 0000")},
      {GreetingKind::request, 29, Fault::bad_own_version, request("10 02 000C 00000000 75525452 02")},
      {GreetingKind::request, 25, Fault::bad_own_version, request("00 01 0008 75525452 00")},
      {GreetingKind::request, 21, Fault::bytes_behind_greeting, request("00 01 0000 00")},
      {GreetingKind::reply, 18, Fault::bad_revision, reply("00 01")},
      {GreetingKind::reply, 18, Fault::not_enhanced, reply("00 02")},
      {GreetingKind::reply, 18, Fault::markers, reply("90 02")},
      {GreetingKind::reply, 18, Fault::bad_revision, reply("20 00")},
      {GreetingKind::reply, 18, Fault::bad_revision, reply("20 03")},
      {GreetingKind::reply, 25, Fault::bytes_behind_greeting, reply("10 02 0004 0000 0000 00")},
  };
  for (const Row& row : rows) {
    ASSERT_EQ(row.octets.size(), row.length);
    GreetingReader reader(row.kind);
    EXPECT_EQ(reader.feed(Bytes(row.octets).first(row.length - 1)), Fault::none) << row.length;
    EXPECT_EQ(reader.feed(Bytes(row.octets).last(1)), row.fault) << row.length;
    EXPECT_FALSE(reader.complete());
    EXPECT_EQ(reader.missing(), 0U);
    EXPECT_EQ(reader.feed(row.octets), row.fault);
  }
}

TEST(Greeting, EachByteOfTheKeyIsChecked) {
  for (const GreetingKind kind : {GreetingKind::request, GreetingKind::reply}) {
    const ByteVector key = hex(kind == GreetingKind::request ? kReq : kRep);
    for (std::size_t at = 0; at < key.size(); ++at)
      for (unsigned bit = 0; bit < 8; ++bit) {
        ByteVector wrong = key;
        wrong[at] ^= static_cast<std::byte>(1U << bit);
        GreetingReader reader(kind);
        ASSERT_EQ(reader.feed(Bytes(wrong).first(at)), Fault::none);
        ASSERT_EQ(reader.feed(Bytes(wrong).subspan(at, 1)), Fault::bad_key);
      }
  }
  GreetingReader reader(GreetingKind::request);
  EXPECT_EQ(reader.feed(hex(kRep)), Fault::bad_key);
}

TEST(Greeting, LengthsAtTheirBounds) {
  for (const std::size_t size : {0U, 1U, 511U, 512U}) {
    ByteVector octets = frame(kReq, "00 01");
    put(octets, size, 2);
    octets += filled(size, 1);
    const Read got = read(GreetingKind::request, octets);
    EXPECT_EQ(got.fault, Fault::none);
    EXPECT_EQ(got.data, filled(size, 1));
  }
}

TEST(Greeting, ReportsTheMissingBytes) {
  const ByteVector octets = frame(kReq, "10 02 0006 0000 0000 4142");
  GreetingReader reader(GreetingKind::request);
  for (std::size_t at = 0; at < octets.size(); ++at) {
    EXPECT_EQ(reader.missing(), at < 20 ? 20 - at : octets.size() - at);
    EXPECT_FALSE(reader.complete());
    reader.feed(Bytes(octets).subspan(at, 1));
  }
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.missing(), 0U);
}

TEST(Greeting, RejectsOfBothRevisions) {
  for (const char* const rest : {"20 01 0002 6E6F", "A0 01 0002 6E6F", "20 02 0002 6E6F"}) {
    const Read got = read(GreetingKind::reply, frame(kRep, rest));
    ASSERT_EQ(got.fault, Fault::none) << rest;
    EXPECT_TRUE(got.greeting.rejected);
    EXPECT_EQ(got.data, text("no"));
  }
  const Read ours = read(GreetingKind::reply, frame(kRep, "30 02 000E 0001 0001 75525452 01 00 0000 6E6F"));
  EXPECT_TRUE(ours.greeting.rejected && ours.greeting.own);
  EXPECT_EQ(ours.data, text("no"));
}

// The reject of a request with markers uses the revision of that request.
TEST(Greeting, RequestWithMarkersCanBeRejected) {
  GreetingReader reader(GreetingKind::request);
  reader.feed(frame(kReq, "90 02"));
  ASSERT_EQ(answer_to(reader.fault()), Answer::reject);
  std::array<std::byte, kMaxGreetingBytes> out{};
  const std::size_t size = write_reject(reader.greeting(), {}, out);
  EXPECT_EQ(ByteVector(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)),
            frame(kRep, "30 02 0004 0000 0000"));
}

ByteVector written(std::size_t size, const std::array<std::byte, kMaxGreetingBytes>& out) {
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(GreetingWriter, BytesOfEachFrame) {
  std::array<std::byte, kMaxGreetingBytes> out{};
  const ByteVector data = text("ABC");
  EXPECT_EQ(written(write_request({}, data, out), out),
            frame(kReq, "10 02 000F 8001 8001 75525452 01 01 0000 414243"));
  const Wishes crc{.crc = true, .send_with_immediate = false};
  EXPECT_EQ(written(write_request({.wishes = crc}, data, out), out),
            frame(kReq, "50 02 000F 8001 8001 75525452 01 00 0000 414243"));
  EXPECT_EQ(written(write_request({.own_field = false}, data, out), out),
            frame(kReq, "10 02 0007 8001 8001 414243"));
  Greeting request{.enhanced = true, .peer_to_peer = true, .ird = 3, .ord = 9, .own = true};
  EXPECT_EQ(written(write_accept(request, {}, data, out), out),
            frame(kRep, "10 02 000F 8009 8003 75525452 01 01 0000 414243"));
  EXPECT_EQ(written(write_reject(request, data, out), out),
            frame(kRep, "30 02 000F 8009 8003 75525452 01 00 0000 414243"));
  request = {.enhanced = true, .ird = 3, .ord = 9, .wishes = {.crc = true, .send_with_immediate = false}};
  EXPECT_EQ(written(write_accept(request, {}, data, out), out), frame(kRep, "50 02 0007 0009 0003 414243"));
  EXPECT_EQ(written(write_accept({.revision = 1}, crc, data, out), out), frame(kRep, "40 01 0003 414243"));
  EXPECT_EQ(written(write_reject({.revision = 1}, {}, out), out), frame(kRep, "20 01 0000"));
}

TEST(GreetingWriter, PrivateDataAtItsBound) {
  std::array<std::byte, kMaxGreetingBytes> out{};
  EXPECT_EQ(kMaxCallerBytes, 500U);
  const ByteVector data = filled(513, 1);
  EXPECT_EQ(write_request({}, Bytes(data).first(500), out), 532U);
  EXPECT_EQ(write_request({}, Bytes(data).first(501), out), 0U);
  EXPECT_EQ(write_request({.own_field = false}, Bytes(data).first(508), out), 532U);
  EXPECT_EQ(write_request({.own_field = false}, Bytes(data).first(509), out), 0U);
  EXPECT_EQ(write_accept({.revision = 1}, {}, Bytes(data).first(512), out), 532U);
  EXPECT_EQ(write_accept({.revision = 1}, {}, data, out), 0U);
  EXPECT_EQ(write_request({}, Bytes(data).first(500), MutableBytes(out).first(531)), 0U);
  EXPECT_EQ(write_reject({.revision = 1}, {}, MutableBytes(out).first(20)), 20U);
  EXPECT_EQ(write_reject({.revision = 1}, {}, MutableBytes(out).first(19)), 0U);
}

RC_GTEST_PROP(GreetingWriter, BothEndsAgree, ()) {
  const Wishes ours{.crc = *rc::gen::arbitrary<bool>(), .send_with_immediate = *rc::gen::arbitrary<bool>()};
  const Wishes theirs{.crc = *rc::gen::arbitrary<bool>(), .send_with_immediate = *rc::gen::arbitrary<bool>()};
  const bool own = *rc::gen::arbitrary<bool>();
  const ByteVector asked = filled(*rc::gen::inRange<std::size_t>(0, kMaxCallerBytes + 1), 1);
  const ByteVector told = filled(*rc::gen::inRange<std::size_t>(0, kMaxCallerBytes + 1), 2);
  std::array<std::byte, kMaxGreetingBytes> out{};
  const auto step = *rc::gen::inRange<std::size_t>(1, 600);

  GreetingReader request(GreetingKind::request);
  RC_ASSERT(fed(request, written(write_request({ours, own}, asked, out), out), step) == Fault::none);
  RC_ASSERT(request.complete());
  const Greeting got = request.greeting();
  RC_ASSERT(got.own == own && got.enhanced && got.peer_to_peer);
  RC_ASSERT(ByteVector(got.private_data.begin(), got.private_data.end()) == asked);

  GreetingReader reply(GreetingKind::reply);
  RC_ASSERT(fed(reply, written(write_accept(got, theirs, told, out), out), step) == Fault::none);
  RC_ASSERT(reply.complete());
  const Greeting answer = reply.greeting();
  RC_ASSERT(answer.own == own && answer.peer_to_peer && !answer.rejected);
  RC_ASSERT(ByteVector(answer.private_data.begin(), answer.private_data.end()) == told);
  RC_ASSERT(agree(ours, answer) == agree(theirs, got));
  RC_ASSERT(agree(ours, answer).crc == (ours.crc || theirs.crc));
  RC_ASSERT(agree(ours, answer).send_with_immediate ==
            (own && ours.send_with_immediate && theirs.send_with_immediate));
}

}  // namespace
}  // namespace rtrs::iwarp::test::greeting_test
