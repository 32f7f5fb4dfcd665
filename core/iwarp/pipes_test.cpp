// Tests two peers over pipes that split, coalesce, delay, hang and corrupt data, from the request to the last
// message. The seed determines everything that happens.
#include <gtest/gtest.h>

#include <random>

#include "core/iwarp/greeting.hpp"
#include "core/iwarp/stream.hpp"
#include "core/iwarp/test_receiver.hpp"
#include "core/iwarp/writer.hpp"

namespace rtrs::iwarp::test::pipes_test {
namespace {

constexpr std::uint32_t kKey = 0xc0ffee01;
constexpr std::uint64_t kBase = 0x7fff00000000;
constexpr std::size_t kWindow = 160'000;
constexpr std::size_t kReceivesAt = 200'000;
constexpr std::size_t kReceive = 300;

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : draws_(seed) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(draws_() % bound); }
  bool one_in(std::size_t bound) { return below(bound) == 0; }

 private:
  std::mt19937_64 draws_;
};

// Bytes in flight in one direction.
struct Pipe {
  ByteVector octets;
  std::size_t passed = 0;
  std::size_t hangs_at = ~std::size_t{0};
  std::size_t wrong_at = ~std::size_t{0};  // this byte is corrupted

  ByteVector come(Chance& chance) {
    if (chance.one_in(3)) return {};  // delivers no bytes in this call
    std::size_t n = chance.one_in(3) ? octets.size() : std::min(octets.size(), chance.below(2000));
    n = passed >= hangs_at ? 0 : std::min(n, hangs_at - passed);
    ByteVector out(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n));
    octets.erase(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n));
    if (wrong_at >= passed && wrong_at < passed + n) out[wrong_at - passed] ^= std::byte{0x10};
    passed += n;
    return out;
  }
};

class End {
 public:
  End(Role role, Wishes wishes, Pipe& out, Pipe& in)
      : memory(kReceivesAt + 32 * kReceive),
        role_(role),
        requested_options_(wishes),
        out_(out),
        in_(in),
        greeting_(role == Role::initiator ? GreetingKind::reply : GreetingKind::request) {
    memory.windows[kKey] = {.base = kBase, .at = 100, .length = kWindow};
    if (role == Role::initiator)
      send_greeting([&](MutableBytes to) { return write_request({requested_options_}, text("hello"), to); });
  }

  void turn(Chance& chance, End& other) {
    const ByteVector came = in_.come(chance);
    if (!receiver_)
      greet(came);
    else if (chance.one_in(2))
      receiver_->feed_or_place(came, 1 + chance.below(5000));
    else
      receiver_->feed(came);
    if (!receiver_) return;
    if (chance.one_in(3)) {
      memory.post(kReceivesAt + posted_++ % 32 * kReceive, kReceive);
      receiver_->feed({});
    }
    if (to_send_ != 0 && receiver_->stream.may_send() && chance.one_in(2)) send(chance, other);
  }

  [[nodiscard]] bool done() const {
    return receiver_ && to_send_ == 0 && receiver_->seen.size() >= wanted.size();
  }
  [[nodiscard]] const Receiver& receiver() const { return *receiver_; }
  [[nodiscard]] bool greeted() const { return receiver_.has_value(); }
  [[nodiscard]] Lines seen() const { return receiver_ ? receiver_->seen : Lines{}; }

  TestMemory memory;
  Lines wanted;       // expected events, in the order in which the other peer caused them
  ByteVector shadow;  // bytes that the other peer wrote into the window

 private:
  void send_greeting(const auto& write) {
    std::array<std::byte, kMaxGreetingBytes> out{};
    const std::size_t size = write(MutableBytes(out));
    ASSERT_NE(size, 0U);
    out_.octets.insert(out_.octets.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size));
  }
  void greet(const ByteVector& came) {
    ASSERT_EQ(greeting_.feed(came), Fault::none);
    if (!greeting_.complete()) return;
    const Greeting peer = greeting_.greeting();
    if (role_ == Role::responder)
      send_greeting(
          [&](MutableBytes to) { return write_accept(peer, requested_options_, text("welcome"), to); });
    EXPECT_EQ(words(peer.private_data), words(role_ == Role::responder ? text("hello") : text("welcome")));
    agreed = agree(requested_options_, peer);
    receiver_.emplace(
        memory,
        Stream::Options{.role = role_, .crc = agreed.crc, .send_with_immediate = agreed.send_with_immediate},
        3);
    writer_.emplace(agreed.crc);
    if (role_ == Role::initiator)
      flush([&](Outgoing& to) { return writer_->empty_write(to); }, kRoomForControl);
    if (role_ == Role::responder) wanted.insert(wanted.begin(), "greeted");
  }
  void flush(const auto& write, Room room) {
    ByteVector arena(room.arena_bytes);
    std::vector<Bytes> pieces(room.pieces);
    Outgoing out(arena, pieces);
    ASSERT_TRUE(write(out));
    for (const Bytes& piece : out.pieces()) out_.octets.insert(out_.octets.end(), piece.begin(), piece.end());
  }
  void send(Chance& chance, End& other) {
    --to_send_;
    const std::size_t size = chance.one_in(4) ? chance.below(150'000) : chance.below(5000);
    const std::size_t at = chance.below(kWindow - size);
    const ByteVector data = filled(size, to_send_);
    const ByteVector small(data.begin(),
                           data.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(size, kReceive)));
    const Bytes part = data;
    const auto imm = static_cast<std::uint32_t>(chance.below(1U << 30U));
    switch (chance.below(agreed.send_with_immediate ? 5 : 4)) {
      case 0:
        flush(
            [&](Outgoing& to) {
              return writer_->write(kKey, kBase + at, {&part, 1}, to);
            },
            room_for_write(size));
        std::copy(data.begin(), data.end(), other.shadow.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        flush(
            [&](Outgoing& to) {
              return writer_->write_immediate(kKey, kBase + at, {&part, 1}, imm, to);
            },
            room_for_write(size));
        std::copy(data.begin(), data.end(), other.shadow.begin() + static_cast<std::ptrdiff_t>(at));
        other.wanted.push_back(words(Event(Immediate{imm})));
        break;
      case 2:
        flush([&](Outgoing& to) { return writer_->send(small, to); }, room_for_send(small.size()));
        other.wanted.push_back(words(Event(Message{std::nullopt, small})));
        break;
      case 3:
        other.memory.offered.insert(imm);
        flush([&](Outgoing& to) { return writer_->send_invalidate(imm, to); }, room_for_send(0));
        other.wanted.push_back(words(Event(Invalidated{imm, {}})));
        break;
      default:
        flush([&](Outgoing& to) { return writer_->send_immediate(small, imm, to); },
              room_for_send(small.size()));
        other.wanted.push_back(words(Event(Message{imm, small})));
        break;
    }
  }

 public:
  Wishes agreed{};

 private:
  Role role_;
  Wishes requested_options_;
  Pipe& out_;
  Pipe& in_;
  GreetingReader greeting_;
  std::optional<Receiver> receiver_;
  std::optional<Writer> writer_;
  unsigned to_send_ = 20;
  std::size_t posted_ = 0;
};

struct Pair {
  explicit Pair(std::uint64_t seed)
      : chance(seed),
        client(Role::initiator, {.crc = chance.one_in(2), .send_with_immediate = !chance.one_in(3)}, up,
               down),
        server(Role::responder, {.crc = chance.one_in(2), .send_with_immediate = !chance.one_in(3)}, down,
               up) {
    client.shadow.assign(kWindow, kUntouched);
    server.shadow.assign(kWindow, kUntouched);
  }
  void play(unsigned turns) {
    for (unsigned i = 0;
         i < turns && !(client.done() && server.done() && up.octets.empty() && down.octets.empty()); ++i) {
      client.turn(chance, server);
      server.turn(chance, client);
    }
  }
  Chance chance;
  Pipe up;
  Pipe down;
  End client;
  End server;
};

bool is_front(const Lines& seen, const Lines& of) {
  return seen.size() <= of.size() && std::equal(seen.begin(), seen.end(), of.begin());
}

TEST(Pipes, EverythingArrivesOnceAndInOrder) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair(seed);
    pair.play(100'000);
    EXPECT_EQ(pair.client.agreed, pair.server.agreed);
    for (End* const end : {&pair.client, &pair.server}) {
      ASSERT_TRUE(end->greeted());
      EXPECT_EQ(end->seen(), end->wanted);
      EXPECT_TRUE(end->receiver().stream.between_messages());
      EXPECT_TRUE(end->memory.at(100, kWindow) == end->shadow);
      EXPECT_EQ(end->memory.at(0, 100), ByteVector(100, kUntouched));
    }
  }
}

// One direction hangs. Everything sent before the hang must arrive, and the other direction must not be
// affected.
TEST(Pipes, HungPipeDelaysOnlyItself) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair(seed);
    pair.up.hangs_at = pair.chance.below(40'000);
    pair.play(3'000);
    EXPECT_LE(pair.up.passed, pair.up.hangs_at);
    EXPECT_TRUE(is_front(pair.server.seen(), pair.server.wanted) || !pair.server.greeted());
    if (!pair.server.greeted()) continue;
    EXPECT_EQ(pair.server.receiver().stream.fault(), Fault::none);
    const bool may_send = pair.server.receiver().stream.may_send();
    EXPECT_EQ(pair.client.seen(), pair.client.wanted);
    EXPECT_EQ(pair.client.wanted.empty(), !may_send);
  }
}

// With CRC, a corrupted byte ends its direction; everything before the byte must be delivered.
TEST(Pipes, CorruptedPipeDeliversNoWrongData) {
  unsigned found = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair(seed);
    pair.up.wrong_at = 600 + pair.chance.below(40'000);
    pair.play(3'000);
    if (!pair.server.greeted() || !pair.server.agreed.crc || pair.up.passed <= pair.up.wrong_at) continue;
    Lines seen = pair.server.seen();
    // A corrupted length may be too large. The stream then waits for more data and reports no fault.
    if (pair.server.receiver().stream.fault() == Fault::none) continue;
    ++found;
    ASSERT_FALSE(seen.empty());
    const Fault fault = pair.server.receiver().stream.fault();
    EXPECT_TRUE(fault == Fault::bad_crc || fault == Fault::bad_length) << to_string(fault);
    EXPECT_EQ(seen.back(), violated(fault));
    seen.pop_back();
    EXPECT_TRUE(is_front(seen, pair.server.wanted));
    EXPECT_LT(seen.size(), pair.server.wanted.size() + 1);
  }
  EXPECT_GT(found, 20U);
}

}  // namespace
}  // namespace rtrs::iwarp::test::pipes_test
