// The test: data that two ends exchange and compare, for any kind of end.
#pragma once
#include <cstdint>
#include <string>

#include "conformance/iwarp/siw/end.hpp"

namespace rtrs::siw {

// A deliberate error (one wrong byte or a wrong order) that the other end must detect.
enum class Corruption : std::uint8_t { nothing, private_data, write, message, order };

// Serves connections until the initiator's last one.
void run_responder(End&, const std::string& address, std::uint16_t port, Corruption);
// Makes all connections of the test, one after the other.
void run_initiator(End&, const std::string& source, const std::string& address, std::uint16_t port,
                   Corruption);

}  // namespace rtrs::siw
