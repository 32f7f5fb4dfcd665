// Maps errno values of sockets and providers to results and protocol reasons.
#pragma once
#include <cctype>
#include <cerrno>
#include <string>

#include "core/proto/errc.hpp"
#include "core/proto/reasons.hpp"

namespace rtrs {

// Returns the result for the errno of a system call; 0 means success.
inline Errc to_errc(int linux_errno) noexcept {
  switch (linux_errno) {
    case 0:
      return Errc::ok;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
      return Errc::no_memory;
    case EADDRINUSE:
      return Errc::address_in_use;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ENODEV:
      return Errc::bad_address;
    case EACCES:
    case EPERM:
      return Errc::no_permission;
    case ENOSYS:
    case EOPNOTSUPP:
    case ENODATA:
      return Errc::not_supported;
    case EINVAL:
      return Errc::invalid;
    default:
      return Errc::fabric_error;
  }
}

// Returns the reason for the loss of an established connection.
inline Reason reason_of_loss_errno(int linux_errno) noexcept {
  switch (linux_errno) {
    case 0:
    case ECONNRESET:
    case ECONNABORTED:
    case ESHUTDOWN:
    case ENOTCONN:
    case EPIPE:
      return Reason::peer_closed;
    case ENOMEM:
    case ENOBUFS:
      return Reason::no_resources;
    default:
      return Reason::transport_error;
  }
}

// Returns the reason of a failed connect attempt.
inline Reason reason_of_connect_errno(int linux_errno) noexcept {
  switch (linux_errno) {
    case ECONNREFUSED:
      return Reason::connect_refused;
    case ETIMEDOUT:
      return Reason::connect_timeout;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Reason::address_unresolved;
    case EMFILE:
    case ENFILE:
      return Reason::no_resources;
    default:
      return reason_of_loss_errno(linux_errno);
  }
}

// Returns the sentence of the reason, then ": " and `detail`, which may be empty. If the detail begins with
// the sentence, as "Connection refused (111)" does, adds only the rest. A prefix "TLS: " that both have
// appears once.
inline std::string sentence_with(Reason reason, const std::string& detail) {
  const std::string sentence = text_of(reason).sentence;
  if (detail.empty()) return sentence;
  const auto letter = static_cast<char>(std::tolower(static_cast<unsigned char>(detail.front())));
  const bool repeats = letter + detail.substr(1, sentence.size() - 1) == sentence;
  if (repeats) return sentence + detail.substr(sentence.size());
  const std::size_t colon = sentence.find(": ");
  const bool same_prefix =
      colon != std::string::npos && detail.compare(0, colon + 2, sentence, 0, colon + 2) == 0;
  return sentence + ": " + (same_prefix ? detail.substr(colon + 2) : detail);
}

}  // namespace rtrs
