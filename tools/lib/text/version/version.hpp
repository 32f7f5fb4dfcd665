// What `--version` of every program prints.
#pragma once

#include <string>
#include <string_view>

namespace rtrs::tools {

// Lines for a user who reports a bug: program, version and commit; fabrics of the build; compiler. Without a
// newline at the end.
std::string version_text(std::string_view program);

// Output of `--version --json`: an object with "schema_version" and "version", and a newline.
std::string version_json(std::string_view program);

// "0.5.0".
std::string version();

}  // namespace rtrs::tools
