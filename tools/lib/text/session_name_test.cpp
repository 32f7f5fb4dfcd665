#include "tools/lib/text/session_name.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rtrs::tools::session_name_test {
namespace {

TEST(DefaultSessionName, BeginsWithTheIdentityAndEndsWithARandomPart) {
  EXPECT_EQ(default_session_name("web1", "nbdkit", 0x5f3a9c01), "web1-nbdkit-5f3a9c01");
  EXPECT_EQ(default_session_name("web1", "nbdkit", 7), "web1-nbdkit-00000007");
}

TEST(DefaultSessionName, ReplacesBytesInvalidInASessionName) {
  EXPECT_EQ(default_session_name("a.b/c", "10.0.0.2", 0), "a_b_c-10_0_0_2-00000000");
  EXPECT_EQ(default_session_name("x\n\x80", "\x1b[m", 0), "x__-__m-00000000");
}

// A server with the rule "%IDENTITY%-*" accepts the name only if it contains the unchanged identity.
TEST(DefaultSessionName, KeepsEveryByteThatAnIdentityMayHave) {
  EXPECT_EQ(default_session_name("Ops_1@lab:a-b", "nbdkit", 0), "Ops_1@lab:a-b-nbdkit-00000000");
}

TEST(DefaultSessionName, IsShortUnlessTheIdentityIsLong) {
  EXPECT_LE(default_session_name(std::string(24, 'h'), std::string(300, 's'), ~0U).size(), 63U);
  const std::string identity(128, 'i');
  const std::string name = default_session_name(identity, std::string(300, 's'), ~0U);
  EXPECT_EQ(name.substr(0, 129), identity + "-");
  EXPECT_LE(name.size(), 254U);
}

TEST(DefaultSessionName, HostNameIsShortened) {
  const std::string host = short_host_name();
  EXPECT_FALSE(host.empty());
  EXPECT_LE(host.size(), 24U);
  EXPECT_EQ(host.find('.'), std::string::npos);
}

TEST(DefaultSessionName, RandomPartsDiffer) {
  std::set<std::uint32_t> drawn;
  for (int i = 0; i < 8; ++i) drawn.insert(random_part());
  EXPECT_GT(drawn.size(), 6U);
}

}  // namespace
}  // namespace rtrs::tools::session_name_test
