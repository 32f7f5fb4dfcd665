// State shared by all channels of one set of credentials: OpenSSL contexts, keys, and the tickets of a
// client.
#pragma once
#include <openssl/ssl.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/platform/tls/channel.hpp"
#include "backends/platform/tls/keys_file.hpp"

namespace rtrs::tls {

struct Free {
  void operator()(SSL_CTX* one) const noexcept { SSL_CTX_free(one); }
  void operator()(SSL* one) const noexcept { SSL_free(one); }
  void operator()(SSL_SESSION* one) const noexcept { SSL_SESSION_free(one); }
  void operator()(BIO* one) const noexcept { BIO_free(one); }
  void operator()(X509* one) const noexcept { X509_free(one); }
  void operator()(X509_CRL* one) const noexcept { X509_CRL_free(one); }
  void operator()(EVP_PKEY* one) const noexcept { EVP_PKEY_free(one); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// Tickets of a client, by server. Thread-safe: shared by the threads of several fabrics.
class Sessions {
 public:
  void keep(const std::string& server, Owned<SSL_SESSION>);
  Owned<SSL_SESSION> take(const std::string& server);

 private:
  static constexpr std::size_t kMost = 64;
  std::mutex mutex_;
  std::map<std::string, Owned<SSL_SESSION>> by_server_;
};

class SslContext final : public Context, public std::enable_shared_from_this<SslContext> {
 public:
  // Returns an empty string, or the error.
  std::string open(const Credentials&);

  std::unique_ptr<Channel> open_channel(Side, const std::string& server, int socket,
                                        SealedBuffers&) const override;
  bool can_connect() const noexcept override {
    return keys_.empty() || has_certificate_ || own_key_ != nullptr;
  }
  std::string identities() const override;
  std::string description() const override;
  const Credentials& credentials() const noexcept override { return credentials_; }
  const FileMarks& marks() const noexcept override { return marks_; }
  const std::vector<Expiry>& expiries() const noexcept override { return expiries_; }
  std::int64_t valid_from() const noexcept override { return valid_from_; }

  SSL_CTX* of(Side side) const noexcept { return side == Side::client ? client_.get() : server_.get(); }
  const Keys& keys() const noexcept { return keys_; }
  // Key that a client uses; null if the client uses a certificate.
  const Keys::value_type* own_key() const noexcept { return has_certificate_ ? nullptr : own_key_; }
  Sessions& sessions() const noexcept { return sessions_; }

 private:
  std::string load_keys();
  std::string load(SSL_CTX*, const std::string& cert, const std::string& key, const std::string& ca,
                   const std::string& crl);
  // Records the time at which an item of the file expires. If the file has several items, keeps the earliest
  // time, or the latest if `last`.
  void note_end(const std::string& file, const char* what, const ASN1_TIME*, bool last = false);
  std::string load_certificates();

  Credentials credentials_;
  Keys keys_;
  const Keys::value_type* own_key_ = nullptr;
  bool has_certificate_ = false;
  FileMarks marks_;
  std::vector<Expiry> expiries_;
  std::int64_t valid_from_ = 0;
  Owned<SSL_CTX> server_;
  Owned<SSL_CTX> client_;
  mutable Sessions sessions_;
};

// Returns the session that represents a pre-shared key and its identity; null if there is no memory.
Owned<SSL_SESSION> session_of_key(SSL*, const std::string& identity, const Key&);

// Returns OpenSSL's error text and clears its error queue.
std::string openssl_text();

// Sets the callbacks of ssl_callbacks.cpp, which OpenSSL calls during a handshake.
void set_callbacks(SSL_CTX*, Side);
// Returns the common name; empty if there is none, several, or one that is_identity() rejects.
std::string common_name(X509*);

}  // namespace rtrs::tls
