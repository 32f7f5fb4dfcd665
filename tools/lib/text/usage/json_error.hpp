// Error output of programs that run with --json.
#pragma once
#include <string>

namespace rtrs::tools {

// Returns true if `--json` or `--json=FILE` is among the arguments. The output is then JSON even if the other
// arguments are wrong.
bool wants_json(int argc, const char* const* argv);

// Returns the "code" of a JSON error for an exit code: 2 "usage", 3 "precondition", 4 "timeout", any other
// "failed".
const char* error_code(int exit_code) noexcept;

// Returns the first line of a message for stderr, without the name of the program: "no server" for
// "urtrs-perf: no server\n".
std::string without_name(const std::string& said);

// Returns {"schema_version":1,"error":{"code":CODE,"message":MESSAGE}} and a newline. MESSAGE is `message`
// without trailing newlines. Pass `message` without the program name.
std::string json_error(int exit_code, const std::string& message);

}  // namespace rtrs::tools
