// A server that has no memory for what it is to remember of a connect request refuses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "core/keyed/keyed_fabric.hpp"
#include "core/keyed/test_wire.hpp"
#include "core/keyed/toy_mac.hpp"

namespace {
std::size_t left = 0;  // allocations until one fails; 0: none does
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (left != 0 && --left == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace rtrs::keyed {
namespace {

constexpr Nanos kNow = seconds(5);

std::vector<std::byte> request() {
  wire::ConnReq message;
  message.cid_num = 2;
  message.recon_cnt = 1;
  message.sess_uuid.bytes.fill(1);
  message.paths_uuid.bytes.fill(2);
  std::vector<std::byte> bytes(wire::kConnReqBytes);
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

struct Outcome {
  event::ConnectRequested event;
  bool failed = false;  // an allocation
};

// Each time a server that nobody has asked yet.
Outcome asked(const std::vector<std::byte>& message, const SharedKey& key, std::size_t fails) {
  Wire wire;
  KeyedFabric server(wire);
  server.ask(toy_mac, {}, {key}, Mode::require);
  event::ConnectRequested event{};
  event.request = 1;
  event.private_data = message;
  wire.events = {event};
  std::array<FabricEvent, 1> out;
  left = fails;
  EXPECT_EQ(server.poll(kNow, out), 1U);
  const bool failed = fails != 0 && std::exchange(left, 0) == 0;
  return {std::get<event::ConnectRequested>(out[0]), failed};
}

TEST(KeyedFabricMemory, WhoCannotBeRememberedIsNotLetIn) {
  // So long that it is memory of its own.
  const SharedKey key{std::string(100, 'w'), {}};
  Gate gate(toy_mac, {});
  const KeyTable keys(toy_mac, {key});
  Prover prover(toy_mac, key);
  std::vector<std::byte> good = request();
  prover.prove(good, nullptr);
  const wire::KeyNonce nonce = gate.judge(kNow, good, 0, keys, Mode::require).nonce;
  const std::vector<std::byte> offer = good;
  prover.prove(good, &nonce);
  EXPECT_EQ(asked(good, key, 0).event.refusal, Reason::none);
  std::size_t fails = 1;
  for (;; ++fails) {
    const Outcome outcome = asked(good, key, fails);
    if (!outcome.failed) break;
    EXPECT_EQ(outcome.event.refusal, Reason::no_resources) << fails;
  }
  EXPECT_GT(fails, 1U);
  for (fails = 1;; ++fails) {
    const Outcome outcome = asked(offer, key, fails);
    if (!outcome.failed) break;
    EXPECT_NE(outcome.event.refusal, Reason::none) << fails;
  }
}

}  // namespace
}  // namespace rtrs::keyed
