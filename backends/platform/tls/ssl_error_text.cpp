// Describes a channel and its errors.
#include <openssl/err.h>
#include <openssl/evp.h>

#include <utility>

#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/ssl_channel.hpp"

namespace rtrs::tls {
namespace {

// OpenSSL reports alerts of a peer as reason codes from this number.
constexpr int kAlerts = SSL_AD_REASON_OFFSET;

std::string words_of(int reason) {
  switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_SSL_VERSION:
      return "it does not speak TLS 1.3";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
      return "it sent data that is not TLS";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "it presents neither a certificate nor a key";
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
      return "it offers nothing that this end accepts (a certificate instead of keys, or another cipher)";
    default:
      return {};
  }
}

}  // namespace

std::string SslChannel::why(int ssl_error) const {
  if (ssl_error != SSL_ERROR_SSL) return "the connection ended in the handshake";
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (verdict != X509_V_OK && !established_ && own_key() != nullptr)
    return "the server does not accept the key of " + own_key()->first +
           ", and presents a certificate instead";
  if (verdict != X509_V_OK && !established_)
    return std::string("its certificate is not accepted: ") + X509_verify_cert_error_string(verdict) +
           (expired_name_.empty() ? "" : "; it is that of " + expired_name_);
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
    if (!unknown_.empty() && !established_) return "no key of " + shown_identity(unknown_);
    if (reason > kAlerts && reason < kAlerts + 256) {
      const std::string alert = SSL_alert_desc_string_long(reason - kAlerts);
      const std::string end = "it sent the alert \"" + alert + "\"";
      if (own_key() == nullptr || established_) return end;
      return end + "; does it have the same key of " + own_key()->first + "?";
    }
    if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
      return "its key of " + shown_identity(asked_) + " differs from the one here";
    const std::string words = words_of(reason);
    if (!words.empty()) return words;
  }
  const char* const text = ERR_reason_error_string(code);
  return text == nullptr ? "OpenSSL gives no reason" : text;
}

Channel::Opened SslChannel::fail(int ssl_error) {
  return fail(why(ssl_error));
}

Channel::Opened SslChannel::fail(std::string why) {
  failed_ = true;
  in_ = {};
  error_ = "TLS: " + std::move(why);
  ERR_clear_error();
  return {.bytes = 0, .state = State::failed};
}

IdentityDigest SslChannel::identity_digest() const noexcept {
  IdentityDigest digest{};
  if (identity_.empty()) return digest;
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned size = 0;
  if (EVP_Digest(identity_.data(), identity_.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1)
    return digest;
  for (std::size_t i = 0; i < 16; ++i) digest[i / 8] = digest[i / 8] << 8U | hash[i];
  return digest;
}

std::string SslChannel::description() const {
  const char* const cipher = SSL_get_cipher_name(ssl_.get());
  std::string text = std::string(SSL_get_version(ssl_.get())) + ' ' + (cipher == nullptr ? "?" : cipher);
  if (!identity_.empty()) text += ", identity " + identity_;
  if (resumed_) text += ", resumed";
  if (in_kernel_) text += ", sealed by the kernel";
  return text;
}

}  // namespace rtrs::tls
