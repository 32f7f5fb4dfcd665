// Writes the histories of a sweep's worlds (sim/oracles/history_log.hpp) to files, one per world.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world/world.hpp"

namespace rtrs::sim_tool {

// FOLDER/seed-00000123.jsonl, or FOLDER/seed-00000123.BD24.jsonl for the directed scenario of that name.
std::string history_file(const std::string& folder, std::uint64_t seed, const std::string& scenario);

// Returns 0, or the errno of the failure. A file that cannot be written completely is removed.
int write_history(const std::string& file, const std::string& text);

// Parses "O3,O4", or "all". Returns nullopt after setting `unknown` to the id that no oracle has.
std::optional<std::vector<sim::Oracle>> parse_oracles(std::string_view ids, std::string& unknown);

}  // namespace rtrs::sim_tool
