// The files of sequence diagram/page/, embedded by page_parts.cmake. Valid for as long as the program runs.
#pragma once
#include <string_view>

namespace rtrs::tools::sequence::page_parts {

std::string_view html();
std::string_view style();
std::string_view script();  // all of them, in the order in which they load

}  // namespace rtrs::tools::sequence::page_parts
