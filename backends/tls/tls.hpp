// Credentials of TLS 1.3: what TlsOptions::context of the TCP fabric is made of.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::tls {

// Certificates, keys, or for a server both. With certificates each end shows one that the other's `ca`
// signed. With pre-shared keys both ends have the same key under the same identity. docs/security.md has the
// whole.
struct Credentials {
  std::string cert;  // PEM files: this end's certificate with those between it and the CA,
  std::string key;   // its private key, which only its owner may read,
  std::string ca;    // who signs the certificates of peers,
  std::string crl;   // and which of them it took back; may be left out
  std::string keys;  // pre-shared keys, IDENTITY:HEX a line; only its owner may read it
  // Which of `keys` a client uses; may be left out when there is one.
  std::string identity;
  // A client asks the server for this name in its certificate; empty: for what it connects to.
  std::string server_name;
  // Sending is left to the kernel where it can (TLS_TX). Receiving never is: OpenSSL 3.0 cannot. It costs no
  // less than OpenSSL, and the key stays the same (docs/security.md).
  bool kernel = false;
  // A sender takes a new key after so many records. RFC 8446 section 5.5 allows 24 million.
  std::uint32_t records_per_key = 1U << 22U;
  // The number of a user whose secret files are taken besides those of root and of this process: whoever
  // checks them for a service that runs as that user. Who uses them leaves it empty.
  std::optional<std::uint32_t> checked_for{};
  bool operator==(const Credentials&) const = default;

  [[nodiscard]] bool any() const noexcept {
    return !cert.empty() || !key.empty() || !ca.empty() || !crl.empty() || !keys.empty();
  }
};

class Context;

// False in a build without OpenSSL.
bool available() noexcept;

// Reads the files. May block; the error is a sentence for the user. The result may be shared by threads.
// A new context has new ticket keys, so TLS sessions of the old context cannot be resumed. A client of the
// TCP fabric reads changed files before each connection attempt; a server gets a new context by
// tcp::set_tls().
tl::expected<std::shared_ptr<const Context>, std::string> open_context(const Credentials&);

// False where a client would have to choose one of several keys (Credentials::identity).
bool can_connect(const Context&) noexcept;
// Those that it can choose from, for a message: "alice, bob", of many the first ones.
std::string identities(const Context&);

// For a log: who is accepted by it, "certificates signed by FILE and 3 keys of FILE".
std::string description(const Context&);
// When what a file holds ends: the first certificate of `cert` to expire, the last of `ca`, and the first
// list of `crl`. Keys do not expire.
struct Expiry {
  std::string file;
  std::string what;       // "certificate", "CA" or "revocation list"
  std::int64_t time = 0;  // seconds since 1970
};
std::vector<Expiry> expiries(const Context&);
// A warning() begins so long before the end.
inline constexpr std::int64_t kExpiryWarningSeconds = std::int64_t{14} * 24 * 3600;
// Sentences about files that no peer will accept, or soon none, by the clock of now: an expired certificate,
// or one that expires within kExpiryWarningSeconds. Empty: there is nothing to say.
std::string warning(const Context&);

}  // namespace rtrs::tls
