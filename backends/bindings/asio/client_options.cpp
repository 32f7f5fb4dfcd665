#include "backends/bindings/asio/client_options.hpp"

#include "backends/platform/system/identities.hpp"

namespace rtrs::asio {

ClientOptions make_client_options(const std::string& session_name, const std::vector<PathAddress>& paths,
                                  const ClientConfig& protocol, const Capabilities& fabric) {
  ClientOptions options;
  options.protocol = protocol;
  options.session_name = session_name;
  options.paths = paths;
  platform::draw_identities(options);
  return clamp_to(options, fabric);
}

}  // namespace rtrs::asio
