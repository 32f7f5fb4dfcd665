// Certificates and keys for tests, as files in a folder of their own that goes with this object.
#pragma once
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/tls/ssl_context.hpp"

namespace rtrs::tls {

// Long enough that nothing is warned of.
inline constexpr long kGoodSeconds = 30L * 24 * 3600;

struct Wanted {
  std::vector<std::string> names{"one"};  // common names
  std::string alternative = "IP:127.0.0.1,IP:::1,DNS:localhost";
  long from_seconds = -3600;  // relative to now
  long until_seconds = kGoodSeconds;
  bool by_another = false;  // signed by one that the CA signed, which stands behind it in the file
  unsigned rsa_bits = 0;    // 0: an elliptic curve
};

class TestCredentials {
 public:
  // The CA is good for so long.
  explicit TestCredentials(long until_seconds = kGoodSeconds);
  ~TestCredentials();
  TestCredentials(const TestCredentials&) = delete;
  TestCredentials& operator=(const TestCredentials&) = delete;

  const std::string& folder() const noexcept { return folder_; }
  std::string write(const std::string& name, const std::string& text, unsigned mode = 0600) const;
  // A certificate of this object's CA, as Credentials with all of its files.
  Credentials issue(const Wanted&);
  // The list of what was taken back.
  std::string write_crl(const std::vector<std::string>& cert_files, long until_seconds = kGoodSeconds);
  // A file with a key of each identity, always the same for the same.
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
