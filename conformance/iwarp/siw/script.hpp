// What two ends do with each other and what they compare; the same script for whatever the ends are.
#pragma once
#include <cstdint>
#include <string>

#include "conformance/iwarp/siw/end.hpp"

namespace rtrs::siw {

// One wrong octet, or one wrong order, on purpose: the other end has to find it.
enum class Spoil : std::uint8_t { nothing, private_data, write, message, order };

// Answers requests until the initiator says that it was the last.
void be_responder(End&, const std::string& address, std::uint16_t port, Spoil);
// Makes all connections of the script, one after the other.
void be_initiator(End&, const std::string& source, const std::string& address, std::uint16_t port, Spoil);

}  // namespace rtrs::siw
