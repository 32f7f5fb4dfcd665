// With --json a command prints one JSON object instead of text; docs/schema/urtrs-sim.json defines it.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::sim_tool {

// Result of the command in this process so far. Empty: the command has no JSON result, or has not started.
nlohmann::ordered_json& answer();

// Prints "urtrs-sim: TEXT" on stderr. With --json, the first text is the error message if answer() is empty.
void complain(const std::string& text);

// Runs the command, which fills answer() and prints text. With `json`, prints answer() instead of the text.
// Returns the exit code of the command.
int run_and_answer(bool json, const std::function<int()>& command);

}  // namespace rtrs::sim_tool
