#include "tools/urtrs-conform/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "conformance/cases/client_runner.hpp"
#include "conformance/cases/cves.hpp"
#include "conformance/cases/report.hpp"
#include "conformance/cases/server_runner.hpp"
#include "core/record/recorder.hpp"
#include "core/record/writer.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/urtrs-conform/real_bench.hpp"

namespace rtrs::conform_tool {
namespace {

std::unique_ptr<Fabric> open_fabric(const Options& options) {
  tools::FabricChoice choice;
  static_cast<options::FabricOptions&>(choice) = options.fabric;
  choice.client = options.role == conformance::Role::server;
  choice.log = [](tools::LogLevel level, const std::string& text) {
    if (level == tools::LogLevel::error) fmt::print(stderr, "urtrs-conform: {}\n", text);
  };
  auto opened = tools::open_fabric(choice);
  if (opened) return std::move(*opened);
  fmt::print(stderr, "urtrs-conform: {}\n", opened.error());
  return nullptr;
}

conformance::ServerRunner::MakeRecorder recorders(const Options& options, const std::string& backend) {
  if (options.trace_directory.empty()) return {};
  return [&options, backend](const conformance::Case& one) {
    auto recorder = std::make_shared<Recorder>(16);
    trace::Origin origin;
    origin.tool = "urtrs-conform " URTRS_VERSION;
    origin.role = one.role() == conformance::Role::server ? "client" : "server";
    origin.backend = backend;
    origin.seed = options.seed;
    origin.options = {std::string("case=") + one.id, "target=" + options.target_text};
    const std::string file = options.trace_directory + "/" + one.id + ".rtrc";
    trace::FileOptions file_options;
    file_options.detail = trace::Detail::wire;
    const int failed = recorder->open_file(file.c_str(), origin, file_options);
    if (failed != 0) fmt::print(stderr, "urtrs-conform: {}: {}\n", file, trace::file_error_text(failed));
    return recorder;
  };
}

// Writes the text to the file. Returns true if that succeeded.
bool write_file(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (out) return true;
  fmt::print(stderr, "urtrs-conform: {}: {}\n", file, std::strerror(errno));
  return false;
}

// Prints a line for each finished case. On a terminal, also shows the case that is running.
class Lines {
 public:
  Lines(bool wanted, const conformance::Baseline* baseline)
      : wanted_(wanted), baseline_(baseline), running_(tools::ProgressLine::Log::silent, stdout) {}
  void begin(const conformance::Case& one) {
    if (wanted_) running_.show(fmt::format("{} ({})", one.number(), one.title));
  }
  void end(const conformance::Result& result) {
    if (!wanted_) return;
    running_.clear();
    fmt::print("{}", text_line(result, baseline_));
    std::fflush(stdout);
  }

 private:
  bool wanted_;
  const conformance::Baseline* baseline_;
  tools::ProgressLine running_;
};

int report(const Options& options, const conformance::Run& run,
           const std::vector<conformance::Result>& results) {
  bool written = true;
  if (options.tap) std::fputs(tap(run, results).c_str(), stdout);
  if (options.json && options.json_file.empty()) std::fputs(json(run, results).c_str(), stdout);
  if (!options.json_file.empty()) written &= write_file(options.json_file, json(run, results));
  if (!options.junit_file.empty()) written &= write_file(options.junit_file, junit(run, results));
  if (!options.markdown_file.empty()) written &= write_file(options.markdown_file, markdown(run, results));
  if (!options.new_baseline_file.empty()) {
    const int failed =
        save_baseline(options.new_baseline_file, make_baseline(options.peer, results, run.baseline));
    if (failed != 0)
      fmt::print(stderr, "urtrs-conform: {}: {}\n", options.new_baseline_file, std::strerror(failed));
    written &= failed == 0;
  }
  if (!written) return kPrecondition;
  return run.cve ? cve_exit_code(results) : exit_code(results, run.baseline);
}

// Tests whether the output files can be written, before the cases run for minutes. If not, prints an error
// and returns false.
bool can_write(const Options& options) {
  for (const std::string& file :
       {options.json_file, options.junit_file, options.markdown_file, options.new_baseline_file}) {
    if (file.empty()) continue;
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    std::error_code error;
    const char* why = nullptr;
    if (std::filesystem::is_directory(file, error))
      why = "it is a folder";
    else if (!std::filesystem::is_directory(folder, error))
      why = "its folder does not exist; create it, or use another file";
    else if (::access(std::filesystem::exists(file, error) ? file.c_str() : folder.c_str(), W_OK) != 0)
      why = std::strerror(errno);
    if (why == nullptr) continue;
    fmt::print(stderr, "urtrs-conform: cannot write {}: {}\n", file, why);
    return false;
  }
  if (options.trace_directory.empty()) return true;
  std::error_code error;
  std::filesystem::create_directories(options.trace_directory, error);
  if (error)
    fmt::print(stderr, "urtrs-conform: cannot create the folder {} for traces: {}\n", options.trace_directory,
               error.message());
  return !error;
}

// Prints an error on standard error and, with --json, also on standard output. Returns `code`.
int fail(const Options& options, int code, const std::string& why) {
  fmt::print(stderr, "urtrs-conform: {}\n", why);
  if (options.json && options.json_file.empty()) std::fputs(tools::json_error(code, why).c_str(), stdout);
  return code;
}

template <class Runner>
int run_cases(const Options& options, const conformance::Run& about, Runner& runner) {
  const bool lines = !options.tap && !(options.json && options.json_file.empty());
  Lines out(lines, about.baseline);
  std::vector<conformance::Result> results;
  for (const conformance::Case* one : options.selected) {
    if (about.baseline != nullptr && about.baseline->hazards.count(one->id) != 0 && !options.hazardous) {
      results.push_back({one, conformance::Outcome::not_run,
                         fmt::format("{} does not survive it: {}; --hazardous runs it", about.baseline->peer,
                                     about.baseline->seen.at(one->id)),
                         0});
    } else {
      out.begin(*one);
      results.push_back(runner.run(*one));
    }
    out.end(results.back());
  }
  if (lines) std::fputs(about.cve ? cve_text(results).c_str() : text_summary(about, results).c_str(), stdout);
  return report(options, about, results);
}

int run_against_server(const Options& options, const conformance::Run& about,
                       conformance::Endpoint& endpoint) {
  conformance::ServerSetup setup;
  setup.targets = options.targets;
  setup.device = options.device;
  setup.scratch = options.scratch;
  setup.deadlines = scaled(conformance::Deadlines{}, options.time_scale);
  setup.seed = options.seed;
  conformance::ServerRunner runner(endpoint, setup, recorders(options, about.fabric));
  std::string unreachable = runner.start();
  for (std::uint16_t next = 1; !unreachable.empty() && next < endpoint.addresses(); ++next) {
    endpoint.use_address(next);
    unreachable = runner.start();
  }
  if (!unreachable.empty()) {
    return fail(options, kCannotConnect,
                fmt::format("cannot open a session with {}: {}", options.target_text, unreachable));
  }
  if (const std::string missing = runner.try_device(); !missing.empty()) {
    return fail(options, kPrecondition, missing + ". Check --device, and the exports of the server");
  }
  return run_cases(options, about, runner);
}

int run_against_client(const Options& options, const conformance::Run& about,
                       conformance::Endpoint& endpoint) {
  for (const PathAddress& target : options.targets) {
    const Errc listening = endpoint.fabric().listen(PathAddress{"", target.destination, target.port});
    if (listening == Errc::ok) continue;
    fmt::print(stderr, "urtrs-conform: cannot listen on {}: {}\n", target.destination, to_string(listening));
    return kPrecondition;
  }
  const std::string address = options.targets.front().destination;
  fmt::print(stderr,
             "Listening on {0} port {1}. Start the client now, and let it do IO all the time, for example\n"
             "  nbdkit-urtrs -U - path={0} port={1} session=judged device=disk \\\n"
             "         --run 'while :; do nbdcopy \"$uri\" null: || sleep 1; done'\n"
             "or, with the Linux client,\n"
             "  echo \"dest_port={1} sessname=judged path=ip:{0} device_path=disk\" "
             "> /sys/class/rnbd-client/ctl/map_device\n",
             address,
             endpoint.fabric().listening_port() != 0 ? endpoint.fabric().listening_port()
                                                     : options.targets.front().port);
  conformance::ClientSetup setup;
  setup.deadlines = scaled(conformance::Deadlines{}, options.time_scale);
  setup.first_wait = options.wait;
  conformance::ClientRunner runner(endpoint, setup, recorders(options, about.fabric));
  const std::string absent = runner.start();
  if (absent.empty()) return run_cases(options, about, runner);
  return fail(options, kCannotConnect, absent);
}

}  // namespace

int run(const Options& given) {
  Options options = given;
  if (options.list) {
    std::fputs((options.json ? list_json(options.selected) : list_text(options.selected)).c_str(), stdout);
    return 0;
  }
  conformance::Baseline baseline;
  if (!options.baseline_file.empty()) {
    auto loaded = conformance::load_baseline(options.baseline_file);
    if (!loaded) return fail(options, kUsage, loaded.error());
    baseline = std::move(*loaded);
  }
  if (!can_write(options)) return kPrecondition;
  if (options.seed == 0) options.seed = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
  const auto fabric = open_fabric(options);
  if (fabric == nullptr) return kPrecondition;
  RealBench bench;
  conformance::Endpoint endpoint(*fabric, bench);
  if (!endpoint.usable()) {
    fmt::print(stderr, "urtrs-conform: cannot register {} MiB of memory; see ulimit -l\n",
               conformance::Endpoint::kMemory >> 20);
    return kPrecondition;
  }
  const conformance::Run about{options.target_text,
                               options.role,
                               fabric->capabilities().name,
                               URTRS_VERSION,
                               options.baseline_file.empty() ? nullptr : &baseline,
                               options.cve};
  return options.role == conformance::Role::server ? run_against_server(options, about, endpoint)
                                                   : run_against_client(options, about, endpoint);
}

}  // namespace rtrs::conform_tool
