// Creates the options of a client session, with random identities.
#pragma once
#include <string>
#include <vector>

#include "core/driver/client.hpp"

namespace rtrs::asio {

// Returns the options of a session, adapted to the limits of the fabric by clamp_to().
ClientOptions make_client_options(const std::string& session_name, const std::vector<PathAddress>& paths,
                                  const ClientConfig& protocol, const Capabilities& fabric);

}  // namespace rtrs::asio
