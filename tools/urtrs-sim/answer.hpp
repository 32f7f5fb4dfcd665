// With --json a command prints one object in place of its text; docs/schema/urtrs-sim.json has its parts.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::tools {

// Of this process: what its command found so far. Empty: it is not one of those, or has not begun.
nlohmann::ordered_json& answer();

// "urtrs-sim: TEXT" on stderr. The first one is the message of --json where a command has no answer.
void complain(const std::string& text);

// Runs the command, which fills answer() and prints its text; then prints the one or, with `json`, the other.
// The exit code of the command.
int run_and_answer(bool json, const std::function<int()>& command);

}  // namespace rtrs::tools
