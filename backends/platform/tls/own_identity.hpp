// The identity that a client will show to a server, known before it connects.
#pragma once
#include <string>

namespace rtrs::tls {

// Returns `chosen`, or the identity of the only key in `file`. Empty: the file cannot be read, or has several
// keys.
std::string identity_of_keys(const std::string& file, const std::string& chosen);
// Returns the common name of the first certificate in `file` (PEM). Empty: the file cannot be read, the name
// is not a valid identity, or this build has no OpenSSL.
std::string identity_of_certificate(const std::string& file);

}  // namespace rtrs::tls
