#include "core/proto/server_registry.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <tuple>
#include <vector>

#include "core/proto/test_server_registry.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {
namespace {

class ServerRegistryTest : public testing::Test {
 protected:
  template <class Answer, class Input>
  Answer ask(const Input& input) {
    ActionList out;
    registry.on(input, out);
    EXPECT_EQ(out.size(), 1U);
    return std::get<Answer>(std::get<ControlAction>(*out.begin()));
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
    ActionList out;
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

TEST_F(ServerRegistryTest, R12L12ConcurrentFirstRequestsMeetInOneSession) {
  const AdmitSession a = admit(1);
  const AdmitSession b = admit(1);
  EXPECT_TRUE(a.create);
  EXPECT_FALSE(b.create);
  EXPECT_EQ(a.session, b.session);
  EXPECT_EQ(registry.session_count(), 1U);
}

TEST_F(ServerRegistryTest, R26SessionsAreBounded) {
  admit(1);
  admit(2);
  const Reject reject = refusal(3);
  EXPECT_EQ(reject.reason, Reason::too_many_sessions);
  EXPECT_EQ(reject.peer_errno, wire::linux_errno::kEnomem);
  EXPECT_FALSE(admit(2).create);
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

TEST_F(ServerRegistryTest, ASessionKeepsItsName) {
  const auto a = admit(1).session;
  EXPECT_EQ(claim(a, 5), 0);
  EXPECT_EQ(claim(a, 6), wire::linux_errno::kEperm);
}

TEST_F(ServerRegistryTest, TheNameIsFreeOnceItsSessionIsDropped) {
  const auto a = admit(1).session;
  const auto b = admit(2).session;
  EXPECT_EQ(claim(a, 5), 0);
  drop(a);
  EXPECT_EQ(claim(b, 5), 0);
}

TEST_F(ServerRegistryTest, DroppingEverythingRestoresTheFirstState) {
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

RC_GTEST_PROP(ServerRegistryCommands, AgreeWithAPlainAccount, ()) {
  using Command = std::tuple<unsigned, unsigned, unsigned>;
  CheckedRegistry checked(*rc::gen::inRange<std::uint16_t>(1, 9));
  const auto command =
      rc::gen::tuple(rc::gen::inRange(0U, 4U), rc::gen::inRange(0U, 12U), rc::gen::inRange(0U, 5U));
  for (const auto& [what, who, name] :
       *rc::gen::scale(3, rc::gen::container<std::vector<Command>>(command))) {
    const char* broken = checked.obey(what, who, name);
    if (broken != nullptr) RC_FAIL(broken);
  }
  RC_CLASSIFY(checked.names() > 1, "several names");
}

}  // namespace
}  // namespace rtrs
