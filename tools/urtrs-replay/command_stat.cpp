#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/summary/latency.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/hang_output.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

using trace::Gap;
using trace::LatencyMeter;
using trace::Slow;

struct StatOptions {
  std::string file;
  TimeOptions times;
  double hang_after = kHangAfterSeconds;
  bool json = false;
};

struct Summary {
  std::vector<trace::Unanswered> unanswered;
  std::vector<trace::Pause> pauses;

  std::uint64_t records = 0;
  std::map<std::string, std::uint64_t> events;
  std::map<unsigned, std::uint64_t> instances;
  Nanos first = 0;
  Nanos last = 0;
  double seconds() const { return static_cast<double>(last - first) / 1e9; }
};

std::string rate(std::uint64_t count, double seconds) {
  if (seconds <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f/s", static_cast<double>(count) / seconds);
  return text;
}

constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1.0}};

void print_requests(Output& out, const Summary& summary, const LatencyMeter& meter,
                    const trace::TimeBase& base) {
  for (const auto& [place, path] : meter.paths()) {
    out.line("requests        #" + std::to_string(place.first) + " path " + std::to_string(place.second) +
             ": " + std::to_string(path.reads) + " reads, " + std::to_string(path.writes) + " writes, " +
             rate(path.reads + path.writes, summary.seconds()) + ", " + std::to_string(path.failed) +
             " failed");
    std::string text = "  latency      ";
    for (const auto& [name, part] : kPercentiles) {
      text += std::string(" ") + name + ' ' + duration(path.percentile(part));
    }
    out.line(text);
  }
  if (meter.repeated() != 0)
    out.line("sent again      " + std::to_string(meter.repeated()) +
             " of the failed requests, by the device layer");
  for (const Gap& gap : meter.gaps()) {
    out.line("gap             #" + std::to_string(gap.instance) + " " + duration(gap.length) + " from " +
             base.with_unit(gap.from) + ", before record " + std::to_string(gap.record) + ", " +
             std::to_string(gap.waiting) + " requests waited");
  }
  for (const Slow& slow : meter.slowest()) {
    out.line("slow            #" + std::to_string(slow.instance) + " path " + std::to_string(slow.path) +
             " " + duration(slow.took) + (slow.write ? ", write" : ", read") + " from " +
             base.with_unit(slow.since) + ", records " + std::to_string(slow.record) + " to " +
             std::to_string(slow.end) + (slow.failed ? ", failed" : "") + stages_text(slow.stages));
  }
  print_pauses(out, summary.pauses, base, "stopped         ");
  print_unanswered(out, summary.unanswered, {base}, {}, "unanswered      ");
}

nlohmann::json requests_json(const LatencyMeter& meter) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [place, path] : meter.paths()) {
    nlohmann::json latency;
    for (const auto& [name, part] : kPercentiles) latency[name] = path.percentile(part);
    all.push_back({{"instance", place.first},
                   {"path", place.second},
                   {"reads", path.reads},
                   {"writes", path.writes},
                   {"bytes", path.bytes},
                   {"failed", path.failed},
                   {"latency_ns", latency}});
  }
  return all;
}

nlohmann::json gaps_json(const LatencyMeter& meter) {
  nlohmann::json all = nlohmann::json::array();
  for (const Gap& gap : meter.gaps()) {
    all.push_back({{"instance", gap.instance},
                   {"length_ns", gap.length},
                   {"from", gap.from},
                   {"record", gap.record},
                   {"waiting", gap.waiting}});
  }
  return all;
}

nlohmann::json slowest_json(const LatencyMeter& meter) {
  nlohmann::json all = nlohmann::json::array();
  for (const Slow& slow : meter.slowest()) {
    all.push_back({{"instance", slow.instance},
                   {"path", slow.path},
                   {"took_ns", slow.took},
                   {"from", slow.since},
                   {"record", slow.record},
                   {"end_record", slow.end},
                   {"write", slow.write},
                   {"failed", slow.failed},
                   {"stages_ns", stages_json(slow.stages)}});
  }
  return all;
}

void print_text(const Summary& summary, const LatencyMeter& meter, const trace::Reader& reader,
                const trace::TimeBase& base, bool complete) {
  const trace::Header& header = reader.header();
  Output out;
  const auto row = [&out](const char* name, const std::string& value) {
    std::string text(name);
    text.resize(16, ' ');
    for (const char c : value) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    out.line(text);
  };
  out.line(times_line(base));
  row("format", std::to_string(header.major) + '.' + std::to_string(header.minor));
  row("tool", header.origin.tool);
  row("role", header.origin.role);
  row("backend", header.origin.backend);
  if (has_seed(header.origin)) row("seed", std::to_string(header.origin.seed));
  for (const std::string& option : header.origin.options) row("option", option);
  row("beginning", (header.flags & trace::partial) != 0 ? "missing" : "present");
  row("actions", (header.flags & trace::action_counts) != 0 ? "counted" : "recorded");
  row("end", complete ? "complete" : "cut or damaged");
  row("records", std::to_string(summary.records));
  row("blocks", std::to_string(reader.blocks()));
  row("bytes", std::to_string(reader.bytes()));
  row("from", base.with_unit(summary.first));
  row("to", base.with_unit(summary.last));
  if ((header.flags & trace::action_counts) != 0 && header.origin.taken != 0)
    row("taken", base.with_unit(header.origin.taken));
  row("rate", rate(summary.records, summary.seconds()) + " records");
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, reader.chain_hash());
  row("chain hash", hash);
  row("instances", std::to_string(summary.instances.size()));
  for (const auto& [instance, records] : summary.instances) {
    row(("  #" + std::to_string(instance)).c_str(), std::to_string(records) + " records");
  }
  std::vector<std::pair<std::uint64_t, std::string>> events;
  for (const auto& [name, count] : summary.events) events.emplace_back(count, name);
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  print_requests(out, summary, meter, base);
  row("events", std::to_string(events.size()) + " kinds");
  for (const auto& [count, name] : events) {
    char number[24];
    std::snprintf(number, sizeof number, "%14" PRIu64 "  ", count);
    out.line(number + name);
  }
}

std::string as_json(const Summary& summary, const LatencyMeter& meter, const trace::Reader& reader,
                    bool complete) {
  const trace::Header& header = reader.header();
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, reader.chain_hash());
  nlohmann::json instances = nlohmann::json::object();
  for (const auto& [instance, records] : summary.instances) instances[std::to_string(instance)] = records;
  nlohmann::json json{{"schema_version", 1},
                      {"major", header.major},
                      {"minor", header.minor},
                      {"tool", header.origin.tool},
                      {"role", header.origin.role},
                      {"backend", header.origin.backend},
                      {"options", header.origin.options},
                      {"partial", (header.flags & trace::partial) != 0},
                      {"actions_only_counted", (header.flags & trace::action_counts) != 0},
                      {"complete", complete},
                      {"records", summary.records},
                      {"blocks", reader.blocks()},
                      {"bytes", reader.bytes()},
                      {"first_time", summary.first},
                      {"last_time", summary.last},
                      {"chain_hash", hash},
                      {"instances", instances},
                      {"requests", requests_json(meter)},
                      {"repeated", meter.repeated()},
                      {"gaps", gaps_json(meter)},
                      {"slowest", slowest_json(meter)},
                      {"pauses", pauses_json(summary.pauses)},
                      {"unanswered", unanswered_json(summary.unanswered, {})},
                      {"events", summary.events}};
  if (header.origin.taken != 0) json["taken"] = header.origin.taken;
  if (has_seed(header.origin)) json["seed"] = header.origin.seed;
  return json.dump();
}

int stat(const StatOptions& options) {
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  trace::Reader reader(file.source());
  trace::Reader::Status status = reader.open();
  if (status != trace::Reader::Status::ok) return report_stop(options.file, status, reader);
  Summary summary;
  LatencyMeter meter(reader.header().schema);
  trace::Record record;
  status = reader.next(record);
  const auto base = base_of(options.times, reader.header(), reader.first_time(), options.file);
  const auto range = base ? range_of(options.times, *base) : std::nullopt;
  if (!range) return exit_usage;
  meter.set_range(range->from, range->to);
  Nanos last = 0;
  {
    Progress progress(file.size(), true);
    std::vector<std::uint64_t> by_kind(std::size_t{1} << 16);
    trace::Translator translator(reader.header().schema);
    trace::HangCollector hangs;
    hangs.begin_trace((reader.header().flags & trace::action_counts) != 0, reader.header().origin.taken);
    for (; status == trace::Reader::Status::ok; status = reader.next(record)) {
      hangs.read(translator, record);
      meter.add(record, hangs.ended());
      progress.at(reader.bytes());
      last = record.time;
      if (!range->contains(last)) continue;
      if (summary.records++ == 0) summary.first = last;
      summary.last = last;
      ++by_kind[record.event->id];
      ++summary.instances[record.instance];
    }
    for (const trace::EventInfo& event : reader.header().schema.events) {
      if (by_kind[event.id] != 0) summary.events[event.name] = by_kind[event.id];
    }
    summary.pauses = hangs.pauses(0);
    summary.unanswered = hangs.unanswered(nanos_of(options.hang_after));
  }
  meter.finish();
  const bool complete = status == trace::Reader::Status::end;
  if (summary.records == 0 && reader.records() != 0) {
    report_empty_range(options.file, *base, reader.first_time(), last);
    return exit_usage;
  }
  Output out;
  if (options.json) {
    out.line(as_json(summary, meter, reader, complete));
  } else {
    print_text(summary, meter, reader, *base, complete);
  }
  return out.finish(report_stop(options.file, status, reader));
}

}  // namespace

void add_stat(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, StatOptions& options) {
    add_trace(command, options.file);
    add_hang_after(command, options.hang_after);
    command.add_flag("--json", options.json, "A JSON object");
    add_times(command, options.times);
  };
  add_command<StatOptions>(
      app, runner, "stat", "Print who recorded a trace, what it holds, and the latency of its requests",
      "Examples:\n"
      "  urtrs-replay stat run.rtrc\n"
      "  urtrs-replay stat run.rtrc --json\n"
      "  urtrs-replay stat client.rtrc --from 0.5 --to 1.5\n"
      "\n"
      "Latencies: at a client from submission to completion, at a server from delivery to answer. "
      "Gaps: the longest times in which a machine with requests recorded nothing. Slow: the slowest "
      "requests. "
      "Failed: each try; the device layer may send the IO again. "
      "Unanswered: requests that the end of the trace left without an answer, with what they wait for; "
      "`check` of both sides knows more about them. Requests of machines that ended are not listed.\n"
      "With --from and --to, requests that began in the range; stopped and unanswered are of the whole "
      "trace.",
      bind, stat);
}

}  // namespace rtrs::replay_tool
