// Parses the address on which an HTTP page is served, from a configuration.
#pragma once
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace rtrs::http {

struct TextAddress {
  std::string socket;  // path of a unix socket; if empty, `host` and the port are used
  std::string host;    // an IP address, without brackets
  std::uint16_t port = 0;
};

// Accepts "127.0.0.1:9469", "[::1]:9469", or a path that begins with '/'. The error is the part of a message
// that says why the text is not valid.
tl::expected<TextAddress, std::string> parse_text_address(const std::string& text);

}  // namespace rtrs::http
