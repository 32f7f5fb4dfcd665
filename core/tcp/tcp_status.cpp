#include "core/tcp/tcp_status.hpp"

#include <cerrno>
#include <system_error>

#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

Reason connect_reason(int error) noexcept {
  switch (error) {
    case kUnresolved:
    case kNoNameServiceAnswer:
      return Reason::name_unresolved;
    case kNotOurs:
      return Reason::source_unavailable;
    case kRefused:
      return Reason::tls_failed;
    default:
      return reason_of_connect_errno(error);
  }
}

Reason loss_reason(int error) noexcept {
  return error == kRefused ? Reason::tls_failed : reason_of_loss_errno(error);
}

std::string error_text(int error) {
  if (error == kUnresolved || error == kNotOurs) return text_of(connect_reason(error)).sentence;
  if (error == kNoNameServiceAnswer) return "the name service (DNS) does not answer";
  return std::generic_category().message(error) + " (" + std::to_string(error) + ")";
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace rtrs::tcp
