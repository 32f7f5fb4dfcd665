// Direction of a request's data, seen from the client.
#pragma once
#include <cstdint>

namespace rtrs {

// Traces store these numbers. On the wire, the message type determines the direction (wire::MsgType).
enum class Direction : std::uint8_t { read = 0, write = 1 };

}  // namespace rtrs
