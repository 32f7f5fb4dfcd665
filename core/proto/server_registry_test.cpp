#include "core/proto/server_registry.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <tuple>
#include <vector>

#include "core/proto/test_server_registry.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::server_registry_test {
namespace {

class ServerRegistryTest : public testing::Test {
 protected:
  template <class Answer, class Input>
  Answer ask(const Input& input, std::vector<std::uint16_t> crowded_out = {}) {
    RegistryActions out;
    registry.on(input, out);
    std::vector<std::uint16_t> given_way;
    for (const RegistryAction& action : out) {
      if (const auto* crowded = std::get_if<CrowdOut>(&action)) given_way.push_back(crowded->session);
    }
    EXPECT_EQ(given_way, crowded_out);
    EXPECT_EQ(out.size(), crowded_out.size() + 1);
    return std::get<Answer>(*(out.end() - 1));
  }
  static SessionSought from(std::uint32_t host, std::uint8_t session) {
    return SessionSought{0, 77, uuid(session), true, host};
  }
  AdmitSession admit(std::uint8_t session, bool first = true) {
    return ask<AdmitSession>(SessionSought{0, 77, uuid(session), first});
  }
  Reject refusal(std::uint8_t session, bool first = true) {
    return ask<Reject>(SessionSought{0, 77, uuid(session), first});
  }
  std::uint16_t claim(std::uint16_t session, std::uint64_t name) {
    return ask<AnswerName>(NameClaimed{0, session, name, ~name}).refusal_errno;
  }
  void drop(std::uint16_t session) {
    RegistryActions out;
    registry.on(SessionDropped{0, session}, out);
    EXPECT_TRUE(out.empty());
  }
  static wire::Uuid uuid(std::uint8_t n) {
    wire::Uuid value;
    value.bytes.fill(n);
    return value;
  }

  ServerRegistry registry{[] {
    ServerConfig two;
    two.max_sessions = 2;
    return two;
  }()};
};

TEST_F(ServerRegistryTest, FirstRequestCreatesLaterOnesJoin) {
  const AdmitSession first = admit(1);
  EXPECT_TRUE(first.create);
  EXPECT_EQ(first.request, 77U);
  claim(first.session, 5);
  const AdmitSession second = admit(1, false);
  EXPECT_FALSE(second.create);
  EXPECT_EQ(second.session, first.session);
}

TEST_F(ServerRegistryTest, R10AdditionalPathOfUnknownSessionIsRefused) {
  const Reject reject = refusal(1, false);
  EXPECT_EQ(reject.reason, Reason::unknown_session);
  EXPECT_EQ(reject.peer_errno, wire::linux_errno::kEnxio);
  EXPECT_EQ(registry.session_count(), 0U);
}

// The session may be left over from an attempt that the client abandoned because its session is on another
// server.
TEST_F(ServerRegistryTest, AdditionalPathOfAHalfOpenSessionIsRefused) {
  const AdmitSession first = admit(1);
  const Reject reject = refusal(1, false);
  EXPECT_EQ(reject.reason, Reason::unknown_session);
  EXPECT_EQ(reject.peer_errno, wire::linux_errno::kEnxio);
  EXPECT_EQ(registry.session_count(), 1U);
  EXPECT_EQ(admit(1).session, first.session) << "a path that may create a session may use it";
  claim(first.session, 5);
  EXPECT_EQ(admit(1, false).session, first.session);
}

TEST_F(ServerRegistryTest, R12L12ConcurrentFirstRequestsShareOneSession) {
  const AdmitSession a = admit(1);
  const AdmitSession b = admit(1);
  EXPECT_TRUE(a.create);
  EXPECT_FALSE(b.create);
  EXPECT_EQ(a.session, b.session);
  EXPECT_EQ(registry.session_count(), 1U);
}

TEST_F(ServerRegistryTest, R26SessionsAreBounded) {
  claim(admit(1).session, 1);
  claim(admit(2).session, 2);
  const Reject reject = refusal(3);
  EXPECT_EQ(reject.reason, Reason::too_many_sessions);
  EXPECT_EQ(reject.peer_errno, wire::linux_errno::kEnomem);
  EXPECT_FALSE(admit(2).create);
}

TEST_F(ServerRegistryTest, R26HalfOpenSessionIsCrowdedOutAtTheSessionLimit) {
  const auto named = admit(1).session;
  claim(named, 1);
  const auto half_open = admit(2).session;
  const auto reject = ask<Reject>(from(9, 3), {half_open});
  EXPECT_EQ(reject.reason, Reason::too_many_sessions);
  EXPECT_EQ(reject.peer_errno, wire::linux_errno::kEbusy) << "the client tries again soon";
  // The evicted session keeps its slot until it is dropped, and no other session is dropped in that time.
  EXPECT_EQ(ask<Reject>(from(9, 3)).peer_errno, wire::linux_errno::kEnomem);
  drop(half_open);
  EXPECT_EQ(ask<AdmitSession>(from(9, 3)).session, half_open);
}

class CrowdedRegistryTest : public ServerRegistryTest {
 protected:
  CrowdedRegistryTest() { registry = ServerRegistry(limits(6, 0, 2)); }
  static ServerConfig limits(std::uint16_t sessions, std::uint16_t of_host, std::uint16_t half_open) {
    ServerConfig config;
    config.max_sessions = sessions;
    config.max_host_sessions = of_host;
    config.max_half_open = half_open;
    return config;
  }
};

TEST_F(CrowdedRegistryTest, OldestHalfOpenSessionOfAnAddressIsCrowdedOut) {
  const auto first = ask<AdmitSession>(from(1, 1)).session;
  const auto other = ask<AdmitSession>(from(2, 2)).session;
  const auto second = ask<AdmitSession>(from(1, 3)).session;
  const auto third = ask<AdmitSession>(from(1, 4), {first}).session;
  EXPECT_TRUE(third != first && third != second && third != other);
  ask<AdmitSession>(from(1, 5), {second});
  EXPECT_EQ(registry.session_count(), 5U) << "crowded-out sessions count until they are dropped";
}

TEST_F(CrowdedRegistryTest, NamedSessionIsNeverCrowdedOut) {
  for (std::uint8_t i = 1; i <= 6; ++i) claim(ask<AdmitSession>(from(1, i)).session, i);
  EXPECT_EQ(ask<Reject>(from(1, 7)).peer_errno, wire::linux_errno::kEnomem);
  EXPECT_EQ(ask<Reject>(from(2, 7)).peer_errno, wire::linux_errno::kEnomem);
}

TEST_F(CrowdedRegistryTest, AddressWithMostHalfOpenSessionsIsCrowdedOut) {
  for (std::uint8_t i = 1; i <= 3; ++i) claim(ask<AdmitSession>(from(1, i)).session, i);
  ask<AdmitSession>(from(2, 4));
  const auto crowd = ask<AdmitSession>(from(3, 5)).session;
  ask<AdmitSession>(from(3, 6));
  EXPECT_EQ(ask<Reject>(from(4, 7), {crowd}).peer_errno, wire::linux_errno::kEbusy);
}

TEST_F(CrowdedRegistryTest, UnknownAddressHasNoAddressLimit) {
  registry = ServerRegistry(limits(6, 2, 2));
  for (std::uint8_t i = 1; i <= 6; ++i) ask<AdmitSession>(from(0, i));
}

TEST_F(CrowdedRegistryTest, HalfOpenLimitDefaultsToHalfOfAllSessions) {
  registry = ServerRegistry(limits(6, 0, 0));
  const auto first = ask<AdmitSession>(from(1, 1)).session;
  ask<AdmitSession>(from(1, 2));
  ask<AdmitSession>(from(1, 3));
  ask<AdmitSession>(from(1, 4), {first});
}

TEST_F(CrowdedRegistryTest, AddressGetsNoMoreThanItsLimit) {
  registry = ServerRegistry(limits(6, 4, 2));
  for (std::uint8_t i = 1; i <= 3; ++i) claim(ask<AdmitSession>(from(1, i)).session, i);
  const auto half_open = ask<AdmitSession>(from(1, 4)).session;
  EXPECT_EQ(ask<Reject>(from(1, 5), {half_open}).peer_errno, wire::linux_errno::kEbusy);
  EXPECT_EQ(ask<Reject>(from(1, 5)).peer_errno, wire::linux_errno::kEnomem);
  EXPECT_TRUE(ask<AdmitSession>(from(2, 5)).create) << "another address may still create sessions";
}

// A client that knows the uuid of a session may join or reopen the session only with the same identity.
TEST_F(ServerRegistryTest, SessionBelongsToTheIdentityThatCreatedIt) {
  const auto asks = [](PeerIdentity who, bool first) { return SessionSought{0, 77, uuid(1), first, 0, who}; };
  const PeerIdentity alice{.low = 1, .high = 2};
  const auto made = ask<AdmitSession>(asks(alice, true));
  EXPECT_TRUE(made.create);
  for (const bool named : {false, true}) {
    if (named) {
      EXPECT_EQ(claim(made.session, 5), 0);
    }
    for (const PeerIdentity other : {PeerIdentity{}, PeerIdentity{.low = 1, .high = 3},
                                     PeerIdentity{.low = 2, .high = 2}, PeerIdentity{.low = 2, .high = 1}}) {
      for (const bool first : {true, named ? false : true}) {
        const Reject refused = ask<Reject>(asks(other, first));
        EXPECT_EQ(refused.reason, Reason::other_identity);
        EXPECT_EQ(refused.peer_errno, wire::linux_errno::kEperm);
      }
    }
    EXPECT_FALSE(ask<AdmitSession>(asks(alice, true)).create);
  }
  EXPECT_EQ(ask<AdmitSession>(asks(alice, false)).session, made.session);
  EXPECT_EQ(registry.session_count(), 1U);
  // After the session is dropped, a client of any identity may create it.
  drop(made.session);
  EXPECT_TRUE(ask<AdmitSession>(asks({}, true)).create);
  EXPECT_EQ(ask<Reject>(asks(alice, true)).reason, Reason::other_identity);
}

TEST_F(ServerRegistryTest, IndexIsReusedOnlyAfterTheDrop) {
  const auto first = admit(1).session;
  EXPECT_NE(admit(2).session, first);
  drop(first);
  const AdmitSession third = admit(3);
  EXPECT_TRUE(third.create);
  EXPECT_EQ(third.session, first);
}

TEST_F(ServerRegistryTest, R11DroppedSessionNeedsAFirstRequestAgain) {
  drop(admit(1).session);
  EXPECT_EQ(refusal(1, false).reason, Reason::unknown_session);
  EXPECT_TRUE(admit(1).create);
}

TEST_F(ServerRegistryTest, R13L13OneOwnerOfAName) {
  const auto a = admit(1).session;
  const auto b = admit(2).session;
  EXPECT_EQ(claim(a, 5), 0);
  EXPECT_EQ(claim(b, 5), wire::linux_errno::kEperm);
  EXPECT_EQ(claim(a, 5), 0) << "each path of the owner claims it";
  EXPECT_EQ(claim(b, 6), 0) << "the refusal left nothing behind";
}

TEST_F(ServerRegistryTest, SessionKeepsItsName) {
  const auto a = admit(1).session;
  EXPECT_EQ(claim(a, 5), 0);
  EXPECT_EQ(claim(a, 6), wire::linux_errno::kEperm);
}

TEST_F(ServerRegistryTest, NameIsFreeOnceItsSessionIsDropped) {
  const auto a = admit(1).session;
  const auto b = admit(2).session;
  EXPECT_EQ(claim(a, 5), 0);
  drop(a);
  EXPECT_EQ(claim(b, 5), 0);
}

TEST_F(ServerRegistryTest, DroppingAllSessionsRestoresTheInitialState) {
  const ServerRegistry before = registry;
  const auto a = admit(1).session;
  const auto b = admit(2).session;
  EXPECT_NE(registry, before);
  EXPECT_NE(registry.fingerprint(), before.fingerprint());
  drop(a);
  drop(b);
  EXPECT_EQ(registry, before);
  EXPECT_EQ(registry.fingerprint(), before.fingerprint());
}

RC_GTEST_PROP(ServerRegistryCommands, AgreeWithTheReferenceModel, ()) {
  using Command = std::tuple<unsigned, unsigned, unsigned>;
  CheckedRegistry checked(*rc::gen::inRange<std::uint16_t>(1, 9));
  const auto command =
      rc::gen::tuple(rc::gen::inRange(0U, 4U), rc::gen::inRange(0U, 12U), rc::gen::inRange(0U, 5U));
  for (const auto& [what, who, name] :
       *rc::gen::scale(3, rc::gen::container<std::vector<Command>>(command))) {
    const char* broken = checked.execute_command(what, who, name);
    if (broken != nullptr) RC_FAIL(broken);
  }
  RC_CLASSIFY(checked.names() > 1, "several names");
}

}  // namespace
}  // namespace rtrs::server_registry_test
