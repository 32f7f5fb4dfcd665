// TLS 1.3 credentials, and the context made from them: TlsOptions::context of the TCP fabric.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::tls {

// Certificates, keys, or for a server both. With certificates, each side sends a certificate signed by the
// other side's `ca`. With pre-shared keys, both sides have the same key under the same identity. Full
// description: docs/security.md.
struct Credentials {
  std::string cert;  // PEM file: certificate of this side, with the chain to the CA
  std::string key;   // PEM file: private key of `cert`; readable only by its owner
  std::string ca;    // PEM file: the CA that signed the peers' certificates
  std::string crl;   // PEM file: revocation list of that CA; optional
  std::string keys;  // pre-shared keys, one IDENTITY:HEX per line; readable only by its owner
  // Identity from `keys` that a client uses; optional if the file has only one key.
  std::string identity;
  // Name that a client requires in the server's certificate; empty: the name or address it connects to.
  std::string server_name;
  // The kernel encrypts sent data if it can (TLS_TX). Received data is always decrypted by OpenSSL, because
  // OpenSSL 3.0 does not support kernel decryption. Kernel encryption is not cheaper than OpenSSL, and its
  // key is never updated (docs/security.md).
  bool kernel = false;
  // Number of records after which a sender updates its key. RFC 8446 section 5.5 allows 24 million.
  std::uint32_t records_per_key = 1U << 22U;
  // User id whose secret files are accepted, in addition to files of root and of the user of this process.
  // Used to check the files of a service that runs as this user. A program that uses the credentials itself
  // leaves it empty.
  std::optional<std::uint32_t> checked_for{};
  bool operator==(const Credentials&) const = default;

  [[nodiscard]] bool any() const noexcept {
    return !cert.empty() || !key.empty() || !ca.empty() || !crl.empty() || !keys.empty();
  }
};

class Context;

// False in a build without OpenSSL.
bool available() noexcept;

// Reads the files; may block. The error is a message for the user. The result may be shared by threads. A new
// context has new ticket keys, so TLS sessions of the old context cannot be resumed. A client of the TCP
// fabric reads changed files before each connection attempt; a server gets a new context by tcp::set_tls().
tl::expected<std::shared_ptr<const Context>, std::string> open_context(const Credentials&);

// Returns false if a client would have to choose between several keys (Credentials::identity).
bool can_connect(const Context&) noexcept;
// Returns the identities to choose from, for a message: "alice, bob"; if there are many, only the first ones.
std::string identities(const Context&);

// Describes the accepted peers for a log: "certificates signed by FILE and 3 keys of FILE".
std::string description(const Context&);
// Time at which a credential file expires: when the first certificate of `cert`, the last CA of `ca`, or the
// first list of `crl` expires. Keys do not expire.
struct Expiry {
  std::string file;
  std::string what;       // "certificate", "CA" or "revocation list"
  std::int64_t time = 0;  // seconds since 1970
};
std::vector<Expiry> expiries(const Context&);
// How long before an expiry warning() reports it, in seconds.
inline constexpr std::int64_t kExpiryWarningSeconds = std::int64_t{14} * 24 * 3600;
// Returns warnings about files that have expired, or expire within kExpiryWarningSeconds by this host's
// clock. Peers are rejected after the expiry. Empty if there are none.
std::string warning(const Context&);

}  // namespace rtrs::tls
