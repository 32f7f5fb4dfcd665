#include "backends/bindings/asio/error.hpp"

#include <boost/system/generic_category.hpp>
#include <cerrno>
#include <string>

namespace rtrs::asio {

namespace {

// On some compilers Boost does not declare the destructor of error_category protected, so a warning about the
// non-virtual destructor follows. The warning is wrong: no category is deleted through its base.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class Category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "urtrs"; }
  std::string message(int value) const override { return to_string(static_cast<Errc>(value)); }
};
#pragma GCC diagnostic pop

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
  if (error.category() == category()) return to_linux_errno(static_cast<Errc>(error.value()));
  return error.value() > 0 ? error.value() : EIO;
}

}  // namespace rtrs::asio
