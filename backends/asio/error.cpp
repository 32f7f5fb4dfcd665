#include "backends/asio/error.hpp"

#include <boost/system/generic_category.hpp>
#include <string>

namespace rtrs::asio {

namespace {

class Category : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "urtrs"; }
  std::string message(int value) const override { return to_string(static_cast<Errc>(value)); }
};

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

}  // namespace rtrs::asio
