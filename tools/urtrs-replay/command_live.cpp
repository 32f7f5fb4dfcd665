#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/options/quantity.hpp"
#include "tools/lib/control/fabric/own_identity.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/session_name.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/workload/workload.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/live_run.hpp"

namespace rtrs::replay_tool {
namespace {

constexpr std::size_t kMaxShown = 10;

struct LiveCommandOptions {
  std::string file;
  std::vector<std::string> parameters;
  std::string writes;
  bool as_recorded = false;
  double patience = 60;
  std::uint64_t max_size = kMaxTraceBytes;
  bool json = false;
};

// Returns true for parameters of the plugin that have no effect here.
bool belongs_to_plugin(const std::string& key) {
  return options::find<plugin::Settings*>(options::kProcessOptions<plugin::Settings>, key) != nullptr ||
         key == "status" || key == "exports" || key == "access_mode";
}

tl::expected<plugin::Settings, std::string> settings_of(const LiveCommandOptions& options) {
  plugin::Settings settings;
  for (const std::string& word : options.parameters) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos)
      return tl::unexpected("\"" + word +
                            "\" is not a parameter KEY=VALUE; path=ADDRESS is the address of the server");
    if (belongs_to_plugin(key)) return tl::unexpected(key + "= is only for the plugin");
    if (auto done = settings.set(key, word.substr(equals + 1)); !done) return tl::unexpected(done.error());
  }
  settings.program = "replay";
  std::string who = tools::own_identity(settings.fabric.fabric, settings.fabric.tls, settings.fabric.auth);
  if (who.empty()) who = tools::short_host_name();
  if (auto done = settings.complete(who, tools::random_part(), "."); !done)
    return tl::unexpected(done.error());
  return settings;
}

struct Found {
  std::uint64_t record = 0;
  std::string request;
  workload::Difference what;
};

struct Counts {
  std::uint64_t asked = 0, left_out = 0, without_device = 0;
  std::uint64_t unanswered = 0;       // requests without a response in the trace, so not comparable
  std::vector<Nanos> recorded, live;  // latencies of IO that both servers answered
};

std::vector<Found> judge(const workload::Workload& work, const LiveRun& run, Counts& counts) {
  std::vector<Found> all;
  const auto granted = [&](const char* name, std::uint64_t recorded, std::uint64_t live) {
    if (recorded != 0 && recorded != live)
      all.push_back({0, "the session", {name, 0, 0, std::to_string(recorded), std::to_string(live)}});
  };
  granted("max_io_size", work.max_io_size, run.max_io_size);
  granted("queue_depth", work.queue_depth, run.queue_depth);
  for (std::size_t i = 0; i < work.requests.size(); ++i) {
    const workload::Asked& asked = work.requests[i];
    const LiveAnswer& live = run.answers[i];
    if (!live.asked) {
      ++counts.left_out;
      continue;
    }
    ++counts.asked;
    counts.unanswered += asked.answered ? 0 : 1;
    if (asked.kind == workload::Asked::Kind::io && asked.answered && live.told.answered &&
        asked.answered_at >= asked.at) {
      counts.recorded.push_back(asked.answered_at - asked.at);
      counts.live.push_back(live.took);
    }
    for (workload::Difference& one : workload::compare(asked, live.told))
      all.push_back({asked.record, workload::words_of(work, asked), std::move(one)});
  }
  counts.without_device = run.without_device;
  std::sort(counts.recorded.begin(), counts.recorded.end());
  std::sort(counts.live.begin(), counts.live.end());
  return all;
}

Nanos percentile(const std::vector<Nanos>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

std::string line_of(const Found& one) {
  std::string text =
      one.record == 0 ? one.request : "record " + std::to_string(one.record) + ", " + one.request;
  text += ": " + one.what.field;
  if (one.what.length != 0)
    text += " (bytes " + std::to_string(one.what.offset) + " to " +
            std::to_string(one.what.offset + one.what.length - 1) + " of the answer)";
  return text + ": recorded " + one.what.recorded + ", live " + one.what.told;
}

constexpr std::pair<const char*, double> kParts[] = {{"p50", 0.5}, {"p99", 0.99}, {"max", 1.0}};

void print_text(Output& out, const std::vector<Found>& all, const Counts& counts) {
  for (std::size_t i = 0; i < std::min(all.size(), kMaxShown); ++i) out.line(line_of(all[i]));
  if (all.size() > kMaxShown) out.line("and " + std::to_string(all.size() - kMaxShown) + " more differences");
  out.line(std::to_string(counts.asked) + " requests sent, " + std::to_string(all.size()) + " differences" +
           (counts.left_out != 0 ? ", " + std::to_string(counts.left_out) + " left out" : "") +
           (counts.without_device != 0
                ? ", " + std::to_string(counts.without_device) + " of these because their device is not open"
                : "") +
           (counts.unanswered != 0
                ? ", " + std::to_string(counts.unanswered) + " without an answer in the trace"
                : ""));
  if (counts.live.empty()) return;
  std::string text = "latency of IO, us: ";
  for (const auto& [name, part] : kParts) {
    char figures[96];
    std::snprintf(figures, sizeof figures, "%s%s recorded %.0f live %.0f", part == 0.5 ? "" : "; ", name,
                  static_cast<double>(percentile(counts.recorded, part)) / 1e3,
                  static_cast<double>(percentile(counts.live, part)) / 1e3);
    text += figures;
  }
  out.line(text);
}

void print_json(Output& out, const std::vector<Found>& all, const Counts& counts) {
  nlohmann::ordered_json differences = nlohmann::ordered_json::array();
  for (const Found& one : all) {
    nlohmann::ordered_json item{{"request", one.request}, {"field", one.what.field}};
    if (one.record != 0) item["record"] = one.record;
    if (one.what.length != 0) item["offset"] = one.what.offset;
    item["recorded"] = one.what.recorded;
    item["live"] = one.what.told;
    differences.push_back(std::move(item));
  }
  nlohmann::ordered_json latency;
  for (const auto& [name, part] : kParts)
    latency[name] = {{"recorded", percentile(counts.recorded, part)},
                     {"live", percentile(counts.live, part)}};
  out.line(tools::json_text(nlohmann::ordered_json{{"schema_version", 1},
                                                   {"asked", counts.asked},
                                                   {"left_out", counts.left_out},
                                                   {"without_device", counts.without_device},
                                                   {"unanswered", counts.unanswered},
                                                   {"differences", differences},
                                                   {"latency_ns", latency}}));
}

int play(const LiveCommandOptions& options, const workload::Workload& work,
         const plugin::Settings& settings) {
  LiveOptions how;
  how.changes = options.writes == "send";
  how.as_recorded = options.as_recorded;
  how.patience = static_cast<Nanos>(options.patience * 1e9);
  if (!settings.devices.empty()) how.device = settings.devices.front();
  if (settings.devices.size() > 1 || (!how.device.empty() && work.devices.size() > 1)) {
    error("device= requires a trace with one device, but this trace has " +
          std::to_string(work.devices.size()));
    return exit_usage;
  }
  const auto changes = std::count_if(work.requests.begin(), work.requests.end(), workload::changes_blocks);
  if (changes != 0 && options.writes.empty()) {
    error("the trace has " + std::to_string(changes) +
          " requests that change blocks; --writes send sends them and overwrites the devices; --writes skip "
          "skips them");
    return exit_usage;
  }
  Progress progress(work.requests.size(), !options.json);
  how.progress = [&progress](std::size_t asked) { progress.at(asked); };
  const auto run = run_live(work, settings, how);
  if (!run) {
    error(run.error());
    return exit_cannot_read;
  }
  Counts counts;
  const std::vector<Found> all = judge(work, *run, counts);
  Output out;
  if (options.json)
    print_json(out, all, counts);
  else
    print_text(out, all, counts);
  return out.finish(all.empty() ? exit_ok : exit_bad);
}

int live(const LiveCommandOptions& options) {
  const auto settings = settings_of(options);
  if (!settings) {
    error(settings.error());
    return exit_usage;
  }
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  tools::BoundedSource source(file.source(), options.max_size);
  trace::Reader reader(source);
  const auto status = reader.open();
  const auto work = status == trace::Reader::Status::ok
                        ? workload::read_workload(reader)
                        : tl::expected<workload::Workload, std::string>(tl::unexpect, "");
  if (source.exceeded()) {
    report_too_long(options.file, options.max_size);
    return exit_cannot_read;
  }
  if (status != trace::Reader::Status::ok) return report_stop(options.file, status, reader);
  if (!work) {
    const std::string& damage = reader.stop().reason;
    error(options.file + ": " + work.error() + (damage.empty() ? "" : "; the trace is damaged: " + damage));
    return exit_cannot_read;
  }
  trace::Record none;
  const int damage = report_stop(options.file, reader.next(none), reader);
  const int code = play(options, *work, *settings);
  return code == exit_ok ? damage : code;
}

}  // namespace

void add_live(CLI::App& app, Runner& runner) {
  add_command<LiveCommandOptions>(
      app, runner, "live", "Send the requests of a recorded client to a server, and compare the responses",
      std::string(
          "KEY=VALUE are parameters of the plugin: nbdkit-urtrs --help lists them. device=NAME opens another "
          "device than the one of the trace. The data of reads is not compared. fabric= is tcp or verbs.\n\n"
          "Examples:\n"
          "  urtrs-replay live client.rtrc path=10.0.0.2 --writes skip\n"
          "  urtrs-replay live client.rtrc path=10.0.0.2 device=test --writes send\n\n") +
          kExitCodes,
      [](CLI::App& command, LiveCommandOptions& options) {
        command.add_option("FILE", options.file, "Trace of a client, with trace_detail=wire or payload")
            ->required();
        command.add_option("KEY=VALUE", options.parameters, "path=[SRC@]ADDRESS of the server, port=N, ...");
        command
            .add_option(
                "--writes", options.writes,
                "send or skip requests that change blocks; data missing in the trace is sent as zeroes")
            ->check(CLI::IsMember({"send", "skip"}))
            ->type_name("HOW");
        command.add_flag("--as-recorded", options.as_recorded, "Send no request earlier than in the trace");
        add_duration(command, "--patience", options.patience, "For one answer");
        add_max_size(command, options.max_size);
        command.add_flag("--json", options.json, "The result as a JSON object");
      },
      live);
}

}  // namespace rtrs::replay_tool
