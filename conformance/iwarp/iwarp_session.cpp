// Writes a packet capture of a session with the messages of core/iwarp: `iwarp_session FILE SEGMENT [crc]
// [reject]`, with at most SEGMENT bytes per TCP segment. Prints direction and opcode of each FPDU, which
// tshark_test.py compares with tshark's output.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/iwarp/greeting.hpp"
#include "core/iwarp/writer.hpp"

namespace {

using namespace rtrs::iwarp;
using ByteVector = std::vector<std::byte>;

constexpr unsigned kIpBytes = 20;
constexpr unsigned kTcpBytes = 20;

// A pcap file of IPv4 packets without a link header, between 10.0.0.1 (client) and 10.0.0.2 (server).
class Capture {
 public:
  explicit Capture(const char* path) : file_(path, std::ios::binary) {
    for (const std::uint32_t word : {0xa1b2c3d4U, 0x00040002U, 0U, 0U, 262144U, 101U}) little(word);
    segment(0, {}, 0x02);
    segment(1, {}, 0x12);
    segment(0, {}, 0x10);
  }
  void send(unsigned from, Bytes payload, std::size_t most) {
    for (std::size_t at = 0; at < payload.size(); at += most)
      segment(from, payload.subspan(at, std::min(most, payload.size() - at)), 0x18);
  }
  [[nodiscard]] bool good() const { return file_.good(); }

 private:
  void little(std::uint32_t word) {
    for (unsigned i = 0; i < 4; ++i) file_.put(static_cast<char>(word >> (8 * i)));
  }
  void segment(unsigned from, Bytes payload, unsigned flags) {
    const auto size = static_cast<std::uint32_t>(kIpBytes + kTcpBytes + payload.size());
    std::array<std::byte, kIpBytes + kTcpBytes> head{};
    std::byte* const ip = head.data();
    ip[0] = std::byte{0x45};
    store_be(ip + 2, static_cast<std::uint16_t>(size));
    ip[8] = std::byte{64};
    ip[9] = std::byte{6};
    store_be(ip + 12, 0x0a000001U + from);
    store_be(ip + 16, 0x0a000002U - from);
    std::byte* const tcp = ip + kIpBytes;
    store_be(tcp, static_cast<std::uint16_t>(from == 0 ? 40000 : 1234));
    store_be(tcp + 2, static_cast<std::uint16_t>(from == 0 ? 1234 : 40000));
    store_be(tcp + 4, next_[from]);
    store_be(tcp + 8, next_[1 - from]);
    tcp[12] = std::byte{0x50};
    tcp[13] = static_cast<std::byte>(flags);
    store_be(tcp + 14, std::uint16_t{65535});
    little(++seconds_);
    little(0);
    little(size);
    little(size);
    file_.write(reinterpret_cast<const char*>(head.data()), head.size());
    file_.write(reinterpret_cast<const char*>(payload.data()), static_cast<std::streamsize>(payload.size()));
    next_[from] += static_cast<std::uint32_t>(payload.size()) + ((flags & 0x02U) != 0 ? 1 : 0);
  }

  std::ofstream file_;
  std::array<std::uint32_t, 2> next_{1000, 5000};
  std::uint32_t seconds_ = 0;
};

// One end of the connection. flush() sends everything written since the last flush in as few segments as
// possible.
class End {
 public:
  End(Capture& capture, unsigned side, std::size_t segment, bool crc)
      : writer(crc), out(arena_, pieces_), capture_(capture), side_(side), segment_(segment) {}
  void flush() {
    ByteVector payload;
    for (const Bytes& piece : out.pieces()) payload.insert(payload.end(), piece.begin(), piece.end());
    out.clear();
    for (std::size_t at = 0; at < payload.size();) {
      const std::uint32_t ulpdu = load_be<std::uint16_t>(payload.data() + at);
      std::printf("%u %u\n", side_, std::to_integer<unsigned>(payload[at + 3]) & kOpcodeMask);
      at += fpdu_bytes(ulpdu);
    }
    capture_.send(side_, payload, segment_);
  }

 private:
  ByteVector arena_ = ByteVector(8192);
  std::vector<Bytes> pieces_ = std::vector<Bytes>(128);

 public:
  Writer writer;
  Outgoing out;

 private:
  Capture& capture_;
  unsigned side_;
  std::size_t segment_;
};

// Writes the session: each kind of SEND once, two rounds of eight requests and responses, a write of 128 KiB,
// and a TERMINATE.
bool write_session(End& client, End& server) {
  const ByteVector data(std::size_t{128} << 10U, std::byte{0x5a});
  const ByteVector some(60, std::byte{0x21});
  const auto part = [&data](std::size_t size) { return std::array{Bytes(data).first(size)}; };
  bool good = client.writer.empty_write(client.out);
  client.flush();
  good &= client.writer.send(some, client.out);
  client.flush();
  good &= server.writer.send_immediate(some, 7, server.out);
  server.flush();
  for (unsigned round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < 8; ++i)
      good &=
          client.writer.write_immediate(0x11223344, 0x7f0000001000 + i * 8192, part(4096 + i), i, client.out);
    client.flush();
    for (unsigned i = 0; i < 8; ++i) good &= server.writer.write_immediate(0, 0, {}, i, server.out);
    server.flush();
  }
  good &= client.writer.write_immediate(1, 2, part(data.size()), 8, client.out);
  client.flush();
  good &= server.writer.send_invalidate(0xabcdef01, server.out) &&
          server.writer.write(5, 6, part(512), server.out);
  server.flush();
  good &= server.writer.terminate(Fault::unknown_key, server.out);
  server.flush();
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t segment = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (segment == 0 || segment > 65'000) {
    std::fprintf(stderr, "usage: iwarp_session FILE SEGMENT [crc] [reject]\n");
    return 2;
  }
  bool crc = false;
  bool reject = false;
  for (int i = 3; i < argc; ++i) {
    crc |= std::string_view(argv[i]) == "crc";
    reject |= std::string_view(argv[i]) == "reject";
  }
  Capture capture(argv[1]);
  const ByteVector data(kMaxCallerBytes, std::byte{0x42});
  std::array<std::byte, kMaxGreetingBytes> frame{};
  const Wishes wishes{.crc = crc, .send_with_immediate = true};
  capture.send(0, Bytes(frame).first(write_request({.wishes = wishes}, data, frame)), segment);
  GreetingReader reader(GreetingKind::request);
  reader.feed(frame);
  if (!reader.complete()) return 1;
  const std::size_t size = reject ? write_reject(reader.greeting(), data, frame)
                                  : write_accept(reader.greeting(), {}, data, frame);
  capture.send(1, Bytes(frame).first(size), segment);
  if (reject) return capture.good() ? 0 : 1;
  End client(capture, 0, segment, crc);
  End server(capture, 1, segment, crc);
  return write_session(client, server) && capture.good() ? 0 : 1;
}
