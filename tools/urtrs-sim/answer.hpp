// Implements --json: a command prints one JSON object (docs/schema/urtrs-sim.json) instead of text.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::sim_tool {

// Result that the command of this process has produced so far. Empty if the command has no JSON result, or
// has not started.
nlohmann::ordered_json& answer();

// Prints "urtrs-sim: TEXT" on stderr. With --json, the first TEXT becomes the error message, unless answer()
// has a result.
void complain(const std::string& text);

// Runs the command, which fills answer() and prints text. With `json`, prints answer() in place of the text.
// Returns the exit code of the command.
int run_and_answer(bool json, const std::function<int()>& command);

}  // namespace rtrs::sim_tool
