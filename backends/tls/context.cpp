#include "backends/tls/channel.hpp"

namespace rtrs::tls {

bool can_connect(const Context& context) noexcept {
  return context.can_connect();
}

}  // namespace rtrs::tls
