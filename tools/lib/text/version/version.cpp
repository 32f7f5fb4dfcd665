#include "tools/lib/text/version/version.hpp"

#include "tools/lib/text/version/git_describe.hpp"

namespace rtrs::tools {
namespace {

// Output of `git describe` at build time; empty outside a git checkout.
constexpr std::string_view kCommit = URTRS_GIT_DESCRIBE;

#ifdef __clang__
constexpr std::string_view kCompiler = "clang++ " __clang_version__;
#else
constexpr std::string_view kCompiler = "g++ " __VERSION__;
#endif

}  // namespace

std::string version_text(std::string_view program) {
  std::string text(program);
  text += " " URTRS_VERSION;
  if (!kCommit.empty()) text.append(" (").append(kCommit).append(")");
  text += "\nfabrics: " URTRS_FABRICS;
  text.append("\ncompiler: ").append(kCompiler);
  return text;
}

std::string version_json(std::string_view program) {
  std::string text;
  for (const char c : version_text(program)) {
    if (c == '\n')
      text += "\\n";
    else if (c == '"' || c == '\\')
      text.append(1, '\\').append(1, c);
    else
      text += c;
  }
  return "{\"schema_version\":1,\"version\":\"" + text + "\"}\n";
}

std::string version() {
  return URTRS_VERSION;
}

}  // namespace rtrs::tools
