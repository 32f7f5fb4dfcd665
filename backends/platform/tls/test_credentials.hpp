// Certificates and keys for tests, stored as files in a temporary folder that this object removes.
#pragma once
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/platform/tls/ssl_context.hpp"

namespace rtrs::tls {

// Validity of test certificates in seconds, long enough to avoid expiry warnings.
inline constexpr long kGoodSeconds = 30L * 24 * 3600;

struct Wanted {
  std::vector<std::string> names{"one"};  // common names in the certificate
  std::string alternative = "IP:127.0.0.1,IP:::1,DNS:localhost";
  long from_seconds = -3600;  // start of validity, relative to now
  long until_seconds = kGoodSeconds;
  bool by_intermediate = false;  // signed by an intermediate CA, which is appended to the file
  unsigned rsa_bits = 0;         // 0: a key on an elliptic curve
};

class TestCredentials {
 public:
  // `until_seconds`: lifetime of the CA.
  explicit TestCredentials(long until_seconds = kGoodSeconds);
  ~TestCredentials();
  TestCredentials(const TestCredentials&) = delete;
  TestCredentials& operator=(const TestCredentials&) = delete;

  const std::string& folder() const noexcept { return folder_; }
  std::string write(const std::string& name, const std::string& text, unsigned mode = 0600) const;
  // Issues a certificate signed by this object's CA; returns Credentials with all files.
  Credentials issue(const Wanted&);
  // Writes a certificate revocation list.
  std::string write_crl(const std::vector<std::string>& cert_files, long until_seconds = kGoodSeconds);
  // Writes a file with one key per identity; the keys are deterministic.
  Credentials keys(const std::vector<std::string>& identities, unsigned char first = 1) const;

 private:
  std::string folder_;
  Owned<EVP_PKEY> ca_key_;
  Owned<X509> ca_;
  std::string ca_file_;
  long serial_ = 1;

  Owned<X509> sign_ca(const char* name, EVP_PKEY* key, X509* issuer, long until_seconds);
};

}  // namespace rtrs::tls
