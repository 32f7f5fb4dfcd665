// Tests that a connection fails if memory for the state of a connect request or its response cannot be
// allocated.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/test_short_memory.hpp"
#include "core/keyed/keyed_fabric.hpp"
#include "core/keyed/test_wire.hpp"
#include "core/keyed/toy_mac.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::keyed::keyed_fabric_memory_test {
namespace {

using test::allocations_left;

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
  bool failed = false;  // set if an allocation failed
};

// Returns the outcome of the request at a new server that has received no other request.
Outcome asked(const std::vector<std::byte>& message, const SharedKey& key, std::size_t fails) {
  Wire wire;
  KeyedFabric server(wire);
  server.ask(toy_mac, {}, {key}, Mode::require);
  event::ConnectRequested event{};
  event.request = 1;
  event.private_data = message;
  wire.events = {event};
  std::array<FabricEvent, 1> out;
  allocations_left = fails;
  EXPECT_EQ(server.poll(kNow, out), 1U);
  const bool failed = fails != 0 && std::exchange(allocations_left, 0) == 0;
  return {std::get<event::ConnectRequested>(out[0]), failed};
}

TEST(KeyedFabricMemory, WithoutMemoryTheClientIsRejected) {
  // The identity is long enough to need a heap allocation.
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

std::vector<std::byte> challenge(const wire::KeyNonce& nonce) {
  std::vector<std::byte> bytes(wire::kConnRspBytes);
  EXPECT_EQ(wire::encode(wire::make_reject(wire::linux_errno::kEacces), bytes), bytes.size());
  wire::put_key_challenge(bytes, nonce);
  return bytes;
}

// Passes `others` + 1 responses to a client at once and returns the event for the last one. If `knows`, the
// client's request has a proof with `nonce`.
FabricEvent told(const SharedKey& key, const wire::KeyNonce& nonce, bool knows, const FabricEvent& answer,
                 std::uint32_t others, std::size_t fails, bool& failed) {
  Wire wire;
  KeyedFabric client(wire);
  client.prove(toy_mac, key);
  const std::vector<std::byte> refusal = challenge(nonce);
  std::vector<FabricEvent> out(others + 1);
  if (knows) {
    client.connect({0, 0, 2}, {}, {}, request());
    wire.events = {event::ConnectFailed{{0, 0, 2}, Reason::rejected, refusal}};
    EXPECT_EQ(client.poll(kNow, out), 1U);
  }
  client.connect({0, 0, 1}, {}, {}, request());
  for (std::uint32_t other = 0; other < others; ++other) {
    const ConKey con{0, 0, 3 + other};
    client.connect(con, {}, {}, request());
    wire.events.push_back(event::ConnectFailed{con, Reason::rejected, refusal});
  }
  wire.events.push_back(answer);
  allocations_left = fails;
  EXPECT_EQ(client.poll(kNow, out), out.size());
  failed = fails != 0 && std::exchange(allocations_left, 0) == 0;
  return out.back();
}

TEST(KeyedFabricMemory, AcceptThatCannotBeCopiedFailsTheConnection) {
  const SharedKey key{"web1", {}};
  const wire::KeyNonce nonce{std::byte{7}};
  const ConKey con{0, 0, 1};
  std::vector<std::byte> asked = request();
  Prover(toy_mac, key).prove(asked, &nonce);
  std::vector<std::byte> accept(wire::kConnRspBytes);
  EXPECT_EQ(wire::encode(wire::ConnRsp{}, accept), accept.size());
  wire::grant_key_proof(accept);
  wire::put_server_key_proof(accept, server_proof(toy_mac, key.secret, nonce, asked, accept));
  const std::vector<std::byte> refusal = challenge(nonce);
  unsigned refused = 0;
  for (std::uint32_t others = 0; others < 20; ++others) {
    bool failed = true;
    for (std::size_t fails = 1; failed; ++fails) {
      const FabricEvent event = told(key, nonce, true, event::Connected{con, accept}, others, fails, failed);
      const auto* lost = std::get_if<event::ConnectFailed>(&event);
      if (lost == nullptr) continue;
      EXPECT_EQ(lost->reason, Reason::no_resources);
      ++refused;
    }
    failed = true;
    for (std::size_t fails = 1; failed; ++fails) {
      const FabricEvent event = told(key, nonce, false, event::ConnectFailed{con, Reason::rejected, refusal},
                                     others, fails, failed);
      EXPECT_EQ(std::get<event::ConnectFailed>(event).reason, Reason::challenged);
    }
  }
  EXPECT_NE(refused, 0U);
}

}  // namespace
}  // namespace rtrs::keyed::keyed_fabric_memory_test
