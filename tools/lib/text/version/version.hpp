// Produces the output of --version of every program.
#pragma once

#include <string>
#include <string_view>

namespace rtrs::tools {

// Returns lines for bug reports: program, version and commit; fabrics of the build; compiler. No trailing
// newline.
std::string version_text(std::string_view program);

// Returns the output of `--version --json`: an object with "schema_version" and "version", and a newline.
std::string version_json(std::string_view program);

// Returns the version alone: "0.5.0".
std::string version();

}  // namespace rtrs::tools
