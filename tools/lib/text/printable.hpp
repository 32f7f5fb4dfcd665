// What others chose, so that it can be shown to a person.
#pragma once
#include <cstddef>
#include <string>

namespace rtrs::tools {

// Names and sentences come from peers and from whoever owns a socket: what could steer a terminal or begin
// another line (control bytes of ASCII and Unicode, marks of direction) is shown as what it is.
std::string printable(const std::string& text);

// At most `most` bytes of it, with "..." behind where some are left out.
std::string shortened(const std::string& text, std::size_t most = 200);

}  // namespace rtrs::tools
