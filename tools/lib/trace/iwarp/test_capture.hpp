// A TCP connection of the fabric tcp, as segments for an analyzer; reported events are stored as lines of
// text.
#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/iwarp/writer.hpp"
#include "tools/lib/trace/iwarp/analyzer.hpp"

namespace rtrs::iwarp_capture::test {

using ByteVector = std::vector<std::byte>;

inline ByteVector filled(std::size_t size, unsigned seed) {
  ByteVector bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256 + seed);
  return bytes;
}

// The bytes of one direction after the greeting.
class Sender {
 public:
  explicit Sender(bool crc) : writer_(crc) {}
  ByteVector empty_write() {
    return written([&](iwarp::Outgoing& out) { return writer_.empty_write(out); });
  }
  ByteVector write(std::uint32_t key, std::uint64_t to, const ByteVector& data) {
    const std::array<iwarp::Bytes, 1> parts{data};
    return written([&](iwarp::Outgoing& out) { return writer_.write(key, to, parts, out); });
  }
  ByteVector write_imm(std::uint32_t key, std::uint64_t to, const ByteVector& data, std::uint32_t imm) {
    const std::array<iwarp::Bytes, 1> parts{data};
    return written([&](iwarp::Outgoing& out) { return writer_.write_immediate(key, to, parts, imm, out); });
  }
  ByteVector send(const ByteVector& data) {
    return written([&](iwarp::Outgoing& out) { return writer_.send(data, out); });
  }
  ByteVector send_imm(const ByteVector& data, std::uint32_t imm) {
    return written([&](iwarp::Outgoing& out) { return writer_.send_immediate(data, imm, out); });
  }
  ByteVector send_inv(std::uint32_t key) {
    return written([&](iwarp::Outgoing& out) { return writer_.send_invalidate(key, out); });
  }

 private:
  template <class Write>
  static ByteVector written(const Write& write) {
    ByteVector arena(std::size_t{1} << 20);
    std::array<iwarp::Bytes, 256> pieces;
    iwarp::Outgoing out(arena, pieces);
    RTRS_ASSERT(write(out));
    ByteVector bytes;
    for (const iwarp::Bytes& piece : out.pieces()) bytes.insert(bytes.end(), piece.begin(), piece.end());
    return bytes;
  }
  iwarp::Writer writer_;
};

inline ByteVector request(bool crc, std::size_t private_size = 56) {
  ByteVector frame(iwarp::kMaxGreetingBytes);
  frame.resize(iwarp::write_request({.wishes = {.crc = crc}}, filled(private_size, 1), frame));
  return frame;
}
inline ByteVector reply(bool crc, bool accept = true) {
  iwarp::GreetingReader reader(iwarp::GreetingKind::request);
  reader.feed(request(crc));
  ByteVector frame(iwarp::kMaxGreetingBytes);
  const ByteVector data = filled(56, 2);
  frame.resize(accept ? iwarp::write_accept(reader.greeting(), {.crc = crc}, data, frame)
                      : iwarp::write_reject(reader.greeting(), data, frame));
  return frame;
}

// Makes the segments of TCP connections between two ports, as a capture contains them.
class Capture {
 public:
  static constexpr bool kToServer = true;
  static constexpr bool kToClient = false;

  explicit Capture(std::uint16_t client_port = 40000) : client_port_(client_port) {}

  // Sequence numbers of the next byte of both directions; the first wraps soon.
  std::array<std::uint32_t, 2> next{0xffffff00U, 5000};
  std::vector<std::string> seen;
  std::vector<roce::Message> messages;
  Analyzer analyzer{1234, [this](const roce::WireEvent& event) { note(event); }};

  // Segment of the next bytes of a direction, which acknowledges all bytes of the other direction.
  [[nodiscard]] Segment segment(bool to_server, const ByteVector& payload = {}) {
    Segment one;
    const Endpoint client{roce::ipv4(10, 0, 0, 1), client_port_};
    const Endpoint server{roce::ipv4(10, 0, 0, 2), 1234};
    one.source = to_server ? client : server;
    one.destination = to_server ? server : client;
    one.sequence = next[to_server ? 0 : 1];
    one.acknowledgement = next[to_server ? 1 : 0];
    one.ack = true;
    one.payload = payload;
    next[to_server ? 0 : 1] += static_cast<std::uint32_t>(payload.size());
    return one;
  }
  bool take(Segment one) { return analyzer.segment(++time_, std::move(one)); }
  void send(bool to_server, const ByteVector& payload) { take(segment(to_server, payload)); }
  // The bytes are sent, but are not in the capture.
  void lose(bool to_server, const ByteVector& payload) { (void)segment(to_server, payload); }
  void acknowledge(bool to_server) { take(segment(to_server)); }

  void handshake() {
    Segment syn = segment(kToServer);
    syn.syn = true;
    syn.ack = false;
    ++next[0];
    take(std::move(syn));
    Segment back = segment(kToClient);
    back.syn = true;
    ++next[1];
    take(std::move(back));
    acknowledge(kToServer);
  }
  void open(bool crc) {
    handshake();
    send(kToServer, request(crc));
    send(kToClient, reply(crc));
  }
  void fin(bool to_server) {
    Segment last = segment(to_server);
    last.fin = true;
    ++next[to_server ? 0 : 1];
    take(std::move(last));
  }
  // Returns the events, after the last segment.
  const std::vector<std::string>& finish() {
    analyzer.finish();
    return seen;
  }
  void pause(std::uint64_t time) { time_ += time; }

 private:
  void note(const roce::WireEvent& event) {
    static constexpr std::array<const char*, 6> kKinds{"req", "rep", "rej", "closed", "", "gap"};
    static constexpr std::array<const char*, 5> kOps{"write", "write_imm", "send", "send_imm", "send_inv"};
    std::string line = event.to_server ? "> " : "< ";
    line += kKinds[static_cast<std::size_t>(event.kind)];
    if (event.kind == roce::WireEvent::Kind::message) {
      const roce::Message& message = event.message;
      line += kOps[static_cast<std::size_t>(message.op)];
      line += " " + std::to_string(message.payload.size());
      if (message.has_imm()) line += " imm " + std::to_string(message.imm);
      if (message.rkey != 0) line += " key " + std::to_string(message.rkey);
      messages.push_back(message);
    }
    if (event.connection != 0) line += " of " + std::to_string(event.connection);
    seen.push_back(line);
  }

  std::uint16_t client_port_;
  std::uint64_t time_ = 1'000'000'000;
};

using Lines = std::vector<std::string>;

}  // namespace rtrs::iwarp_capture::test
