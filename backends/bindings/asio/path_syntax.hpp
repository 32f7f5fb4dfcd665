// Functions of backends/platform/address/path_syntax.hpp, for programs that include this header.
#pragma once
#include "backends/platform/address/path_syntax.hpp"

namespace rtrs::asio {

using net::endpoint_text;
using net::parse_path;
using net::port_of;
using net::same_path;
using net::to_text;

}  // namespace rtrs::asio
