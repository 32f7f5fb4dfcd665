#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/urtrs-conform/options.hpp"
#include "tools/urtrs-conform/session.hpp"

namespace {

int answer(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const rtrs::conform_tool::CommandLine line =
      rtrs::conform_tool::parse_command_line({argv + 1, argv + argc});
  std::fputs(line.output.c_str(), stdout);
  std::fputs(line.errors.c_str(), stderr);
  if (!line.errors.empty() && rtrs::tools::wants_json(argc, argv))
    std::fputs(rtrs::tools::json_error(line.exit_code, rtrs::tools::without_name(line.errors)).c_str(),
               stdout);
  if (!line.run) return line.exit_code;
  try {
    return rtrs::conform_tool::run(*line.run);
  } catch (const std::exception& error) {
    fmt::print(stderr, "urtrs-conform: {}\n", error.what());
    return rtrs::conform_tool::kPrecondition;
  }
}

}  // namespace

int main(int argc, char** argv) {
  rtrs::tools::hold_standard_streams();
  rtrs::tools::expect_removed_devices();
  return rtrs::tools::written("urtrs-conform", answer(argc, argv), rtrs::conform_tool::kPrecondition);
}
