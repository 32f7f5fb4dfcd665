// Files of tools/lib/trace/sequence/page/, embedded by page_parts.cmake. The returned texts have static
// lifetime.
#pragma once
#include <string_view>

namespace rtrs::tools::sequence::page_parts {

std::string_view html();
std::string_view style();
std::string_view script();  // all scripts, in load order

}  // namespace rtrs::tools::sequence::page_parts
