#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/urtrs-perf/client.hpp"
#include "tools/urtrs-perf/compare.hpp"
#include "tools/urtrs-perf/fabric.hpp"
#include "tools/urtrs-perf/interrupt.hpp"
#include "tools/urtrs-perf/raw.hpp"
#include "tools/urtrs-perf/report.hpp"
#include "tools/urtrs-perf/server.hpp"

namespace {

int run(const rtrs::perf::Options& options) {
  using namespace rtrs::perf;
  if (const int error = check_writable(options.json_file); error != 0)
    return report_unwritable(options.json_file, error);
  if (options.compare_raw) return run_comparison(options);
  if (!pin(options)) return kPrecondition;
  if (options.addresses.empty()) return options.raw ? run_raw_server(options) : run_server(options);
  return options.raw ? run_raw_client(options) : run_client(options);
}

int answer(int argc, char** argv) {
  const rtrs::perf::CommandLine line = rtrs::perf::parse_command_line({argv + 1, argv + argc});
  std::fputs(line.output.c_str(), stdout);
  std::fputs(line.errors.c_str(), stderr);
  if (!line.errors.empty() && rtrs::tools::wants_json(argc, argv))
    std::fputs(rtrs::tools::json_error(line.exit_code, rtrs::tools::without_name(line.errors)).c_str(),
               stdout);
  if (!line.run) return line.exit_code;
  rtrs::perf::catch_signals();
  try {
    return run(*line.run);
  } catch (const std::exception& error) {
    fmt::print(stderr, "urtrs-perf: {}\n", error.what());
    return rtrs::perf::kFailed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  rtrs::tools::hold_standard_streams();
  rtrs::tools::expect_removed_devices();
  return rtrs::tools::written("urtrs-perf", answer(argc, argv), rtrs::perf::kFailed);
}
