#include "backends/platform/system/identities.hpp"

#include <random>

namespace rtrs::platform {
namespace {

wire::Uuid random_uuid(std::random_device& source) {
  wire::Uuid uuid;
  for (std::uint8_t& byte : uuid.bytes) byte = static_cast<std::uint8_t>(source());
  return uuid;
}

}  // namespace

void draw_identities(ClientOptions& options) {
  std::random_device source;
  options.session_uuid = random_uuid(source);
  options.path_uuids.clear();
  for (unsigned path = 0; path < kMaxPaths; ++path) options.path_uuids.push_back(random_uuid(source));
}

}  // namespace rtrs::platform
