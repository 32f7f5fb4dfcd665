#include "backends/platform/tls/ssl_context.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/own_identity.hpp"
#include "backends/platform/tls/ssl_channel.hpp"

namespace rtrs::tls {
namespace {

// Both suites use SHA-256, so a pre-shared key works with either.
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";
constexpr long kMaxCertificateBytes = 16L << 10;
constexpr int kMaxCertificates = 5;  // maximum chain length between a peer's certificate and the CA
constexpr long kTicketSeconds = 3600;

// Never prompts for a passphrase.
int no_passphrase(char* /*to*/, int /*size*/, int /*writing*/, void* /*unused*/) {
  return 0;
}

Owned<BIO> reader_of(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// At the end of a valid file, OpenSSL finds no further start of a PEM block. Any other error means a
// truncated or corrupted block.
std::string pem_error() {
  const unsigned long code = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
  const std::string words = openssl_text();
  return at_end ? std::string() : words;
}

std::string after(std::size_t count, const char* what) {
  return " behind " + std::to_string(count) + ' ' + what + ": ";
}

Owned<SSL_CTX> make_context(Side side, bool kernel) {
  Owned<SSL_CTX> made(SSL_CTX_new(side == Side::client ? TLS_client_method() : TLS_server_method()));
  SSL_CTX* const ctx = made.get();
  if (ctx == nullptr || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(ctx, kCiphers) != 1 || SSL_CTX_set1_groups_list(ctx, kGroups) != 1)
    return nullptr;
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (kernel) SSL_CTX_set_options(ctx, SSL_OP_ENABLE_KTLS);
  SSL_CTX_set_mode(
      ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_security_level(ctx, 2);
  SSL_CTX_set_max_cert_list(ctx, kMaxCertificateBytes);
  SSL_CTX_set_verify_depth(ctx, kMaxCertificates);
  // A replayed hello has no effect, because no early data is accepted.
  SSL_CTX_set_max_early_data(ctx, 0);
  SSL_CTX_set_recv_max_early_data(ctx, 0);
  SSL_CTX_set_num_tickets(ctx, 1);
  SSL_CTX_set_timeout(ctx, kTicketSeconds);
  constexpr unsigned char kName[] = "urtrs";
  // If a client set this context, OpenSSL would reject the session that represents a pre-shared key.
  if (side == Side::server) SSL_CTX_set_session_id_context(ctx, kName, sizeof kName - 1);
  SSL_CTX_set_session_cache_mode(
      ctx, side == Side::client ? SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL : SSL_SESS_CACHE_OFF);
  set_callbacks(ctx, side);
  return made;
}

// Seconds since 1970; 0 for an invalid time.
std::int64_t seconds_of(const ASN1_TIME* time) {
  tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? std::int64_t{::timegm(&parts)} : 0;
}

}  // namespace

std::string openssl_text() {
  const unsigned long code = ERR_peek_error();
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  std::string words = text == nullptr ? "OpenSSL gives no reason" : text;
  ERR_clear_error();
  return words;
}

void Sessions::keep(const std::string& server, Owned<SSL_SESSION> session) {
  const std::lock_guard lock(mutex_);
  if (by_server_.size() >= kMost && by_server_.count(server) == 0) by_server_.erase(by_server_.begin());
  by_server_[server] = std::move(session);
}

Owned<SSL_SESSION> Sessions::take(const std::string& server) {
  const std::lock_guard lock(mutex_);
  auto node = by_server_.extract(server);
  return node.empty() ? nullptr : std::move(node.mapped());
}

Owned<SSL_SESSION> session_of_key(SSL* ssl, const std::string& identity, const Key& key) {
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  Owned<SSL_SESSION> session(SSL_SESSION_new());
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key.data(), key.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1 ||
      SSL_SESSION_set1_ticket_appdata(session.get(), identity.data(), identity.size()) != 1)
    return nullptr;
  return session;
}

std::string SslContext::load_keys() {
  auto keys = read_keys(credentials_.keys, credentials_.checked_for);
  if (!keys) return keys.error();
  keys_ = std::move(*keys);
  if (!credentials_.identity.empty()) {
    const auto found = keys_.find(credentials_.identity);
    if (found == keys_.end())
      return credentials_.keys + ": no key of " + shown_identity(credentials_.identity) + " in it";
    own_key_ = &*found;
  } else if (keys_.size() == 1) {
    own_key_ = &*keys_.begin();
  }
  return {};
}

void SslContext::note_end(const std::string& file, const char* what, const ASN1_TIME* time, bool last) {
  if (time == nullptr) return;
  const std::int64_t end = seconds_of(time);
  for (Expiry& one : expiries_) {
    if (one.file != file || one.what != what) continue;
    one.time = last ? std::max(one.time, end) : std::min(one.time, end);
    return;
  }
  expiries_.push_back({file, what, end});
}

std::string SslContext::load(SSL_CTX* ctx, const std::string& cert, const std::string& key,
                             const std::string& ca, const std::string& crl) {
  ERR_clear_error();
  const Owned<BIO> certs = reader_of(cert);
  const Owned<X509> own(PEM_read_bio_X509(certs.get(), nullptr, no_passphrase, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(ctx, own.get()) != 1)
    return credentials_.cert + ": no certificate in PEM form that can be used: " + openssl_text();
  note_end(credentials_.cert, "certificate", X509_get0_notAfter(own.get()));
  valid_from_ = seconds_of(X509_get0_notBefore(own.get()));
  std::size_t count = 1;
  for (; X509* const next = PEM_read_bio_X509(certs.get(), nullptr, no_passphrase, nullptr); ++count) {
    if (SSL_CTX_add0_chain_cert(ctx, next) != 1) {
      X509_free(next);
      return credentials_.cert + ": " + openssl_text();
    }
    note_end(credentials_.cert, "certificate", X509_get0_notAfter(next));
  }
  std::string broken = pem_error();
  if (!broken.empty()) return credentials_.cert + after(count, "good certificates") + broken;
  const Owned<EVP_PKEY> private_key(
      PEM_read_bio_PrivateKey(reader_of(key).get(), nullptr, no_passphrase, nullptr));
  if (private_key == nullptr)
    return credentials_.key + ": no private key in PEM form without a passphrase: " + openssl_text();
  if (SSL_CTX_use_PrivateKey(ctx, private_key.get()) != 1 || SSL_CTX_check_private_key(ctx) != 1)
    return credentials_.key + ": not the key of the certificate in " + credentials_.cert + ": " +
           openssl_text();
  X509_STORE* const store = SSL_CTX_get_cert_store(ctx);
  const Owned<BIO> signers = reader_of(ca);
  count = 0;
  while (const Owned<X509> one{PEM_read_bio_X509(signers.get(), nullptr, no_passphrase, nullptr)}) {
    if (X509_STORE_add_cert(store, one.get()) != 1 || SSL_CTX_add_client_CA(ctx, one.get()) != 1)
      return credentials_.ca + ": " + openssl_text();
    note_end(credentials_.ca, "CA", X509_get0_notAfter(one.get()), true);
    ++count;
  }
  broken = pem_error();
  if (count == 0) return credentials_.ca + ": no certificate in PEM form";
  if (!broken.empty()) return credentials_.ca + after(count, "good certificates") + broken;
  if (credentials_.crl.empty()) return {};
  const Owned<BIO> lists = reader_of(crl);
  count = 0;
  while (const Owned<X509_CRL> one{PEM_read_bio_X509_CRL(lists.get(), nullptr, no_passphrase, nullptr)}) {
    if (X509_STORE_add_crl(store, one.get()) != 1) return credentials_.crl + ": " + openssl_text();
    note_end(credentials_.crl, "revocation list", X509_CRL_get0_nextUpdate(one.get()));
    ++count;
  }
  broken = pem_error();
  if (count == 0) return credentials_.crl + ": no list of revoked certificates in PEM form";
  if (!broken.empty()) return credentials_.crl + after(count, "good lists") + broken;
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  return {};
}

std::string SslContext::load_certificates() {
  if (credentials_.cert.empty() || credentials_.key.empty() || credentials_.ca.empty())
    return "certificates need tls-cert, tls-key, and tls-ca (the CA of the peers)";
  const auto cert = read_file(credentials_.cert, kMaxPemBytes);
  if (!cert) return cert.error();
  auto key = read_secret_file(credentials_.key, kMaxPemBytes, credentials_.checked_for);
  if (!key) return key.error();
  const auto ca = read_file(credentials_.ca, kMaxPemBytes);
  if (!ca) return ca.error();
  tl::expected<std::string, std::string> crl;
  if (!credentials_.crl.empty()) crl = read_file(credentials_.crl, kMaxPemBytes);
  if (!crl) return crl.error();
  std::string why;
  for (SSL_CTX* const ctx : {server_.get(), client_.get()}) {
    if (why.empty()) why = load(ctx, *cert, *key, *ca, *crl);
  }
  OPENSSL_cleanse(key->data(), key->size());
  has_certificate_ = why.empty();
  return why;
}

std::string SslContext::open(const Credentials& credentials) {
  credentials_ = credentials;
  marks_ = mark_files(files_of(credentials));
  if (!credentials.any()) return "TLS needs tls-keys, or tls-cert, tls-key and tls-ca";
  server_ = make_context(Side::server, credentials.kernel);
  client_ = make_context(Side::client, credentials.kernel);
  if (server_ == nullptr || client_ == nullptr) return "OpenSSL cannot do TLS 1.3: " + openssl_text();
  std::string why;
  if (!credentials_.keys.empty()) why = load_keys();
  const bool certificates = !credentials_.cert.empty() || !credentials_.key.empty() ||
                            !credentials_.ca.empty() || !credentials_.crl.empty();
  if (why.empty() && certificates) why = load_certificates();
  if (!why.empty()) return why;
  SSL_CTX_set_verify(server_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     SSL_CTX_get_verify_callback(server_.get()));
  SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, SSL_CTX_get_verify_callback(client_.get()));
  return {};
}

std::unique_ptr<Channel> SslContext::open_channel(Side side, const std::string& server, int socket,
                                                  SealedBuffers& buffers) const {
  auto made = std::make_unique<SslChannel>(shared_from_this(), side, socket, buffers);
  if (!made->start(server)) return nullptr;
  return made;
}

std::string SslContext::identities() const {
  constexpr std::size_t kShown = 8;
  std::string text;
  std::size_t shown = 0;
  for (auto one = keys_.begin(); one != keys_.end() && shown < kShown; ++one, ++shown)
    text += (text.empty() ? "" : ", ") + one->first;
  return keys_.size() > kShown ? text + " and " + std::to_string(keys_.size() - kShown) + " more" : text;
}

std::string SslContext::description() const {
  std::string text;
  if (has_certificate_) text = "certificates signed by " + credentials_.ca;
  if (keys_.empty()) return text;
  if (!text.empty()) text += " and ";
  return text + std::to_string(keys_.size()) + (keys_.size() == 1 ? " key of " : " keys of ") +
         credentials_.keys;
}

std::string identity_of_certificate(const std::string& file) {
  const auto text = read_file(file, kMaxPemBytes);
  if (!text) return {};
  const Owned<BIO> reader = reader_of(*text);
  const Owned<X509> own(PEM_read_bio_X509(reader.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return own ? common_name(own.get()) : std::string();
}

bool available() noexcept {
  return true;
}

tl::expected<std::shared_ptr<const Context>, std::string> open_context(const Credentials& credentials) {
  auto context = std::make_shared<SslContext>();
  const std::string why = context->open(credentials);
  if (!why.empty()) return tl::unexpected(why);
  return context;
}

}  // namespace rtrs::tls
