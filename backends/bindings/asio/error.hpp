// Converts rtrs::Errc to boost::system::error_code. An errno of the server (Errc::peer_error) becomes a code
// of the generic category, so that `error == boost::system::errc::no_space_on_device` works.
#pragma once
#include <boost/system/error_code.hpp>
#include <cstdint>

#include "core/proto/errc.hpp"

namespace rtrs::asio {

const boost::system::error_category& category() noexcept;
boost::system::error_code to_error_code(Errc, std::uint16_t peer_errno = 0) noexcept;
// Returns an errno, for interfaces that only support errno values: the errno of the server unchanged, or EIO
// if no path was available in time.
int to_errno(const boost::system::error_code&) noexcept;
// Returns the error code of the generic category for an errno; 0 means success.
inline boost::system::error_code of_errno(int error) noexcept {
  return {error, boost::system::generic_category()};
}

}  // namespace rtrs::asio
