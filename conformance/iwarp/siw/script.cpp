#include "conformance/iwarp/siw/script.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace rtrs::siw {
namespace {

// Purpose of a connection: the first byte of the request's private data.
enum class Plan : unsigned char {
  initiator_ends = 'i',              // exchange data, then the initiator disconnects
  responder_ends = 'r',              // exchange data, then the responder disconnects
  refused = 'n',                     // the responder rejects
  short_data = 's',                  // like initiator_ends, with one byte of private data each way
  initiator_uses_invalid_key = 'x',  // exchange data, then the initiator writes with an invalid key
  responder_uses_invalid_key = 'y',
  last = 'l',  // last connection of the run
};

constexpr std::array<std::size_t, 7> kWrites{0, 1, 4096, 65'536, 200'001, 1U << 20U, 3};
constexpr std::array<std::size_t, 7> kMessages{0, 1, 7, 4096, 65'536, 100'003, 2};
constexpr std::uint32_t kBurst = 64;  // less than kReceives
constexpr unsigned kCalls = 40;
constexpr std::size_t kSlot = 512;   // bytes of memory for each write of the burst
constexpr std::size_t kMargin = 64;  // bytes around a write that must not change

std::byte pattern_byte(std::uint32_t number, std::size_t i) {
  const std::uint64_t mixed = (std::uint64_t{number} << 32U | (i & 0xffffffffU)) * 0x9e3779b97f4a7c15U;
  return static_cast<std::byte>(mixed >> 56U);
}

ByteVector pattern(std::uint32_t number, std::size_t size) {
  ByteVector made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = pattern_byte(number, i);
  return made;
}

void compare(Bytes seen, Bytes wanted, const std::string& what) {
  if (seen.size() != wanted.size())
    throw Failure(what + " has " + std::to_string(seen.size()) + " octets instead of " +
                  std::to_string(wanted.size()));
  const auto [at, other] = std::mismatch(seen.begin(), seen.end(), wanted.begin());
  if (at != seen.end())
    throw Failure(what + " differs at octet " + std::to_string(at - seen.begin()) + " of " +
                  std::to_string(seen.size()));
}

template <class T>
void put(ByteVector& to, const T& value) {
  const auto* const from = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}

template <class T>
T get(Bytes from, std::size_t at) {
  if (from.size() < at + sizeof(T)) throw Failure("a message is too short");
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// Data exchange on one connection. The ends take turns, the initiator first.
class Talk {
 public:
  Talk(End& end, bool first, Corruption spoil) : end_(end), first_(first), corruption_(spoil) {
    fill();
    if (first) call();
    const ByteVector theirs = end_.message();
    peer_ = {get<std::uint64_t>(theirs, 0), get<std::uint32_t>(theirs, sizeof(std::uint64_t))};
    called_ = theirs;
    if (!first) offer();
  }

  void all() {
    in_turns([&] { writes(); }, [&] { expect_writes(); });
    in_turns([&] { messages(); }, [&] { echo_messages(); });
    burst();
    // The peer answers this message only when everything before it has arrived.
    in_turns([&] { end_.send(pattern(99, 5)); },
             [&] { compare(next(), pattern(99, 5), "the last message"); });
  }

  void write_with_invalid_key() { end_.write({peer_.address, peer_.key ^ 0x5a00U}, pattern(1, 64)); }

 private:
  template <class Lead, class Follow>
  void in_turns(Lead&& lead, Follow&& follow) {
    if (first_) lead();
    follow();
    if (!first_) lead();
  }
  void fill() { std::fill(end_.memory().begin(), end_.memory().end(), std::byte{0xee}); }

  // A responder on siw can overlook a message that arrives directly after its reply, until the next message
  // arrives. The first message is therefore repeated until it is answered.
  void call() {
    offer();
    for (unsigned i = 0; i < kCalls && !end_.has_message(); ++i) offer();
  }

  // The peer's next message, skipping repetitions of its first one.
  ByteVector next() {
    ByteVector message = end_.message();
    while (!first_ && message == called_) message = end_.message();
    return message;
  }

  void offer() {
    ByteVector message;
    put(message, end_.place().address);
    put(message, end_.place().key);
    end_.send(message);
  }

  // Offset of a write: odd, so that writes are unaligned.
  static std::size_t place_of(std::size_t index) { return kMargin + 129 * index; }

  void writes() {
    for (std::size_t i = 0; i < kWrites.size(); ++i) {
      ByteVector payload = pattern(1000 + static_cast<std::uint32_t>(i), kWrites[i]);
      if (corruption_ == Corruption::write && i == 3) payload[60'000] ^= std::byte{1};
      end_.write({peer_.address + place_of(i), peer_.key}, payload);
      end_.send(pattern(static_cast<std::uint32_t>(i), 8));
      // The peer checks its memory before it answers.
      compare(next(), pattern(static_cast<std::uint32_t>(i), 9), "the answer to a write");
    }
  }

  void expect_writes() {
    for (std::size_t i = 0; i < kWrites.size(); ++i) {
      const std::string what = "a write of " + std::to_string(kWrites[i]);
      compare(next(), pattern(static_cast<std::uint32_t>(i), 8), "the message behind " + what);
      const std::size_t at = place_of(i);
      const ByteVector margin(kMargin, std::byte{0xee});
      const Bytes memory = end_.memory();
      compare(memory.subspan(at, kWrites[i]), pattern(1000 + static_cast<std::uint32_t>(i), kWrites[i]),
              what);
      compare(memory.subspan(at - kMargin, kMargin), margin, "what lies before " + what);
      compare(memory.subspan(at + kWrites[i], kMargin), margin, "what lies behind " + what);
      fill();
      end_.send(pattern(static_cast<std::uint32_t>(i), 9));
    }
  }

  void messages() {
    for (std::size_t i = 0; i < kMessages.size(); ++i) {
      ByteVector message = pattern(2000 + static_cast<std::uint32_t>(i), kMessages[i]);
      if (corruption_ == Corruption::message && i == 5) message[99'999] ^= std::byte{0x80};
      end_.send(message);
      compare(next(), pattern(3000 + static_cast<std::uint32_t>(i), kMessages[i]), "an answer");
    }
  }

  void echo_messages() {
    for (std::size_t i = 0; i < kMessages.size(); ++i) {
      compare(next(), pattern(2000 + static_cast<std::uint32_t>(i), kMessages[i]), "a message");
      end_.send(pattern(3000 + static_cast<std::uint32_t>(i), kMessages[i]));
    }
  }

  // Both ends send at the same time. Each write must be complete when the message behind it arrives, and
  // messages must arrive in order.
  void burst() {
    for (std::uint32_t i = 0; i < kBurst; ++i) {
      const std::uint32_t number = corruption_ == Corruption::order && i / 2 == 20 ? i ^ 1U : i;
      end_.write({peer_.address + number * kSlot, peer_.key}, pattern(4000 + number, kSlot));
      end_.send(pattern(5000 + number, 16 + number));
    }
    for (std::uint32_t i = 0; i < kBurst; ++i) {
      compare(next(), pattern(5000 + i, 16 + i), "message " + std::to_string(i) + " of many");
      compare(end_.memory().subspan(i * kSlot, kSlot), pattern(4000 + i, kSlot),
              "write " + std::to_string(i) + " of many");
    }
  }

  End& end_;
  bool first_;
  Corruption corruption_;
  Place peer_{};
  ByteVector called_;  // the peer's first message
};

constexpr std::size_t kLongData = 244;  // bytes of private data that every end supports
constexpr std::uint32_t kRequestNumber = 70;
constexpr std::uint32_t kAnswerNumber = 71;

// Private data whose first byte is the plan.
ByteVector data_of(Plan plan, std::uint32_t number, std::size_t size) {
  ByteVector data = pattern(number, size);
  data[0] = static_cast<std::byte>(plan);
  return data;
}

// Private data of maximum size, or one byte for short_data.
ByteVector private_data(const End& end, Plan plan, bool initiator, Corruption spoil) {
  const std::size_t size = plan == Plan::short_data ? 1 : end.most_data(initiator);
  ByteVector data = data_of(plan, initiator ? kRequestNumber : kAnswerNumber, size);
  if (spoil == Corruption::private_data) data.back() ^= std::byte{1};
  return data;
}

void judge_private_data(Bytes data, Plan plan, std::uint32_t number, const std::string& what) {
  if (plan == Plan::short_data ? data.size() != 1 : data.size() < kLongData)
    throw Failure(what + " has " + std::to_string(data.size()) + " octets");
  compare(data, data_of(plan, number, data.size()), what);
}

void log_result(const char* who, Plan plan, const std::string& text) {
  std::printf("%s: plan %c: %s\n", who, static_cast<char>(plan), text.c_str());
  std::fflush(stdout);
}

// Makes one connection as the initiator.
void carry_out(End& end, const std::string& source, const std::string& address, std::uint16_t port, Plan plan,
               Corruption spoil) {
  const ByteVector data = private_data(end, plan, true, spoil);
  const Answer answer = end.connect(source, address, port, data);
  if (answer.accepted == (plan == Plan::refused))
    throw Failure(answer.accepted ? "a request that had to be rejected was accepted"
                                  : "the request was rejected");
  judge_private_data(answer.data, plan, kAnswerNumber, "private data of the answer");
  if (plan == Plan::refused) {
    log_result("initiator", plan, "rejected");
    end.disconnect();
    return;
  }
  Talk talk(end, true, spoil);
  talk.all();
  std::string how = "ended by this end";
  if (plan == Plan::initiator_uses_invalid_key) talk.write_with_invalid_key();
  if (plan == Plan::responder_ends || plan == Plan::initiator_uses_invalid_key ||
      plan == Plan::responder_uses_invalid_key)
    how = end.wait_for_end();
  end.disconnect();
  log_result("initiator", plan, "talk holds, " + how);
}

}  // namespace

void run_initiator(End& end, const std::string& source, const std::string& address, std::uint16_t port,
                   Corruption spoil) {
  for (const Plan plan : {Plan::initiator_ends, Plan::responder_ends, Plan::refused, Plan::short_data,
                          Plan::initiator_uses_invalid_key, Plan::responder_uses_invalid_key, Plan::last})
    carry_out(end, source, address, port, plan, spoil);
}

void run_responder(End& end, const std::string& address, std::uint16_t port, Corruption spoil) {
  end.listen(address, port);
  for (Plan plan{}; plan != Plan::last;) {
    const ByteVector data = end.request();
    if (data.empty()) throw Failure("a request has no private data");
    plan = static_cast<Plan>(data[0]);
    judge_private_data(data, plan, kRequestNumber, "private data of the request");
    const ByteVector answer = private_data(end, plan, false, spoil);
    if (plan == Plan::refused) {
      end.reject(answer);
      log_result("responder", plan, "rejected");
      continue;
    }
    end.accept(answer);
    Talk talk(end, false, spoil);
    talk.all();
    std::string how = "ended by this end";
    if (plan == Plan::responder_uses_invalid_key) talk.write_with_invalid_key();
    if (plan != Plan::responder_ends) how = end.wait_for_end();
    end.disconnect();
    log_result("responder", plan, "talk holds, " + how);
  }
}

}  // namespace rtrs::siw
