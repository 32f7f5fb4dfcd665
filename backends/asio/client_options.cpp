#include "backends/asio/client_options.hpp"

#include <random>

namespace rtrs::asio {
namespace {

wire::Uuid random_uuid(std::random_device& source) {
  wire::Uuid uuid;
  for (std::uint8_t& byte : uuid.bytes) byte = static_cast<std::uint8_t>(source());
  return uuid;
}

}  // namespace

ClientOptions make_client_options(const std::string& session_name, const std::vector<PathAddress>& paths,
                                  const ClientConfig& protocol, const Capabilities& fabric) {
  ClientOptions options;
  options.protocol = protocol;
  options.session_name = session_name;
  options.paths = paths;
  std::random_device source;
  options.session_uuid = random_uuid(source);
  for (unsigned path = 0; path < kMaxPaths; ++path) options.path_uuids.push_back(random_uuid(source));
  return clamp_to(options, fabric);
}

}  // namespace rtrs::asio
