// The texts of the *.scenarios files of this folder, compiled into the program; files with shared setups come
// first. CMake generates the source from scenario_files.cpp.in.
#pragma once
#include <span>
#include <string_view>

namespace rtrs::sim {

std::span<const std::string_view> scenario_files();

}  // namespace rtrs::sim
