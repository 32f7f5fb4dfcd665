// Arbitrary segmentation, order, duplication and overlap of segments give the same messages, and arbitrary
// bytes do no harm.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tools/lib/trace/iwarp/test_capture.hpp"

namespace rtrs::iwarp_capture::segments_property_test {
namespace {

using namespace test;

constexpr bool kToServer = Capture::kToServer;
constexpr bool kToClient = Capture::kToClient;

ByteVector draw_message(Sender& sender) {
  const auto size =
      *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 40), rc::gen::inRange<std::size_t>(0, 9000));
  const ByteVector data = filled(size, *rc::gen::inRange(0U, 256U));
  const auto imm = *rc::gen::arbitrary<std::uint32_t>();
  switch (*rc::gen::inRange(0, 5)) {
    case 0:
      return sender.write(1, imm, data);
    case 1:
      return sender.send(data);
    case 2:
      return sender.send_imm(data, imm);
    case 3:
      return sender.send_inv(imm | 1U);
    default:
      return sender.write_imm(2, imm, data, imm);
  }
}

// Cuts the next bytes of a direction into segments, of which some overlap and some appear twice, in any
// order.
std::vector<Segment> draw_segments(Capture& capture, bool to_server, const ByteVector& bytes) {
  const std::uint32_t first = capture.next[to_server ? 0 : 1];
  const auto cuts =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
  std::vector<std::size_t> edges = cuts;
  edges.push_back(0);
  edges.push_back(bytes.size());
  std::sort(edges.begin(), edges.end());
  std::vector<Segment> segments;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    const std::size_t before = std::min(edges[i], *rc::gen::inRange<std::size_t>(0, 30));
    const auto copies = *rc::gen::inRange(1, 3);
    Segment one = capture.segment(to_server);
    one.sequence = first + static_cast<std::uint32_t>(edges[i] - before);
    one.payload.assign(bytes.begin() + static_cast<std::ptrdiff_t>(edges[i] - before),
                       bytes.begin() + static_cast<std::ptrdiff_t>(edges[i + 1]));
    segments.insert(segments.end(), static_cast<std::size_t>(copies), one);
  }
  capture.next[to_server ? 0 : 1] += static_cast<std::uint32_t>(bytes.size());
  for (std::size_t i = segments.size(); i > 1; --i)
    std::swap(segments[i - 1], segments[*rc::gen::inRange<std::size_t>(0, i)]);
  return segments;
}

RC_GTEST_PROP(IwarpSegments, AnySegmentationGivesTheSameMessages, ()) {
  const auto crc = *rc::gen::arbitrary<bool>();
  Capture whole;
  Capture cut;
  Sender client(crc);
  Sender server(crc);
  whole.open(crc);
  cut.open(crc);
  const auto rounds = *rc::gen::inRange(1, 8);
  for (int round = 0; round < rounds; ++round) {
    const auto to_server = *rc::gen::arbitrary<bool>();
    ByteVector bytes;
    for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
      const ByteVector message = draw_message(to_server ? client : server);
      whole.send(to_server, message);
      bytes.insert(bytes.end(), message.begin(), message.end());
    }
    for (Segment& one : draw_segments(cut, to_server, bytes)) cut.take(std::move(one));
    whole.acknowledge(!to_server);
    cut.acknowledge(!to_server);
  }
  RC_ASSERT(cut.finish() == whole.finish());
  RC_ASSERT(cut.messages == whole.messages);
  RC_ASSERT(cut.analyzer.counters().gaps == 0U);
  RC_ASSERT(cut.analyzer.counters().lost_bytes == 0U);
}

// Lost segments lose messages, but never invent or change any.
RC_GTEST_PROP(IwarpSegments, MessagesAfterLostSegmentsAreThoseThatWereSent, ()) {
  const auto crc = *rc::gen::arbitrary<bool>();
  Capture whole;
  Capture holed;
  Sender client(crc);
  whole.open(crc);
  holed.open(crc);
  for (int i = *rc::gen::inRange(1, 12); i > 0; --i) {
    const ByteVector message = draw_message(client);
    whole.send(kToServer, message);
    const auto at = static_cast<std::ptrdiff_t>(*rc::gen::inRange<std::size_t>(0, message.size() + 1));
    for (const ByteVector& part :
         {ByteVector(message.begin(), message.begin() + at), ByteVector(message.begin() + at, message.end())})
      *rc::gen::inRange(0, 4) == 0 ? holed.lose(kToServer, part) : holed.send(kToServer, part);
    holed.acknowledge(kToClient);
  }
  // Without a FIN, a lost last byte would look like one.
  holed.fin(kToServer);
  whole.finish();
  holed.finish();
  std::size_t at = 0;
  for (const roce::Message& message : holed.messages) {
    while (at < whole.messages.size() && whole.messages[at] != message) ++at;
    // A write whose immediate was lost looks like a write without immediate, and the other way round.
    RC_ASSERT(at < whole.messages.size());
  }
  RC_ASSERT(holed.messages.size() == whole.messages.size() || holed.analyzer.counters().gaps > 0U);
}

RC_GTEST_PROP(IwarpSegments, ArbitraryBytesDoNoHarmToTheNextConnection, ()) {
  Capture capture;
  const auto crc = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) capture.open(crc);
  Sender client(crc);
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i) {
    const auto to_server = *rc::gen::arbitrary<bool>();
    ByteVector bytes = *rc::gen::oneOf(
        rc::gen::exec([&] { return draw_message(client); }), rc::gen::exec([] { return request(true); }),
        rc::gen::map(rc::gen::arbitrary<std::vector<std::uint8_t>>(), [](const auto& from) {
          ByteVector to;
          for (const std::uint8_t one : from) to.push_back(static_cast<std::byte>(one));
          return to;
        }));
    if (!bytes.empty() && *rc::gen::arbitrary<bool>())
      bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] ^= std::byte{0x40};
    Segment one = capture.segment(to_server, bytes);
    if (*rc::gen::inRange(0, 4) == 0) one.sequence += *rc::gen::arbitrary<std::uint32_t>();
    if (*rc::gen::inRange(0, 4) == 0) one.acknowledgement += *rc::gen::arbitrary<std::uint32_t>();
    one.syn = *rc::gen::inRange(0, 8) == 0;
    one.fin = *rc::gen::inRange(0, 16) == 0;
    one.rst = *rc::gen::inRange(0, 16) == 0;
    one.cut = *rc::gen::inRange(0U, 8U) == 0 ? *rc::gen::arbitrary<std::uint32_t>() % 100'000 : 0;
    capture.take(std::move(one));
  }
  capture.next = {*rc::gen::arbitrary<std::uint32_t>(), *rc::gen::arbitrary<std::uint32_t>()};
  capture.open(crc);
  capture.messages.clear();
  capture.send(kToServer, Sender(crc).send(filled(321, 1)));
  capture.finish();
  RC_ASSERT(!capture.messages.empty());
  RC_ASSERT(capture.messages.back().payload == filled(321, 1));
}

}  // namespace
}  // namespace rtrs::iwarp_capture::segments_property_test
