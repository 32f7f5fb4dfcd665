#include "backends/platform/tls/test_credentials.hpp"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace rtrs::tls {
namespace {

void must(bool good) {
  if (!good) throw std::runtime_error(openssl_text());
}

Owned<EVP_PKEY> fresh_key(unsigned rsa_bits = 0) {
  Owned<EVP_PKEY> key(rsa_bits == 0 ? EVP_EC_gen("P-256") : EVP_RSA_gen(rsa_bits));
  must(key != nullptr);
  return key;
}

void extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  must(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

Owned<X509> make(const Wanted& wanted, EVP_PKEY* key, long serial) {
  Owned<X509> made(X509_new());
  must(made != nullptr && X509_set_version(made.get(), 2) == 1 && X509_set_pubkey(made.get(), key) == 1);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), wanted.from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), wanted.until_seconds);
  X509_NAME* const name = X509_get_subject_name(made.get());
  for (const std::string& one : wanted.names)
    must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(one.data()),
                                    static_cast<int>(one.size()), -1, 0) == 1);
  return made;
}

template <class Write>
std::string pem_of(const Write& write) {
  const Owned<BIO> out(BIO_new(BIO_s_mem()));
  must(write(out.get()) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* one) {
  return pem_of([one](BIO* to) { return PEM_write_bio_X509(to, one); });
}

}  // namespace

TestCredentials::TestCredentials(long until_seconds) : ca_key_(fresh_key()) {
  std::string folder = std::filesystem::temp_directory_path() / "urtrs-tls-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = folder;
  ca_ = sign_ca("urtrs test CA", ca_key_.get(), nullptr, until_seconds);
  ca_file_ = write("ca.pem", pem_of(ca_.get()), 0644);
}

// `issuer`: null for a self-signed certificate.
Owned<X509> TestCredentials::sign_ca(const char* name, EVP_PKEY* key, X509* issuer, long until_seconds) {
  Owned<X509> made = make({.names = {name}, .until_seconds = until_seconds}, key, serial_++);
  X509* const by = issuer == nullptr ? made.get() : issuer;
  must(X509_set_issuer_name(made.get(), X509_get_subject_name(by)) == 1);
  extend(made.get(), by, NID_basic_constraints, "critical,CA:TRUE");
  extend(made.get(), by, NID_key_usage, "critical,keyCertSign,cRLSign");
  must(X509_sign(made.get(), ca_key_.get(), EVP_sha256()) > 0);
  return made;
}

TestCredentials::~TestCredentials() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TestCredentials::write(const std::string& name, const std::string& text, unsigned mode) const {
  const std::string path = folder_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  must(::chmod(path.c_str(), mode) == 0);
  return path;
}

Credentials TestCredentials::issue(const Wanted& wanted) {
  const Owned<EVP_PKEY> key = fresh_key(wanted.rsa_bits);
  const long serial = serial_++;
  const Owned<X509> made = make(wanted, key.get(), serial);
  const Owned<EVP_PKEY> other_key = wanted.by_intermediate ? fresh_key() : nullptr;
  const Owned<X509> other =
      wanted.by_intermediate ? sign_ca("another", other_key.get(), ca_.get(), wanted.until_seconds) : nullptr;
  X509* const by = wanted.by_intermediate ? other.get() : ca_.get();
  must(X509_set_issuer_name(made.get(), X509_get_subject_name(by)) == 1);
  extend(made.get(), by, NID_basic_constraints, "CA:FALSE");
  if (!wanted.alternative.empty()) extend(made.get(), by, NID_subject_alt_name, wanted.alternative);
  must(X509_sign(made.get(), wanted.by_intermediate ? other_key.get() : ca_key_.get(), EVP_sha256()) > 0);
  const std::string stem = std::to_string(serial);
  Credentials credentials;
  credentials.cert =
      write(stem + ".pem", pem_of(made.get()) + (wanted.by_intermediate ? pem_of(by) : std::string()), 0644);
  credentials.key =
      write(stem + ".key", pem_of([&key](BIO* to) {
              return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
            }));
  credentials.ca = ca_file_;
  return credentials;
}

std::string TestCredentials::write_crl(const std::vector<std::string>& cert_files, long until_seconds) {
  const Owned<X509_CRL> list(X509_CRL_new());
  must(X509_CRL_set_version(list.get(), 1) == 1 &&
       X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(ca_.get())) == 1);
  ASN1_TIME* const now = X509_gmtime_adj(nullptr, -7200);
  ASN1_TIME* const next = X509_gmtime_adj(nullptr, until_seconds);
  must(X509_CRL_set1_lastUpdate(list.get(), now) == 1 && X509_CRL_set1_nextUpdate(list.get(), next) == 1);
  for (const std::string& file : cert_files) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    const std::string pem = text.str();
    const Owned<BIO> in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    const Owned<X509> certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
    must(certificate != nullptr);
    X509_REVOKED* const revoked = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(certificate.get()));
    X509_REVOKED_set_revocationDate(revoked, now);
    must(X509_CRL_add0_revoked(list.get(), revoked) == 1);
  }
  ASN1_TIME_free(now);
  ASN1_TIME_free(next);
  must(X509_CRL_sort(list.get()) == 1 && X509_CRL_sign(list.get(), ca_key_.get(), EVP_sha256()) > 0);
  X509_CRL* const made = list.get();
  return write("crl-" + std::to_string(serial_++) + ".pem",
               pem_of([made](BIO* to) { return PEM_write_bio_X509_CRL(to, made); }), 0644);
}

Credentials TestCredentials::keys(const std::vector<std::string>& identities, unsigned char first) const {
  std::string text;
  std::string name = "keys";
  for (const std::string& identity : identities) {
    Key key;
    key.fill(first++);
    text += key_line(identity, key);
    name += "-" + identity + std::to_string(first);
  }
  Credentials credentials;
  credentials.keys = write(name, text);
  return credentials;
}

}  // namespace rtrs::tls
