#include "backends/tls/channel.hpp"

namespace rtrs::tls {

bool can_connect(const Context& context) noexcept {
  return context.can_connect();
}

std::string identities(const Context& context) {
  return context.identities();
}

std::string description(const Context& context) {
  return context.description();
}

std::string warning(const Context& context) {
  return context.warning();
}

}  // namespace rtrs::tls
