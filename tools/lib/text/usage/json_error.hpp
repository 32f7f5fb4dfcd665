// A mistake as JSON, for programs that were asked for JSON.
#pragma once
#include <string>

namespace rtrs::tools {

// `--json` or `--json=FILE` is among the arguments: the answer is JSON even where the rest is wrong.
bool wants_json(int argc, const char* const* argv);

// "usage", "precondition", "timeout" or "failed", of exit codes 2, 3, 4 and others.
const char* error_code(int exit_code) noexcept;

// The first line of what was said on stderr, "urtrs-perf: no server\n", without the program's name.
std::string without_name(const std::string& said);

// {"schema_version":1,"error":{"code":CODE,"message":MESSAGE}} and a line feed; MESSAGE without the program's
// name and without line feeds at its end.
std::string json_error(int exit_code, const std::string& message);

}  // namespace rtrs::tools
