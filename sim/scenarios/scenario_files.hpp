// The texts of the files *.scenarios here, as they were when the program was built; setups that several use
// come first. scenario_files.cpp.in is what CMake puts them into.
#pragma once
#include <span>
#include <string_view>

namespace rtrs::sim {

std::span<const std::string_view> scenario_files();

}  // namespace rtrs::sim
