#include "tools/urtrs-perf/options.hpp"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "backends/bindings/asio/path_syntax.hpp"
#include "backends/options/quantity.hpp"
#include "core/proto/limits.hpp"
#include "tools/lib/control/fabric/connection_flags.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/usage/command_line_error.hpp"
#include "tools/lib/text/usage/help.hpp"
#include "tools/lib/text/version/version.hpp"

namespace rtrs::perf {
namespace {

const std::vector<std::string> kCommon{"address",      "--rw",     "--bs",   "--iodepth",  "--runtime",
                                       "--iterations", "--verify", "--port", "--fabric",   "--tls-keys",
                                       "--record",     "--json",   "--csv",  "--interval", "--compare-raw"};

constexpr const char* kExamples =
    "Examples:\n"
    "  urtrs-perf                                       # the server\n"
    "  urtrs-perf 10.0.0.2 -D 10                        # latency of 4 KiB writes\n"
    "  urtrs-perf 10.0.0.2 --rw=randread -s 64k -q 32   # throughput\n"
    "  urtrs-perf 10.0.0.2 10.0.1.2 -q 32 --verify      # two paths, data checked\n"
    "  urtrs-perf 10.0.0.2 -n 1000 --record client.rtrc # for urtrs-replay\n"
    "  urtrs-perf --compare-raw                         # cost over bare libfabric\n"
    "\n"
    "Exit codes: 0 measured, 1 the measurement failed, 2 wrong usage, 3 it cannot run on this host, or "
    "--compare-raw has no verdict because every round was too noisy, 4 no server, or the server stopped "
    "answering, 128 + N ended by signal N.";

constexpr std::uint64_t kMaxIterations = 1'000'000'000'000'000;  // 31 years at one million per second

const std::map<std::string, Workload> kWorkloads{{"read", Workload::read},
                                                 {"write", Workload::write},
                                                 {"randread", Workload::randread},
                                                 {"randwrite", Workload::randwrite},
                                                 {"rw", Workload::rw}};

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string best = tools::nearest_word(word, known);
  return best.empty() ? "" : "; did you mean \"" + best + "\"?";
}

template <class Map>
std::vector<std::string> names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

// Values that CLI11 stores as text. This program parses them itself, for better error messages.
struct Texts {
  std::string rw = "write";
  std::string block_size = "4k";
  std::string runtime = "5";
  std::string span = "1g";
  std::string connect_timeout = "5";
  std::string interval;
  std::string chunk_size = "256k";
  std::vector<std::string> paths;
  bool busy = false;
  bool pump = false;
  bool events = false;
  bool version = false;
  bool no_recorder = false;
  std::string cpu;
  std::string iterations;
};

void add_workload(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("address", options.addresses, "server, [SRC@]DST for each path; none: run as the server");
  app.add_option("--paths", texts.paths, "more addresses, separated by commas")->delimiter(',');
  app.add_option("--rw", texts.rw, "read, write, randread, randwrite, rw (mixed)")->capture_default_str();
  app.add_option("--rwmixread", options.read_percent, "percent of reads in rw")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("-s,--bs,--size", texts.block_size, "bytes of each IO; suffixes k, m")
      ->capture_default_str();
  app.add_flag("-a,--all", options.all_sizes, "all sizes from 2 up to the maximum of the server");
  app.add_option("-q,-t,--iodepth", options.iodepth, "IOs in flight")
      ->check(CLI::Range(1u, kMaxPermits))
      ->capture_default_str();
  app.add_option("-D,--runtime", texts.runtime,
                 "how long, e.g. 500ms, 30s, 2m, 1h, or a number of seconds; 0.5 with --compare-raw")
      ->capture_default_str();
  app.add_option("-n,--iterations", texts.iterations, "count IOs instead of time");
  app.add_option("--span", texts.span, "offsets stay below it")->capture_default_str();
  app.add_flag("--verify", options.verify, "check the data at both ends");
}

void add_transport(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("-p,--port", options.port, "server port; 0 at the server: any")->capture_default_str();
  tools::add_connection_flags(app, options::Connection{options, options.protocol},
                              {{"fabric"},
                               {"provider"},
                               {"tls*"},
                               {"auth*"},
                               {"crc"},
                               {"rdma_invalidation", "off"},
                               {"rdma_device"},
                               {"rdma_retry_count"},
                               {"rdma_ack_timeout"},
                               {"rdma_tos"},
                               {"rdma_relaxed_ordering"},
                               {"rdma_thread_domains"},
                               {"rdma_post"},
                               {"policy"},
                               {"connections", "1"},
                               {"queue_timeout", "10s"},
                               {"request_timeout"},
                               {"heartbeat_interval", "1s", "--heartbeat"},
                               {"heartbeat_missed"}});
  auto* busy = app.add_flag("--busy-poll", texts.busy, "poll without pause (default)");
  auto* events = app.add_flag("-e,--events", texts.events, "sleep between events")->excludes(busy);
  app.add_flag("--pump", texts.pump, "poll without pause through the event loop")
      ->excludes(busy)
      ->excludes(events);
  app.add_option("--cpu", texts.cpu, "processor to run on; default any");
  app.add_option("--connect-timeout", texts.connect_timeout, "stop if no server is reached within this time")
      ->capture_default_str();
  auto* none =
      app.add_flag("--no-recorder", texts.no_recorder, "do not record the protocol's inputs in memory");
  auto* record = app.add_option("--record", options.record, "record a trace for urtrs-replay")
                     ->excludes(none)
                     ->type_name("FILE");
  app.add_option("--record-detail", options.record_detail,
                 "also record messages (wire), with their data (payload)")
      ->needs(record)
      ->check(CLI::IsMember({"machines", "wire", "payload"}))
      ->capture_default_str();
  app.add_option("--listen", options.listen, "server: address to listen on; default all");
  app.add_option("--queue-depth", options.queue_depth, "server: IOs a session may have in flight")
      ->check(CLI::Range(1u, kMaxPermits))
      ->capture_default_str();
  app.add_option("--chunk-size", texts.chunk_size, "server: bytes for each of them")->capture_default_str();
}

void add_output(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--json", options.json_file, "results as JSON, to a file when one is given")->expected(0, 1);
  app.add_flag("--csv", options.csv, "results as CSV");
  app.add_option("--interval", texts.interval,
                 "a progress line this often; default 1 s on a terminal, else none");
  app.add_flag("--raw", options.raw, "measure a bare libfabric ping-pong of the same messages");
  app.add_flag("--compare-raw", options.compare_raw,
               "run the bare ping-pong and urtrs in turn; print ratios");
  app.add_option("--rounds", options.rounds, "of --compare-raw")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  app.add_flag("--version", texts.version, "print version, fabrics and compiler, and exit");
}

class Judge {
 public:
  explicit Judge(std::string& errors) : errors_(errors) {}
  void refuse(const std::string& flag, const std::string& expected, const std::string& got,
              const std::string& hint = {}) {
    errors_ += "urtrs-perf: " + flag + ": expected " + expected + ", got \"" + got + "\"" + hint + "\n";
  }
  template <class T>
  void size(const char* flag, const std::string& text, T& into, std::uint64_t low, std::uint64_t high) {
    const auto value = options::parse_size(text);
    if (value && *value >= low && *value <= high)
      into = static_cast<T>(*value);
    else if (value)
      refuse(flag, "a size from " + std::to_string(low) + " to " + std::to_string(high), text);
    else
      errors_ += std::string("urtrs-perf: ") + flag + ": " + value.error() + "\n";
  }
  template <class T>
  void whole(const char* flag, const std::string& text, T& into, std::uint64_t low, std::uint64_t high) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (!text.empty() && error == std::errc{} && at == end && value >= low && value <= high)
      into = static_cast<T>(value);
    else
      refuse(flag, "a whole number from " + std::to_string(low) + " to " + std::to_string(high), text);
  }
  void duration(const char* flag, const std::string& text, Nanos& into) {
    const auto value = options::parse_positive_duration(text);
    if (value)
      into = *value;
    else
      errors_ += std::string("urtrs-perf: ") + flag + ": " + value.error() + "\n";
  }
  template <class Map, class T>
  void word(const char* flag, const std::string& text, const Map& map, T& into) {
    const auto found = map.find(text);
    if (found != map.end()) {
      into = found->second;
      return;
    }
    std::string expected = "one of";
    for (const std::string& name : names_of(map)) expected += " " + name;
    refuse(flag, expected, text, did_you_mean(text, names_of(map)));
  }

 private:
  std::string& errors_;
};

// Rejects a path that is given twice, because the server accepts only one path between a pair of addresses.
void judge_paths(const Options& options, Judge& judge) {
  for (std::size_t i = 0; i < options.addresses.size(); ++i) {
    const auto path = asio::parse_path(options.addresses[i], options.port);
    for (std::size_t k = 0; k < i && path; ++k) {
      const auto other = asio::parse_path(options.addresses[k], options.port);
      if (!other || !asio::same_path(*path, *other)) continue;
      return judge.refuse("address", "every path once", options.addresses[i],
                          ", which is the same path as \"" + options.addresses[k] + "\"");
    }
  }
}

// Rejects options that only the other role (client or server) has, because they would have no effect.
void judge_role(const CLI::App& app, const Options& options, std::string& errors) {
  const bool client = !options.addresses.empty();
  const auto refuse = [&](std::initializer_list<const char*> names, const char* why) {
    for (const char* name : names)
      if (app.count(name) != 0) errors += std::string("urtrs-perf: ") + name + " " + why + "\n";
  };
  if (app.count("--runtime") != 0)
    refuse({"--iterations"}, "counts IOs instead of time; remove one of --iterations and --runtime");
  if (options.compare_raw) return;
  if (client) {
    refuse({"--listen", "--queue-depth", "--chunk-size"},
           "is for the server, which takes no address argument");
    if (options.port == 0) errors += "urtrs-perf: --port: expected a port from 1 to 65535, got \"0\"\n";
  } else {
    refuse({"--rw", "--rwmixread", "--bs", "--all", "--iodepth", "--runtime", "--iterations", "--span",
            "--verify"},
           "is for the client: give the address of the server");
  }
}

void judge(const CLI::App& app, const Texts& texts, Options& options, std::string& errors) {
  Judge judge(errors);
  judge.word("--rw", texts.rw, kWorkloads, options.rw);
  judge.size("--bs", texts.block_size, options.block_size, 0, std::uint64_t{1} << 24);
  judge.size("--span", texts.span, options.span, 1, std::uint64_t{1} << 60);
  judge.size("--chunk-size", texts.chunk_size, options.chunk_size, 8192, std::uint64_t{1} << 24);
  judge.duration("--runtime", texts.runtime, options.runtime);
  judge.duration("--connect-timeout", texts.connect_timeout, options.connect_timeout);
  if (!texts.interval.empty()) judge.duration("--interval", texts.interval, options.interval.emplace());
  if (app.count("--iterations") != 0)
    judge.whole("--iterations", texts.iterations, options.iterations.emplace(), 1, kMaxIterations);
  if (app.count("--cpu") != 0) judge.whole("--cpu", texts.cpu, options.cpu.emplace(), 0, CPU_SETSIZE - 1);
  options.json = app.count("--json") != 0;
  options.recorder = !texts.no_recorder;
  options.wait = texts.events ? Wait::events : texts.pump ? Wait::pump : Wait::busy;
  options.addresses.insert(options.addresses.end(), texts.paths.begin(), texts.paths.end());
  if (options.addresses.size() > kMaxPaths)
    judge.refuse("address", "at most " + std::to_string(kMaxPaths), std::to_string(options.addresses.size()));
  judge_paths(options, judge);
  judge_role(app, options, errors);
  if (options.json && options.csv) errors += "urtrs-perf: --json excludes --csv\n";
  if (options.raw && app.count("--fabric") == 0) options.fabric = "libfabric";
  if (options.crc && options.fabric != "tcp") judge.refuse("--fabric", "tcp with --crc", options.fabric);
  for (const auto& row : options::all_options())
    if (const std::string name = "--" + options::dashed(row.name);
        row.name.starts_with("rdma_") && app.count(name) != 0 && options.fabric != "verbs")
      judge.refuse("--fabric", "verbs with " + name, options.fabric);
  options.fresh_keys = app.count("--rdma-invalidation") != 0;
  if (options.raw && options.fabric != "libfabric")
    judge.refuse("--fabric", "libfabric with --raw", options.fabric);
  if (options.compare_raw && options.fabric == "verbs")
    judge.refuse("--fabric", "tcp or libfabric with --compare-raw", options.fabric);
  if ((options.raw || options.compare_raw) && !options.record.empty())
    errors += "urtrs-perf: --record excludes --raw and --compare-raw\n";
  if ((options.raw || options.compare_raw) && !(options.tls == ::rtrs::options::TlsChoice{}))
    errors += "urtrs-perf: --tls and its options exclude --raw and --compare-raw\n";
  if ((options.raw || options.compare_raw) && !(options.auth == ::rtrs::options::AuthChoice{}))
    errors += "urtrs-perf: --auth and its options exclude --raw and --compare-raw\n";
  if (options.compare_raw && !options.addresses.empty())
    errors += "urtrs-perf: --compare-raw starts its own servers on this machine and takes no address\n";
  if (options.compare_raw && app.count("--runtime") == 0) options.runtime = milliseconds(500);
}

}  // namespace

ClientConfig measuring_client() {
  ClientConfig protocol;
  protocol.con_num = 2;
  protocol.queue_timeout = seconds(10);
  protocol.heartbeat.interval = seconds(1);
  protocol.reconnect_min = milliseconds(100);
  protocol.reconnect_max = seconds(1);
  protocol.reconnect_jitter = milliseconds(50);
  return protocol;
}

const char* to_string(Workload workload) noexcept {
  switch (workload) {
    case Workload::read:
      return "read";
    case Workload::write:
      return "write";
    case Workload::randread:
      return "randread";
    case Workload::randwrite:
      return "randwrite";
    case Workload::rw:
      return "rw";
  }
  return "";
}

const char* to_string(Wait wait) noexcept {
  return wait == Wait::events ? "events" : wait == Wait::pump ? "pump" : "busy-poll";
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine result;
  Options options;
  Texts texts;
  CLI::App app("Measures RTRS sessions: the server without an address, the client with one.", "urtrs-perf");
  tools::use_short_help(app, kCommon);
  app.footer(kExamples);
  add_workload(app, options, texts);
  add_transport(app, options, texts);
  add_output(app, options, texts);
  try {
    app.parse(tools::words_to_parse(app, arguments));
  } catch (const CLI::ParseError& error) {
    if (const auto help = tools::help_asked(app, error)) {
      result.output = *help;
      return result;
    }
    result.exit_code = kUsage;
    result.errors = tools::command_line_error(app, error);
    return result;
  }
  if (texts.version) {
    result.output = tools::version_text("urtrs-perf") + "\n";
    return result;
  }
  judge(app, texts, options, result.errors);
  if (result.errors.empty())
    result.run = options;
  else
    result.exit_code = kUsage;
  return result;
}

}  // namespace rtrs::perf
