// Callbacks for OpenSSL during a handshake: find the key of an identity, and check a certificate.
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <utility>

#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/ssl_channel.hpp"

namespace rtrs::tls {
namespace {

SslChannel& channel_of(const SSL* ssl) {
  return *static_cast<SslChannel*>(SSL_get_app_data(ssl));
}

// OpenSSL calls this for each identity that a client offers: identities of keys, and session tickets, for
// which no key is found.
int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** found) {
  *found = nullptr;
  SslChannel& channel = channel_of(ssl);
  std::string name(reinterpret_cast<const char*>(identity), size);
  const Keys& keys = channel.context().keys();
  const auto key = is_identity(name) ? keys.find(name) : keys.end();
  if (key == keys.end()) {
    if (!keys.empty() && size <= kMaxIdentityBytes) channel.note_unknown(std::move(name));
    return 1;
  }
  *found = session_of_key(ssl, key->first, key->second).release();
  // A handshake with a key is as fast as with a ticket, so no ticket is needed.
  SSL_set_num_tickets(ssl, 0);
  channel.set_requested_identity(std::move(name));
  return *found == nullptr ? 0 : 1;
}

int use_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity, std::size_t* size,
            SSL_SESSION** session) {
  *session = nullptr;
  *identity = nullptr;
  *size = 0;
  const Keys::value_type* const own = channel_of(ssl).own_key();
  if (own == nullptr) return 1;
  *session = session_of_key(ssl, own->first, own->second).release();
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(own->first.data());
  *size = own->first.size();
  return 1;
}

int keep_session(SSL* ssl, SSL_SESSION* session) {
  const SslChannel& channel = channel_of(ssl);
  if (channel.own_key() != nullptr) return 0;
  channel.context().sessions().keep(channel.server(), Owned<SSL_SESSION>(session));
  return 1;
}

// A client whose certificate has no usable name gets an alert. The name in an expired or not yet valid
// certificate is recorded; the signature of such a certificate has already been verified.
int judge_certificate(int ok, X509_STORE_CTX* store) {
  if (X509_STORE_CTX_get_error_depth(store) != 0) return ok;
  const auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (ok != 1) {
    const int error = X509_STORE_CTX_get_error(store);
    if (error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID)
      channel_of(ssl).record_expired_name(common_name(X509_STORE_CTX_get_current_cert(store)));
    return ok;
  }
  if (SSL_is_server(ssl) == 0 || !common_name(X509_STORE_CTX_get_current_cert(store)).empty()) return ok;
  channel_of(ssl).note_refusal(
      "its certificate does not have exactly one common name of 1 to 128 of A-Z a-z 0-9 . _ : @ -");
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

void see_message(int writing, int /*version*/, int type, const void* data, std::size_t size, SSL* ssl,
                 void* /*unused*/) {
  if (writing != 0 || type != SSL3_RT_HANDSHAKE) return;
  channel_of(ssl).note_message({static_cast<const unsigned char*>(data), size});
}

}  // namespace

std::string common_name(X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return {};
  const ASN1_STRING* const value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  std::string name(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                   static_cast<std::size_t>(ASN1_STRING_length(value)));
  return is_identity(name) ? name : std::string();
}

void set_callbacks(SSL_CTX* ctx, Side side) {
  SSL_CTX_set_msg_callback(ctx, see_message);
  if (side == Side::server) {
    SSL_CTX_set_psk_find_session_callback(ctx, find_key);
  } else {
    SSL_CTX_set_psk_use_session_callback(ctx, use_key);
    SSL_CTX_sess_set_new_cb(ctx, keep_session);
  }
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, judge_certificate);
}

}  // namespace rtrs::tls
