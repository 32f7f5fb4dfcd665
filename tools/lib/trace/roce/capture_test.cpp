// Tests decoding real and damaged captures: frames, connection management, messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/lib/trace/roce/analyzer.hpp"
#include "tools/lib/trace/roce/capture_reader.hpp"
#include "tools/lib/trace/roce/capture_writer.hpp"

namespace rtrs::roce::capture_test {
namespace {

class Memory final : public ByteSource {
 public:
  explicit Memory(Bytes bytes) : left_(bytes) {}
  std::size_t read(MutableBytes to) override {
    const std::size_t part = std::min(to.size(), left_.size());
    std::copy_n(left_.begin(), part, to.begin());
    left_ = left_.subspan(part);
    return part;
  }

 private:
  Bytes left_;
};

std::vector<std::byte> load(const std::string& name) {
  std::ifstream file(std::string(URTRS_CAPTURES "/") + name + ".pcapng", std::ios::binary);
  std::vector<std::byte> bytes;
  for (std::istreambuf_iterator<char> at(file), end; at != end; ++at)
    bytes.push_back(static_cast<std::byte>(*at));
  return bytes;
}

struct Frames {
  CaptureReader::Status status = CaptureReader::Status::ok;
  std::vector<CapturedFrame> all;
};

Frames frames_of(Bytes bytes) {
  Memory source(bytes);
  CaptureReader reader(source);
  Frames frames;
  frames.status = reader.open();
  CapturedFrame frame;
  while (frames.status == CaptureReader::Status::ok &&
         (frames.status = reader.next(frame)) == CaptureReader::Status::ok)
    frames.all.push_back(frame);
  return frames;
}

struct Analyzed {
  std::vector<WireEvent> events;
  AnalyzerCounters counters;
  [[nodiscard]] long count(WireEvent::Kind kind) const {
    return std::count_if(events.begin(), events.end(), [kind](const WireEvent& e) { return e.kind == kind; });
  }
};

// Analyzes the frames, except those for which left_out(number) is true. Numbers count from 1, as in
// Wireshark.
template <class LeftOut>
Analyzed analyze(const std::vector<CapturedFrame>& frames, LeftOut left_out) {
  Analyzed result;
  Analyzer analyzer([&result](const WireEvent& event) { result.events.push_back(event); });
  std::size_t number = 0;
  for (const CapturedFrame& frame : frames) {
    Packet packet;
    if (left_out(++number) || decode(frame.link, frame.bytes, frame.original, packet) != Decoded::packet)
      continue;
    analyzer.packet(frame.time, std::move(packet));
  }
  analyzer.finish();
  result.counters = analyzer.counters();
  return result;
}

Analyzed analyze(const std::vector<CapturedFrame>& frames) {
  return analyze(frames, [](std::size_t) { return false; });
}

constexpr const char* kCaptures[] = {"rnr_nak", "path_loss", "invalidation"};
constexpr std::size_t kTransport = 42;  // bytes of the Ethernet, IPv4 and UDP headers

TEST(Capture, RealFramesRoundTripWithValidIcrc) {
  for (const char* name : kCaptures) {
    const Frames frames = frames_of(load(name));
    ASSERT_EQ(frames.status, CaptureReader::Status::end) << name;
    for (const CapturedFrame& frame : frames.all) {
      Packet packet;
      ASSERT_EQ(decode(frame.link, frame.bytes, frame.original, packet), Decoded::packet);
      ASSERT_FALSE(packet.bad_icrc);
      const std::vector<std::byte> again = encode(packet);
      ASSERT_EQ(again.size(), frame.bytes.size());
      // The ICRC is not compared, because it covers the IP identification, which encode() chooses.
      ASSERT_TRUE(std::equal(again.begin() + kTransport, again.end() - 4, frame.bytes.begin() + kTransport));
      Packet same;
      ASSERT_EQ(decode(link_ethernet, again, again.size(), same), Decoded::packet);
      ASSERT_FALSE(same.bad_icrc);
      ASSERT_EQ(same.payload, packet.payload);
    }
  }
}

TEST(Capture, FlippedBitMakesTheIcrcWrong) {
  Frames frames = frames_of(load("rnr_nak"));
  CapturedFrame& frame = frames.all[18];
  frame.bytes[kTransport + 40] ^= std::byte{1};
  Packet packet;
  ASSERT_EQ(decode(frame.link, frame.bytes, frame.original, packet), Decoded::packet);
  EXPECT_TRUE(packet.bad_icrc);
}

TEST(Capture, EveryMessageOfARealCaptureIsReconstructed) {
  const Analyzed rnr = analyze(frames_of(load("rnr_nak")).all);
  EXPECT_EQ(rnr.count(WireEvent::Kind::message), 23);
  EXPECT_EQ(rnr.counters.rnr_naks, 5U);
  EXPECT_EQ(rnr.counters.retransmitted, 5U);
  const Analyzed loss = analyze(frames_of(load("path_loss")).all);
  EXPECT_EQ(loss.count(WireEvent::Kind::request), 6);
  EXPECT_EQ(loss.count(WireEvent::Kind::closed), 6);
  EXPECT_EQ(loss.counters.unacknowledged, 1U);  // heartbeat that the server sent on the dead path
  EXPECT_GT(loss.counters.retransmitted, 100U);
  for (const char* name : kCaptures) {
    const Analyzed one = analyze(frames_of(load(name)).all);
    EXPECT_EQ(one.counters.gaps, 0U) << name;
    EXPECT_EQ(one.counters.strangers, 0U) << name;
  }
}

TEST(Capture, MissingFramesAreGapsInTheirDirection) {
  const std::vector<CapturedFrame> frames = frames_of(load("rnr_nak")).all;
  const Analyzed info = analyze(frames, [](std::size_t n) { return n == 12; });  // leaves out INFO_RSP
  EXPECT_EQ(info.counters.gaps, 1U);
  EXPECT_EQ(info.count(WireEvent::Kind::message), 22);
  const auto gap = std::find_if(info.events.begin(), info.events.end(),
                                [](const WireEvent& e) { return e.kind == WireEvent::Kind::gap; });
  ASSERT_NE(gap, info.events.end());
  EXPECT_FALSE(gap->to_server);
  EXPECT_EQ(gap->number, 1U);
  const Analyzed late = analyze(frames, [](std::size_t n) { return n <= 30; });
  EXPECT_TRUE(late.events.empty());
  EXPECT_GT(late.counters.strangers, 50U);
}

TEST(Capture, CmMessageRoundTrips) {
  CmMessage request;
  request.transaction = 0x123456789abcdefULL;
  request.local_id = 0x11223344;
  request.service = kTcpServicePrefix + 1234;
  request.qpn = 0xabcdef;
  request.psn = 0x123456;
  request.path_mtu = mtu_code(1024);
  request.source_port = 40000;
  request.source = ipv4(10, 0, 0, 1);
  request.destination = ipv4(10, 0, 0, 2);
  request.private_data.assign(56, std::byte{7});
  const auto back = decode_cm(cm_packet(request.source, request.destination, 5, request));
  ASSERT_TRUE(back);
  EXPECT_EQ(encode_cm(*back), encode_cm(request));
  EXPECT_EQ(back->qpn, request.qpn);
  EXPECT_EQ(back->psn, request.psn);
  EXPECT_EQ(back->source, request.source);
  EXPECT_EQ(back->private_data, request.private_data);
  EXPECT_EQ(mtu_bytes(back->path_mtu), 1024U);
}

// Returns a pcap file with one frame, in the given byte order and time unit.
std::string classic(bool big, bool nano) {
  std::string out;
  const auto put = [&](std::uint32_t value, int width) {
    for (int i = 0; i < width; ++i) {
      const int shift = 8 * (big ? width - 1 - i : i);
      out += static_cast<char>((value >> shift) & 0xffU);
    }
  };
  put(nano ? 0xa1b23c4dU : 0xa1b2c3d4U, 4);
  put(2, 2);
  put(4, 2);
  for (const std::uint32_t value : {0U, 0U, 65535U, 1U, 3U, 7U, 5U, 60U}) put(value, 4);
  return out + "frame";
}

TEST(Capture, ReadsBothByteOrdersAndTimeUnitsOfPcap) {
  for (const bool big : {false, true}) {
    for (const bool nano : {false, true}) {
      const std::string text = classic(big, nano);
      const Frames frames = frames_of(std::as_bytes(std::span(text)));
      EXPECT_EQ(frames.status, CaptureReader::Status::end);
      ASSERT_EQ(frames.all.size(), 1U);
      EXPECT_EQ(frames.all[0].time, 3'000'000'000U + (nano ? 7U : 7000U));
      EXPECT_EQ(frames.all[0].original, 60U);
      EXPECT_EQ(frames.all[0].bytes.size(), 5U);
      EXPECT_EQ(frames.all[0].link, link_ethernet);
    }
  }
}

TEST(Capture, WrittenCaptureIsReadBack) {
  std::vector<std::byte> file;
  CaptureWriter writer([&file](Bytes bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); }, "test");
  const std::vector<std::byte> frame(61, std::byte{9});
  writer.frame(12'345'678'901'234'567ULL, frame, "a comment");
  writer.frame(12'345'678'901'234'568ULL, frame);
  const Frames frames = frames_of(file);
  EXPECT_EQ(frames.status, CaptureReader::Status::end);
  ASSERT_EQ(frames.all.size(), 2U);
  EXPECT_EQ(frames.all[0].time, 12'345'678'901'234'567ULL);
  EXPECT_EQ(frames.all[1].time, 12'345'678'901'234'568ULL);
  EXPECT_EQ(frames.all[1].bytes, frame);
}

TEST(Capture, TruncatedFileGivesTheFramesBeforeTheCut) {
  std::vector<std::byte> file = load("rnr_nak");
  const std::size_t all = frames_of(file).all.size();
  for (std::size_t size = 0; size < file.size(); size += 997) {
    const Frames frames = frames_of(Bytes(file).first(size));
    EXPECT_NE(frames.status, CaptureReader::Status::ok);
    EXPECT_LT(frames.all.size(), all);
  }
  const std::string text = "this is no capture at all, but long enough for a header";
  EXPECT_EQ(frames_of(std::as_bytes(std::span(text))).status, CaptureReader::Status::not_a_capture);
}

// Decoding must not read out of bounds, even if the bytes are damaged.
TEST(Capture, DamagedFramesAndFilesAreSafe) {
  std::vector<std::byte> file = load("rnr_nak");
  std::uint64_t state = 1;
  const auto draw = [&state](std::size_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>((state >> 33) % below);
  };
  std::uint64_t packets = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> damaged = file;
    for (int i = 0; i < 40; ++i)
      damaged[200 + draw(damaged.size() - 200)] = static_cast<std::byte>(draw(256));
    Frames frames = frames_of(damaged);
    for (CapturedFrame& frame : frames.all)
      if (draw(4) == 0) frame.bytes.resize(draw(frame.bytes.size() + 1));
    packets += analyze(frames.all).counters.packets;
  }
  EXPECT_GT(packets, 1000U);
}

}  // namespace
}  // namespace rtrs::roce::capture_test
