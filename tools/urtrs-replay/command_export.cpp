#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/export.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

struct ExportOptions {
  std::vector<std::string> traces;
  std::string to;
  std::string form = "perfetto";
  std::string device;
  bool json = false;
};

// Returns the origin of the times of each trace; empty for one trace, whose origin is in its header.
std::vector<trace::TimeBase> common_times(const ExportOptions& options) {
  std::vector<trace::TimeBase> times;
  if (options.traces.size() < 2 || std::count(options.traces.begin(), options.traces.end(), "-") != 0)
    return times;
  int code = exit_ok;
  const tools::sequence::StoryReader reader(options.traces, {}, code);
  for (const auto& file : reader.story().files) times.push_back(file.times);
  if (times.size() != options.traces.size()) times.clear();
  return times;
}

int export_one(const std::string& name, const trace::TimeBase* times, Exporter& exporter) {
  InputFile file(name);
  if (!file.is_open()) return exit_usage;
  trace::Reader reader(file.source());
  trace::Reader::Status status = reader.open();
  if (status != trace::Reader::Status::ok) return report_stop(name, status, reader);
  trace::Record record;
  status = reader.next(record);
  exporter.begin_trace(name, reader.header(),
                       times != nullptr ? *times : trace::TimeBase(reader.header(), reader.first_time()));
  Progress progress(file.size(), true);
  for (; status == trace::Reader::Status::ok; status = reader.next(record)) {
    exporter.add(record);
    progress.at(reader.bytes());
  }
  exporter.end_trace();
  return report_stop(name, status, reader);
}

int report_counts(const ExportOptions& options, const std::map<std::string, std::uint64_t>& counts,
                  int code) {
  if (options.to == "-") return code;
  Output out;
  if (options.json) {
    out.line(nlohmann::json{{"schema_version", 1}, {"counts", counts}}.dump());
  } else {
    std::string text;
    for (const auto& [name, number] : counts)
      text += (text.empty() ? " " : ", ") + name + ' ' + std::to_string(number);
    out.line(options.to + ':' + (text.empty() ? " nothing" : text));
  }
  return out.finish(code);
}

// Writes all traces to `file`. Returns the exit code.
int export_all(const ExportOptions& options, std::FILE* file, Exporter& exporter) {
  const std::vector<trace::TimeBase> times = common_times(options);
  int code = exit_ok;
  for (std::size_t i = 0; i < options.traces.size(); ++i) {
    const int one = export_one(options.traces[i], times.empty() ? nullptr : &times[i], exporter);
    if (one == exit_usage || one == exit_cannot_read) return one;
    code = std::max(code, one);
  }
  exporter.finish();
  if (std::fflush(file) != 0 || std::ferror(file) != 0) {
    std::perror(("urtrs-replay: cannot write " + options.to).c_str());
    return exit_usage;
  }
  if (options.form != "fio" || !exporter.counts().empty()) return code;
  error(options.traces.front() + ": no IO" +
        (options.device.empty() ? "" : " of device \"" + options.device + '"') +
        " whose sector is known; record a client with trace_detail=wire from the beginning, or a server");
  return exit_cannot_read;
}

int export_traces(const ExportOptions& options) {
  const bool fio = options.form == "fio";
  if (fio && options.traces.size() != 1) return error("an iolog is of one trace; name one"), exit_usage;
  if (!fio && !options.device.empty()) return error("--device is for --as fio"), exit_usage;
  if (given_twice(options.traces)) return exit_usage;
  const int fd = create_output(options.to, 0600, true);
  if (fd < 0) return exit_usage;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(::fdopen(fd, "wb"), std::fclose);
  if (file == nullptr) return std::perror("urtrs-replay: cannot write"), ::close(fd), exit_usage;
  std::unique_ptr<Exporter> exporter;
  if (fio)
    exporter = std::make_unique<IologExporter>(file.get(), options.device);
  else
    exporter = std::make_unique<PerfettoExporter>(file.get());
  const int code = export_all(options, file.get(), *exporter);
  if (code == exit_ok || code == exit_damaged) return report_counts(options, exporter->counts(), code);
  if (options.to != "-") ::unlink(options.to.c_str());
  return code;
}

}  // namespace

void add_export(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, ExportOptions& options) {
    add_traces(command, "TRACE", options.traces, "Traces of one run; - for standard input")->required();
    command
        .add_option("-o,--output", options.to, "File to write, - for standard output; no file is replaced")
        ->required();
    command.add_option("--as", options.form, "perfetto (JSON, also of chrome://tracing) or fio (iolog)")
        ->check(CLI::IsMember({"perfetto", "fio"}))
        ->capture_default_str();
    command.add_option("--device", options.device, "fio: only IO of this device")->type_name("NAME");
    command.add_flag("--json", options.json, "The numbers of what was written, as a JSON object");
  };
  add_command<ExportOptions>(
      app, runner, "export", "Write traces for Perfetto, or the IO of a trace for fio",
      "Examples:\n"
      "  urtrs-replay export client.rtrc server.rtrc -o run.json\n"
      "  urtrs-replay export server.rtrc --as fio -o run.iolog\n"
      "\n"
      "Perfetto: a process for each session, with a track for each path (its states; losses, missed "
      "heartbeats, failovers), for each permit (its requests), and for each storage operation.\n"
      "fio: iolog version 3, for `fio --read_iolog=run.iolog --replay_redirect=DEVICE`. From a server: what "
      "storage did. From a client with detail wire: each IO once, when it was first sent. FLUSH becomes "
      "sync, FUA and preflush datasync, WRITE_ZEROES trim; fio 3.33 skips trims (`bad ddir: 2`).\n"
      "Exit codes: 0 written, 2 wrong usage, 3 no trace, or no IO in it, 5 a trace is damaged: the records "
      "before the damage were written.",
      bind, export_traces);
}

}  // namespace rtrs::replay_tool
