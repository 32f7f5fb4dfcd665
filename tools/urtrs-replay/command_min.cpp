#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "tools/minimize/minimize.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/files.hpp"

namespace rtrs::tool {
namespace {

struct MinOptions {
  std::string file;
  std::string out;
  std::string reference;
  double seconds = 60;
  bool rerun = false;
  bool json = false;
};

// A directory that goes with everything in it.
class Workplace {
 public:
  Workplace() {
    const char* base = std::getenv("TMPDIR");
    std::string name = std::string(base != nullptr ? base : "/tmp") + "/urtrs-replay-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Workplace() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int rerun(const LoadedTrace& trace, const std::string& out) {
  if (trace.machines.size() != 1) {
    error("--rerun takes a trace of one session");
    return exit_usage;
  }
  std::vector<std::uint32_t> all(trace.machines[0].size());
  std::iota(all.begin(), all.end(), 0U);
  const Written written = write_run(trace.machines[0], all, out);
  if (written.error == 0) return exit_ok;
  error("cannot write " + out + ": " + std::strerror(written.error));
  return exit_usage;
}

// The shortest trace with what the reference does on it, so that this core diverges from it.
bool told_by_reference(const std::string& reference, const std::string& from, const std::string& to) {
  const std::string command = reference + " min --rerun '" + from + "' --out '" + to + "'";
  return std::system(command.c_str()) == 0;
}

void print(const MinOptions& options, const Minimized& result, std::uint64_t records) {
  Output out;
  if (options.json) {
    const nlohmann::json json = {
        {"fails", result.fails},       {"failure", result.failure}, {"instance", result.instance},
        {"records_before", records},   {"records", result.records}, {"inputs_before", result.inputs_before},
        {"inputs", result.inputs},     {"runs", result.runs},       {"seconds", result.seconds},
        {"complete", result.complete}, {"file", options.out}};
    out.line(json.dump());
  } else if (!result.fails) {
    out.line("nothing fails: the core breaks no invariant on these inputs" +
             std::string(options.reference.empty() ? "; --reference compares it with another build"
                                                   : ", and " + options.reference + " does the same"));
  } else {
    char text[200];
    std::snprintf(text, sizeof text, "%llu records to %llu, %llu inputs to %llu; %llu runs in %.1f s%s",
                  static_cast<unsigned long long>(records), static_cast<unsigned long long>(result.records),
                  static_cast<unsigned long long>(result.inputs_before),
                  static_cast<unsigned long long>(result.inputs),
                  static_cast<unsigned long long>(result.runs), result.seconds,
                  result.complete ? "" : "; more is possible with a longer --time");
    out.line("fails in machine #" + std::to_string(result.instance) + ": " + result.failure);
    out.line(text);
    out.line("written: " + options.out + "; see urtrs-replay cat " + options.out);
  }
  out.finish(exit_ok);
}

int minimize_file(const MinOptions& options) {
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  trace::FdSource source(file.fd());
  const auto trace = load_machines(source);
  if (!trace) {
    error(options.file + ": " + trace.error());
    return exit_cannot_read;
  }
  if (options.rerun) return rerun(*trace, options.out);
  const Workplace workplace;
  MinimizeOptions how;
  how.reference = options.reference;
  how.directory = workplace.path();
  how.seconds = options.seconds;
  const bool tty = ::isatty(STDERR_FILENO) == 1;
  if (tty)
    how.progress = [](std::size_t inputs, std::uint64_t runs) {
      std::fprintf(stderr, "\r\x1b[K%llu runs, %zu inputs", static_cast<unsigned long long>(runs), inputs);
    };
  const Minimized result = minimize(*trace, how);
  if (tty) std::fputs("\r\x1b[K", stderr);
  if (!result.error.empty()) {
    error(result.error);
    return exit_cannot_read;
  }
  if (result.fails) {
    std::error_code failed;
    const bool told =
        !options.reference.empty() && told_by_reference(options.reference, result.file, options.out);
    if (!told)
      std::filesystem::copy_file(result.file, options.out, std::filesystem::copy_options::overwrite_existing,
                                 failed);
    if (failed) {
      error("cannot write " + options.out + ": " + failed.message());
      return exit_usage;
    }
  }
  print(options, result, trace->records);
  return result.fails ? exit_bad_trace : exit_ok;
}

}  // namespace

void add_min(CLI::App& app, Runner& runner) {
  add_command<MinOptions>(
      app, runner, "min", "The shortest part of a trace on which the core still fails",
      std::string(
          "Without --reference failing means that the core of this program stops or breaks an invariant.\n"
          "With it, that the two builds do different things; the result has what the reference does.\n\n"
          "Example:\n  urtrs-replay min run.rtrc --out short.rtrc\n"
          "\n"
          "Exit codes: 0 nothing fails, 1 it fails and the short trace is written, 2 wrong usage,\n"
          "3 no judgement."),
      [](CLI::App& command, MinOptions& options) {
        command.add_option("FILE", options.file, "Trace file, - for standard input")->required();
        command.add_option("--out", options.out, "Trace file to write")->required();
        command.add_option("--reference", options.reference, "Command of another build of urtrs-replay");
        command.add_option("--time", options.seconds, "Stop after so many seconds")->capture_default_str();
        command.add_flag("--rerun", options.rerun, "Only write what this core does on the inputs");
        command.add_flag("--json", options.json, "The result as a JSON object");
      },
      minimize_file);
}

}  // namespace rtrs::tool
