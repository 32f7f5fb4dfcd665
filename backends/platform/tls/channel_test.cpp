// Tests accepted and rejected peers, and the error texts of both sides.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "backends/platform/tls/test_raw_peer.hpp"

namespace rtrs::tls::channel_test {
namespace {

class Tls : public ::testing::Test {
 protected:
  std::shared_ptr<const Context> keys(const std::vector<std::string>& names, unsigned char first = 1) {
    return context_of(files_.keys(names, first));
  }
  std::shared_ptr<const Context> certificate(const Wanted& wanted = {}) {
    return context_of(files_.issue(wanted));
  }
  // Returns the server's error; also checks that the client reports one.
  static std::string refused_by_server(const std::shared_ptr<const Context>& client,
                                       const std::shared_ptr<const Context>& server) {
    Talk talk(client, server);
    talk.run();
    EXPECT_TRUE(talk.server.failed());
    EXPECT_FALSE(talk.server.channel->established());
    EXPECT_TRUE(talk.client.failed());
    EXPECT_NE(talk.client.channel->error().find("it sent the alert"), std::string::npos)
        << talk.client.channel->error();
    return talk.server.channel->error();
  }
  static std::string refused_by_client(const std::shared_ptr<const Context>& client,
                                       const std::shared_ptr<const Context>& server,
                                       const std::string& name = "127.0.0.1") {
    Talk talk(client, server, name);
    talk.run();
    EXPECT_TRUE(talk.client.failed());
    EXPECT_FALSE(talk.client.channel->established());
    EXPECT_FALSE(talk.server.channel->established());
    return talk.client.channel->error();
  }
  static void expect_accepted(const std::shared_ptr<const Context>& client,
                              const std::shared_ptr<const Context>& server, const std::string& identity,
                              const std::string& name = "127.0.0.1") {
    Talk talk(client, server, name);
    talk.run();
    ASSERT_TRUE(talk.established()) << talk.client.channel->error() << talk.server.channel->error();
    EXPECT_EQ(talk.server.channel->identity(), identity);
    EXPECT_NE(talk.server.channel->identity_digest(), IdentityDigest{});
  }
  TestCredentials files_;
};

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(Tls, a_client_with_a_key_has_the_identity_of_the_key) {
  const auto server = keys({"alice", "bob"});
  Credentials bob = files_.keys({"alice", "bob"});
  bob.identity = "bob";
  expect_accepted(context_of(bob), server, "bob");
  expect_accepted(keys({"alice"}), server, "alice");
}

TEST_F(Tls, digests_differ_per_identity) {
  const auto server = keys({"alice", "bob"});
  const auto digest = [&](const std::shared_ptr<const Context>& client) {
    Talk talk(client, server);
    talk.run();
    return talk.server.channel->identity_digest();
  };
  EXPECT_NE(digest(keys({"alice"})), digest(keys({"bob"}, 2)));
  EXPECT_EQ(digest(keys({"alice"})), digest(keys({"alice"})));
}

// Two programs that identify the same client must compute the same digest.
TEST_F(Tls, a_digest_is_the_start_of_the_sha256_of_the_identity) {
  Talk talk(keys({"alice"}), keys({"alice"}));
  talk.run();
  EXPECT_EQ(talk.server.channel->identity_digest(), (IdentityDigest{0x2bd806c97f0e00af, 0x1a1fc3328fa763a9}));
}

TEST_F(Tls, wrong_keys_are_rejected) {
  expect_has(refused_by_server(keys({"alice"}, 9), keys({"alice"})),
             "its key of alice differs from the one here");
}

TEST_F(Tls, unknown_identities_are_rejected) {
  expect_has(refused_by_server(keys({"mallory"}), keys({"alice"})), "no key of mallory");
}

TEST_F(Tls, a_client_with_several_keys_must_choose_one) {
  EXPECT_FALSE(keys({"alice", "bob"})->can_connect());
  EXPECT_EQ(keys({"alice", "bob"})->identities(), "alice, bob");
  EXPECT_EQ(keys({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})->identities(),
            "a, b, c, d, e, f, g, h and 2 more");
  EXPECT_TRUE(keys({"alice"})->can_connect());
  Credentials other = files_.keys({"alice", "bob"});
  other.identity = "carol";
  const auto context = open_context(other);
  ASSERT_FALSE(context);
  expect_has(context.error(), "no key of carol");
}

TEST_F(Tls, a_client_with_a_certificate_has_its_common_name) {
  expect_accepted(certificate({.names = {"host-1.example.org"}}), certificate(), "host-1.example.org");
}

TEST_F(Tls, a_server_accepts_keys_and_certificates) {
  Credentials both = files_.issue({});
  both.keys = files_.keys({"alice"}).keys;
  const auto server = context_of(both);
  expect_accepted(keys({"alice"}), server, "alice");
  expect_accepted(certificate({.names = {"carl"}}), server, "carl");
  expect_has(refused_by_server(keys({"alice"}, 7), server), "differs from the one here");
}

TEST_F(Tls, expired_and_future_certificates_are_rejected) {
  expect_has(refused_by_server(certificate({.names = {"late"}, .until_seconds = -60}), certificate()),
             "certificate has expired; it is that of late");
  expect_has(refused_by_server(certificate({.from_seconds = 600}), certificate()), "not yet valid");
  expect_has(refused_by_client(certificate(), certificate({.until_seconds = -60})),
             "certificate has expired");
}

TEST_F(Tls, certificates_of_another_ca_are_rejected) {
  TestCredentials other;
  const auto stranger = context_of(other.issue({}));
  expect_has(refused_by_client(stranger, certificate()), "its certificate is not accepted");
  // The client trusts this server, but the server does not trust the client's certificate.
  Credentials mixed = other.issue({});
  mixed.ca = files_.issue({}).ca;
  expect_has(refused_by_server(context_of(mixed), certificate()), "its certificate is not accepted");
}

TEST_F(Tls, a_revoked_certificate_is_rejected) {
  const Credentials lost = files_.issue({.names = {"lost"}});
  Credentials server = files_.issue({});
  server.crl = files_.write_crl({lost.cert});
  expect_has(refused_by_server(context_of(lost), context_of(server)), "certificate revoked");
  expect_accepted(certificate({.names = {"kept"}}), context_of(server), "kept");
  server.crl = files_.write_crl({}, -60);
  expect_has(refused_by_server(certificate(), context_of(server)), "CRL has expired");
}

TEST_F(Tls, a_client_rejects_a_revoked_server_certificate) {
  const Credentials lost = files_.issue({});
  Credentials client = files_.issue({});
  client.crl = files_.write_crl({lost.cert});
  expect_has(refused_by_client(context_of(client), context_of(lost)), "certificate revoked");
  expect_accepted(context_of(client), certificate(), "one");
}

TEST_F(Tls, intermediate_certificates_are_read_from_the_certificate_file) {
  const Credentials whole = files_.issue({.names = {"far"}, .by_intermediate = true});
  expect_accepted(context_of(whole), certificate(), "far");
  expect_accepted(certificate(), context_of(whole), "one");
  Credentials alone = whole;
  std::ifstream in(whole.cert);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.resize(text.find("-----BEGIN", 1));
  alone.cert = files_.write("alone.pem", text, 0644);
  expect_has(refused_by_server(context_of(alone), certificate()), "unable to get local issuer");
}

TEST_F(Tls, invalid_common_names_are_rejected) {
  const auto server = certificate();
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a b"}, {"a", "b"}, {}, {"a\nb"}, {std::string("a\0b", 3)}}) {
    expect_has(refused_by_server(certificate({.names = names}), server), "common name");
  }
}

TEST_F(Tls, a_server_certificate_must_contain_the_destination_name) {
  const auto named = certificate({.alternative = "DNS:storage.example.org,IP:10.0.0.1"});
  const auto client = certificate();
  expect_accepted(client, named, "one", "storage.example.org");
  expect_accepted(client, named, "one", "10.0.0.1");
  for (const char* wrong : {"127.0.0.1", "example.org", "x.storage.example.org", "10.0.0.2", "::1"})
    expect_has(refused_by_client(client, named, wrong), "mismatch");
  Credentials asking = files_.issue({});
  asking.server_name = "storage.example.org";
  expect_accepted(context_of(asking), named, "one", "127.0.0.1");
  asking.server_name = "other.example.org";
  expect_has(refused_by_client(context_of(asking), named, "10.0.0.1"), "mismatch");
}

TEST_F(Tls, a_key_does_not_match_a_certificate) {
  expect_has(refused_by_client(keys({"alice"}), certificate()),
             "the server does not accept the key of alice");
  expect_has(refused_by_server(certificate(), keys({"alice"})), "it offers nothing that this end accepts");
}

TEST_F(Tls, missing_and_mismatched_files_are_rejected) {
  const auto why = [](const Credentials& given) {
    const auto context = open_context(given);
    return context ? "" : context.error();
  };
  const Credentials good = files_.issue({});
  EXPECT_EQ(why(good), "");
  expect_has(why({}), "TLS needs");
  Credentials bad = good;
  bad.ca.clear();
  expect_has(why(bad), "tls-ca");
  bad = good;
  bad.key = files_.issue({}).key;
  expect_has(why(bad), "not the key of the certificate");
  bad = good;
  bad.cert = good.key;
  expect_has(why(bad), "no certificate in PEM form");
  bad = good;
  bad.key = files_.write("empty", "");
  expect_has(why(bad), "no private key in PEM form");
  bad = good;
  bad.crl = good.ca;
  expect_has(why(bad), "no list of revoked certificates");
  expect_has(why(files_.issue({.rsa_bits = 1024})), "key too small");
  bad = good;
  bad.ca = files_.write("nothing", "");
  expect_has(why(bad), "no certificate in PEM form");
}

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A file that is read while it is being written is truncated like this. Accepting its first part would load
// an incomplete set.
TEST_F(Tls, truncated_files_are_rejected) {
  const Credentials good = files_.issue({});
  const std::string list = files_.write_crl({});
  const auto why = [](const Credentials& given) {
    const auto context = open_context(given);
    return context ? "" : context.error();
  };
  const auto with_half = [&](const std::string& file) {
    const std::string text = text_of(file);
    return files_.write("half", text + text.substr(0, text.size() / 2));
  };
  Credentials bad = good;
  bad.cert = with_half(good.cert);
  expect_has(why(bad), bad.cert + " behind 1 good certificates");
  bad = good;
  bad.ca = with_half(good.ca);
  expect_has(why(bad), bad.ca + " behind 1 good certificates");
  bad = good;
  bad.crl = with_half(list);
  expect_has(why(bad), bad.crl + " behind 1 good lists");
  // Text between and after the PEM blocks is ignored.
  Credentials fine = good;
  fine.ca = files_.write("twice", "# ours\n" + text_of(good.ca) + "and\n" + text_of(good.cert) + "the end\n");
  EXPECT_EQ(why(fine), "");
}

TEST_F(Tls, expired_files_are_used_with_a_warning) {
  EXPECT_EQ(warning(*certificate()), "");
  EXPECT_EQ(warning(*keys({"alice"})), "");
  expect_has(warning(*certificate({.until_seconds = -60})), "the certificate has expired");
  expect_has(warning(*certificate({.from_seconds = 600})), "not valid yet");
  Credentials given = files_.issue({});
  given.crl = files_.write_crl({});
  EXPECT_EQ(warning(*context_of(given)), "");
  given.crl = files_.write_crl({}, -60);
  expect_has(warning(*context_of(given)), given.crl + ": the list of revoked certificates has expired");
}

TEST_F(Tls, a_private_key_readable_by_others_is_rejected) {
  const Credentials good = files_.issue({});
  ASSERT_EQ(::chmod(good.key.c_str(), 0644), 0);
  const auto context = open_context(good);
  ASSERT_FALSE(context);
  expect_has(context.error(), "chmod 600 " + good.key);
}

TEST_F(Tls, resumed_sessions_keep_the_identity_of_the_certificate) {
  const auto client = certificate({.names = {"carl"}});
  const Credentials files = files_.issue({});
  const auto server = context_of(files);
  for (const bool again : {false, true, true}) {
    Talk talk(client, server);
    talk.run();
    ASSERT_TRUE(talk.established());
    EXPECT_EQ(talk.server.channel->resumed(), again);
    EXPECT_EQ(talk.client.channel->resumed(), again);
    EXPECT_EQ(talk.server.channel->identity(), "carl");
  }
  // Tickets that were issued before the credentials were reloaded are invalid.
  Talk talk(client, context_of(files));
  talk.run();
  ASSERT_TRUE(talk.established());
  EXPECT_FALSE(talk.server.channel->resumed());
  // A ticket is used only for the server that issued it.
  Talk other(client, server, "::1");
  other.run();
  ASSERT_TRUE(other.established());
  EXPECT_FALSE(other.server.channel->resumed());
}

TEST_F(Tls, sessions_with_keys_are_not_resumed) {
  const auto client = keys({"alice"});
  const auto server = keys({"alice"});
  for (int i = 0; i < 2; ++i) {
    Talk talk(client, server);
    talk.run();
    ASSERT_TRUE(talk.established());
    EXPECT_FALSE(talk.server.channel->resumed());
    EXPECT_EQ(talk.client.channel->error(), "");
  }
}

TEST_F(Tls, replayed_client_messages_have_no_effect) {
  for (const auto& context : {keys({"alice"}), certificate()}) {
    Talk first(context, context);
    first.run();
    ASSERT_TRUE(first.established());
    first.send(first.client, first.server, "write this");
    ASSERT_EQ(first.server.got, "write this");
    ByteVector said = first.to_server;
    const ByteVector more = octets("more");
    const std::span<const std::byte> part(more);
    first.client.channel->seal({&part, 1}, 0);
    const ByteVector last = first.client.take();
    said.insert(said.end(), last.begin(), last.end());
    Talk again(context, context);
    again.server.feed(said, again.piece);
    EXPECT_TRUE(again.server.failed());
    EXPECT_FALSE(again.server.channel->established());
    EXPECT_EQ(again.server.got, "");
  }
}

// The client sends an identity with terminal control sequences. The error text must be safe to write to a
// log.
TEST_F(Tls, control_characters_in_an_identity_are_escaped) {
  static const SSL_psk_use_session_cb_func use = [](SSL* ssl, const EVP_MD*, const unsigned char** id,
                                                    std::size_t* size, SSL_SESSION** session) {
    static const std::string name = "a\x1b[2J\nb";
    *session = session_of_key(ssl, name, Key{}).release();
    *id = reinterpret_cast<const unsigned char*>(name.data());
    *size = name.size();
    return 1;
  };
  RawPeer client(Side::client, {}, [](SSL_CTX* ctx) { SSL_CTX_set_psk_use_session_callback(ctx, use); });
  SealedBuffers buffers;
  End server = end_of(keys({"alice"}), Side::server, buffers);
  client.exchange_with(server);
  EXPECT_TRUE(server.failed());
  EXPECT_EQ(server.channel->error(), "TLS: no key of a\\x1b\\x5b2J\\x0ab");
}

// A hello of 128 KiB with one byte per record exceeds the work that the server accepts.
TEST_F(Tls, an_oversized_hello_is_rejected) {
  Talk talk(certificate(), certificate());
  const std::string hello = std::string("\x01\x01\xff\x00", 4) + std::string(0x1ff00, '\x03');
  std::size_t fed = 0;
  for (std::size_t at = 0; at < hello.size() && !talk.server.failed(); ++at) {
    talk.server.feed(octets(std::string("\x16\x03\x01\x00\x01", 5) + hello[at]), talk.piece);
    fed += 6;
  }
  EXPECT_EQ(talk.server.channel->error(), "TLS: too much data before the end of the handshake");
  EXPECT_LE(fed, kMaxHandshakeBytes + kSealedBytes + 6);
}

TEST_F(Tls, older_protocols_are_rejected) {
  for (const int version : {TLS1_2_VERSION, TLS1_1_VERSION}) {
    const Owned<SSL_CTX> ctx(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(ctx.get(), 0);
    ASSERT_EQ(SSL_CTX_set_max_proto_version(ctx.get(), version), 1);
    const Owned<SSL> ssl(SSL_new(ctx.get()));
    BIO* const in = BIO_new(BIO_s_mem());
    BIO* const out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl.get(), in, out);
    SSL_set_connect_state(ssl.get());
    SSL_do_handshake(ssl.get());
    char* hello = nullptr;
    const long size = BIO_get_mem_data(out, &hello);
    ASSERT_GT(size, 0);
    Talk talk(certificate(), certificate());
    talk.server.feed(octets(std::string(hello, static_cast<std::size_t>(size))), talk.piece);
    EXPECT_TRUE(talk.server.failed());
    EXPECT_EQ(talk.server.channel->error(), "TLS: it does not speak TLS 1.3");
  }
}

}  // namespace
}  // namespace rtrs::tls::channel_test
