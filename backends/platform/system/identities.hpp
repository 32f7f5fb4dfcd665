// Random identities for programs that poll a driver themselves: the core generates no random numbers.
#pragma once
#include "core/driver/client.hpp"

namespace rtrs::platform {

// Sets session_uuid and path_uuids to new random values from std::random_device, which throws if the system
// has no random numbers. Call once per Client, before clamp_to(), which derives the seed from session_uuid.
void draw_identities(ClientOptions&);

}  // namespace rtrs::platform

namespace rtrs {
using platform::draw_identities;  // deprecated name, kept for one release
}
