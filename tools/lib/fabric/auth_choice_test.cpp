// What a user may choose of proofs of keys, and what he is told otherwise.
#include "tools/lib/fabric/auth_choice.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "backends/tls/mac.hpp"

namespace rtrs::tools {
namespace {

struct AuthChoiceTest : ::testing::Test {
  AuthChoiceTest() {
    if (tls::hmac_sha256() == nullptr) return;
    write("web1:" + std::string(64, '1') + "\n");
  }
  void write(const std::string& text) {
    file = ::testing::TempDir() + "auth_choice_test.keys";
    std::ofstream(file) << text;
    ::chmod(file.c_str(), 0600);
  }
  static std::string refusal(const AuthChoice& choice, bool client) {
    const auto opened = open_auth(choice, client);
    return opened ? "" : opened.error();
  }
  std::string file;
};

TEST_F(AuthChoiceTest, WithoutKeysNobodyIsAsked) {
  const auto opened = open_auth({}, false);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->mode, keyed::Mode::off);
  EXPECT_NE(refusal({.mode = "require", .keys = {}, .identity = {}}, false), "");
}

TEST_F(AuthChoiceTest, KeysAreRequiredUnlessSaidOtherwise) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  const auto opened = open_auth({.mode = {}, .keys = file, .identity = {}}, false);
  ASSERT_TRUE(opened) << opened.error();
  EXPECT_EQ(opened->mode, keyed::Mode::require);
  ASSERT_EQ(opened->keys.size(), 1U);
  EXPECT_EQ(opened->keys[0].identity, "web1");
  EXPECT_EQ(opened->keys[0].secret[0], std::byte{0x11});
  EXPECT_EQ(open_auth({.mode = "allow", .keys = file, .identity = {}}, false)->mode, keyed::Mode::allow);
  EXPECT_NE(refusal({.mode = "off", .keys = file, .identity = {}}, false), "");
  EXPECT_NE(refusal({.mode = "allow", .keys = file, .identity = {}}, true), "");
}

TEST_F(AuthChoiceTest, AClientHasOneKey) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  write("web1:" + std::string(64, '1') + "\nweb2:" + std::string(64, '2') + "\n");
  EXPECT_EQ(open_auth({.mode = {}, .keys = file, .identity = {}}, false)->keys.size(), 2U);
  EXPECT_NE(refusal({.mode = {}, .keys = file, .identity = {}}, true).find("choose one"), std::string::npos);
  EXPECT_NE(refusal({.mode = {}, .keys = file, .identity = "web3"}, true).find("no key of web3"),
            std::string::npos);
  const auto opened = open_auth({.mode = {}, .keys = file, .identity = "web2"}, true);
  ASSERT_TRUE(opened) << opened.error();
  ASSERT_EQ(opened->keys.size(), 1U);
  EXPECT_EQ(opened->keys[0].identity, "web2");
}

TEST_F(AuthChoiceTest, AFileThatOthersMayReadIsRefused) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  ::chmod(file.c_str(), 0644);
  EXPECT_NE(refusal({.mode = {}, .keys = file, .identity = {}}, false).find("chmod 600"), std::string::npos);
}

}  // namespace
}  // namespace rtrs::tools
