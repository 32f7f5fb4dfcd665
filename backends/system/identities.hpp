// Identities drawn at random, for programs that poll a driver themselves: the core draws no random numbers.
#pragma once
#include "core/driver/client.hpp"

namespace rtrs {

// Sets session_uuid and path_uuids to what no session had before, from std::random_device, which throws where
// the system has no random numbers. Once for each Client, and before clamp_to(), which takes the seed from
// them.
void draw_identities(ClientOptions&);

}  // namespace rtrs
