// Converts RNBD messages to text, for output and for comparisons. Bytes that are no RNBD message are shown
// unchanged.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/wire/bytes.hpp"

namespace rtrs::trace {

// Functions that return a name for an id, because an id has a meaning in one run only. Without a function,
// the id is shown as a number.
struct RnbdNames {
  std::function<std::string(std::uint32_t)> device;
  std::function<std::string(std::uint64_t)> instance;  // name of a cache instance of an export
};

// Returns true if the user header is a complete RNBD message that a client may send.
bool is_rnbd_request(wire::Bytes header);
// Returns a user header as text: `OPEN "disk" rw`, `WRITE 4096 B at sector 8 of device 5, FUA`.
std::string rnbd_request_words(wire::Bytes header, const RnbdNames& names = {});
// Returns the body of a response as text: `OPEN_RSP device 5, 2048 sectors, ...`; empty if it has no body.
std::string rnbd_response_words(wire::Bytes response, const RnbdNames& names = {});
// Returns the device id in a CLOSE, an IO or an OPEN_RSP; nullopt for other messages.
std::optional<std::uint32_t> rnbd_device_of(wire::Bytes message) noexcept;
// Returns the user header in `head`, the recorded part of a request (docs/trace_format.md, "Notes"); empty if
// there is none.
wire::Bytes user_header_of(wire::Bytes head) noexcept;

}  // namespace rtrs::trace
