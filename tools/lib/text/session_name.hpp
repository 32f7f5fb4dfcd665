// Makes the default name of a session.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::tools {

// Returns "WHO-WHAT-RANDOM". The name fits the server's rule "%IDENTITY%-*", and hosts or containers with
// equal host names get different names. `who`: the identity that the client shows, or the host name; at most
// 128 bytes are used. `what`: the program, or the server; at most 28 bytes are used. `random` becomes eight
// hexadecimal digits. Every byte except A-Z a-z 0-9 _ - @ : becomes '_', because a session name has no '/',
// '.' and control characters.
std::string default_session_name(std::string_view who, std::string_view what, std::uint32_t random);

// Returns the host name up to the first dot, at most 24 bytes; "host" if the host has no name.
std::string short_host_name();
// Returns a random number from the kernel.
std::uint32_t random_part();

}  // namespace rtrs::tools
