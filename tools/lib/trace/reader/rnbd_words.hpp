// Messages of RNBD in words, for people and for comparisons. Bytes that are no such message are shown as they
// are.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/wire/bytes.hpp"

namespace rtrs::trace {

// Ids mean something in one run only. What they are called; without a function, by their numbers.
struct RnbdNames {
  std::function<std::string(std::uint32_t)> device;
  std::function<std::string(std::uint64_t)> instance;  // of an export's cache
};

// A user header is a whole message of RNBD that a client may send.
bool is_rnbd_request(wire::Bytes header);
// A user header: `OPEN "disk" rw`, `WRITE 4096 B at sector 8 of device 5, FUA`.
std::string rnbd_request_words(wire::Bytes header, const RnbdNames& names = {});
// The body of an answer: `OPEN_RSP device 5, 2048 sectors, ...`. Empty: no body.
std::string rnbd_response_words(wire::Bytes response, const RnbdNames& names = {});
// The device that a message names: CLOSE, an IO, OPEN_RSP.
std::optional<std::uint32_t> rnbd_device_of(wire::Bytes message) noexcept;
// The user header of a request of which `head` is noted (docs/trace_format.md, "Notes"); empty where there is
// none.
wire::Bytes user_header_of(wire::Bytes head) noexcept;

}  // namespace rtrs::trace
