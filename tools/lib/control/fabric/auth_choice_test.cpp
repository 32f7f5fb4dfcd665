// Tests the options for key authentication, and the messages for invalid combinations.
#include "tools/lib/control/fabric/auth_choice.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/platform/tls/mac.hpp"
#include "core/keyed/test_wire.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::tools::auth_choice_test {
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

std::ptrdiff_t count(const keyed::KeyTable& keys, const char* identity) {
  const auto [first, last] = keys.of(keyed::hint_of(tls::hmac_sha256(), identity));
  return std::count_if(first, last, [&](const auto& one) { return one.second.identity == identity; });
}

keyed::SharedKey only_key(const keyed::KeyTable& keys) {
  EXPECT_EQ(count(keys, "web1"), 1);
  return keys.of(keyed::hint_of(tls::hmac_sha256(), "web1")).first->second;
}

TEST_F(AuthChoiceTest, WithoutKeysAuthenticationIsOff) {
  const auto opened = open_auth({}, false);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->mode, keyed::Mode::off);
  EXPECT_NE(refusal({.mode = "require", .keys = {}, .identity = {}}, false), "");
}

TEST_F(AuthChoiceTest, KeysDefaultToRequire) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  const auto opened = open_auth({.mode = {}, .keys = file, .identity = {}}, false);
  ASSERT_TRUE(opened) << opened.error();
  EXPECT_EQ(opened->mode, keyed::Mode::require);
  const auto key = only_key(*opened->keys);
  EXPECT_EQ(key.identity, "web1");
  EXPECT_EQ(key.secret[0], std::byte{0x11});
  EXPECT_EQ(open_auth({.mode = "allow", .keys = file, .identity = {}}, false)->mode, keyed::Mode::allow);
  EXPECT_NE(refusal({.mode = "off", .keys = file, .identity = {}}, false), "");
  EXPECT_NE(refusal({.mode = "allow", .keys = file, .identity = {}}, true), "");
}

TEST_F(AuthChoiceTest, ClientUsesExactlyOneKey) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  write("web1:" + std::string(64, '1') + "\nweb2:" + std::string(64, '2') + "\n");
  const auto both = open_auth({.mode = {}, .keys = file, .identity = {}}, false);
  ASSERT_TRUE(both) << both.error();
  EXPECT_EQ(count(*both->keys, "web1") + count(*both->keys, "web2"), 2);
  EXPECT_NE(refusal({.mode = {}, .keys = file, .identity = {}}, true)
                .find("several keys, of web1, web2; choose one"),
            std::string::npos);
  EXPECT_NE(refusal({.mode = {}, .keys = file, .identity = "web3"}, true).find("no key of web3"),
            std::string::npos);
  const auto opened = open_auth({.mode = {}, .keys = file, .identity = "web2"}, true);
  ASSERT_TRUE(opened) << opened.error();
  ASSERT_TRUE(opened->key);
  EXPECT_EQ(opened->key->identity, "web2");
}

TEST_F(AuthChoiceTest, ErrorListsTheFirstEightIdentities) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  std::string text;
  const auto told = [&](int keys) {
    for (int one = 1; one <= keys; ++one)
      text += "web" + std::to_string(one) + ":" + std::string(64, static_cast<char>('0' + one)) + "\n";
    write(std::exchange(text, ""));
    return refusal({.mode = {}, .keys = file, .identity = {}}, true);
  };
  const std::string eight = "of web1, web2, web3, web4, web5, web6, web7, web8";
  EXPECT_NE(told(8).find(eight + ";"), std::string::npos) << told(8);
  EXPECT_NE(told(9).find(eight + " ...;"), std::string::npos) << told(9);
}

TEST_F(AuthChoiceTest, FileReadableByOthersIsRefused) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  ::chmod(file.c_str(), 0644);
  EXPECT_NE(refusal({.mode = {}, .keys = file, .identity = {}}, false).find("chmod 600"), std::string::npos);
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4U];
    text += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

std::vector<std::byte> request(bool offers) {
  wire::ConnReq message;
  message.cid_num = 3;
  message.recon_cnt = 1;
  message.first_conn = true;
  for (std::uint8_t i = 0; i < 16; ++i) {
    message.sess_uuid.bytes[i] = static_cast<std::uint8_t>(0x10 + i);
    message.paths_uuid.bytes[i] = static_cast<std::uint8_t>(0x20 + i);
  }
  std::vector<std::byte> bytes(wire::kConnReqBytes);
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  if (offers) wire::put_key_offer(bytes, {});
  return bytes;
}

// The expected values are the test vectors for other implementations (docs/protocol.md, appendix A).
TEST_F(AuthChoiceTest, ProofsMatchTheTestVectors) {
  const auto mac = tls::hmac_sha256();
  if (mac == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  keyed::SharedKey key{"web1", {}};
  wire::KeyNonce nonce{};
  for (std::uint8_t i = 0; i < 32; ++i) key.secret[i] = std::byte(0x40 + i);
  for (std::uint8_t i = 0; i < 16; ++i) nonce[i] = std::byte(0x30 + i);
  std::vector<std::byte> asked = request(false);
  const keyed::Prover prover(mac, key);
  prover.prove(asked, &nonce);
  EXPECT_EQ(hex(std::span(asked).subspan(44)), "01208b147716d9423ec91ca0");
  wire::ConnRsp message;
  message.queue_depth = 512;
  message.max_io_size = 126976;
  message.max_hdr_size = 4096;
  message.flags = wire::kConnRspNewRkey;
  std::vector<std::byte> answer(wire::kConnRspBytes);
  EXPECT_EQ(wire::encode(message, answer), answer.size());
  wire::grant_key_proof(answer);
  const auto shown = keyed::server_proof(mac, key.secret, nonce, asked, answer);
  EXPECT_EQ(hex(shown), "2e1e76033e9f3e9515967df9b140ac9b93160f3346722edf6a915e9285870746");
}

struct AskedServer {
  explicit AskedServer(const OpenedAuth& auth) {
    auto wire = std::make_unique<keyed::Wire>();
    inner = wire.get();
    fabric = with_auth(std::move(wire), auth, false);
  }
  Reason judge(const std::vector<std::byte>& asked) {
    event::ConnectRequested event{};
    event.private_data = asked;
    inner->events = {event};
    std::array<FabricEvent, 1> out;
    EXPECT_EQ(fabric->poll(seconds(5), out), 1U);
    const Reason refusal = std::get<event::ConnectRequested>(out[0]).refusal;
    std::vector<std::byte> reject(wire::kConnRspBytes);
    EXPECT_EQ(wire::encode(wire::make_reject(wire::linux_errno::kEacces), reject), reject.size());
    fabric->reject(0, reject);
    nonce = wire::key_challenge(inner->sent);
    return refusal;
  }
  std::unique_ptr<Fabric> fabric;
  keyed::Wire* inner = nullptr;
  std::optional<wire::KeyNonce> nonce;
};

// Two servers use the same key file. Restarting a server has the same effect as a second server.
TEST_F(AuthChoiceTest, EachServerHasItsOwnNonces) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  const auto opened = open_auth({.mode = {}, .keys = file, .identity = {}}, false);
  ASSERT_TRUE(opened) << opened.error();
  AskedServer one(*opened);
  AskedServer other(*opened);
  EXPECT_EQ(one.judge(request(true)), Reason::challenged);
  EXPECT_EQ(other.judge(request(true)), Reason::challenged);
  ASSERT_TRUE(one.nonce && other.nonce);
  EXPECT_NE(*one.nonce, *other.nonce);
}

TEST_F(AuthChoiceTest, ReplacedModeTakesEffect) {
  if (tls::hmac_sha256() == nullptr) GTEST_SKIP() << "a build without OpenSSL";
  auto opened = open_auth({.mode = {}, .keys = file, .identity = {}}, false);
  ASSERT_TRUE(opened) << opened.error();
  AskedServer server(*opened);
  EXPECT_EQ(server.judge(request(false)), Reason::key_refused);
  auto allowed = open_auth({.mode = "allow", .keys = file, .identity = {}}, false);
  EXPECT_TRUE(replace_auth(*server.fabric, *allowed));
  EXPECT_EQ(server.judge(request(false)), Reason::none);
  EXPECT_TRUE(replace_auth(*server.fabric, *opened));
  EXPECT_EQ(server.judge(request(false)), Reason::key_refused);
  // If the server was started without keys, they cannot be replaced, because the server does not
  // authenticate.
  AskedServer without({});
  EXPECT_FALSE(replace_auth(*without.fabric, *opened));
}

}  // namespace
}  // namespace rtrs::tools::auth_choice_test
