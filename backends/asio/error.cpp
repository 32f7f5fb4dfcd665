#include "backends/asio/error.hpp"

#include <boost/system/generic_category.hpp>
#include <cerrno>
#include <string>

namespace rtrs::asio {

namespace {

// Boost makes the destructor of its base protected only where it can; nobody deletes a category through it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "urtrs"; }
  std::string message(int value) const override { return to_string(static_cast<Errc>(value)); }
};
#pragma GCC diagnostic pop

int errno_of(Errc errc) noexcept {
  switch (errc) {
    case Errc::ok:
      return 0;
    case Errc::queue_full:
      return EAGAIN;
    case Errc::too_large:
      return EMSGSIZE;
    case Errc::session_closed:
      return ESHUTDOWN;
    case Errc::not_open:
      return ENOTCONN;
    case Errc::no_memory:
      return ENOMEM;
    case Errc::not_supported:
      return EOPNOTSUPP;
    case Errc::address_in_use:
      return EADDRINUSE;
    case Errc::no_permission:
      return EACCES;
    case Errc::request_timeout:
      return ETIMEDOUT;
    case Errc::bad_address:
    case Errc::no_such_path:
    case Errc::invalid:
      return EINVAL;
    case Errc::peer_error:
    case Errc::no_path:
    case Errc::no_permit:
    case Errc::fabric_error:
      break;
  }
  return EIO;
}

}  // namespace

const boost::system::error_category& category() noexcept {
  static const Category instance;
  return instance;
}

boost::system::error_code to_error_code(Errc errc, std::uint16_t peer_errno) noexcept {
  if (errc == Errc::ok) return {};
  if (errc == Errc::peer_error) return {peer_errno, boost::system::generic_category()};
  return {static_cast<int>(errc), category()};
}

int to_errno(const boost::system::error_code& error) noexcept {
  if (!error) return 0;
  if (error.category() == category()) return errno_of(static_cast<Errc>(error.value()));
  return error.value() > 0 ? error.value() : EIO;
}

}  // namespace rtrs::asio
