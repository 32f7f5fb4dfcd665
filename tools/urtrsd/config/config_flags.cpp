#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "backends/options/quantity.hpp"
#include "tools/lib/text/usage/command_line_error.hpp"
#include "tools/lib/text/usage/help.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/config/config_check.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/config/config_values.hpp"

namespace rtrs::daemon {
namespace {

constexpr int kUsage = 2;

constexpr const char* kExamples =
    "Examples:\n"
    "  urtrsd --export disk0=/srv/disk0.img\n"
    "      export one image as \"disk0\" on 127.0.0.1:1234\n"
    "  urtrsd --listen 10.0.0.1 --listen 10.0.1.1 \\\n"
    "         --export scratch=mem:1G --export iso=/srv/a.iso,ro\n"
    "      two addresses, a memory device, a read-only image\n"
    "  urtrsd --config /etc/urtrs/urtrsd.toml --port 1300 --check-config\n"
    "      check this configuration\n"
    "  urtrsd --dev-search-path /srv/%SESSNAME% --print-config\n"
    "      every session its own directory; show the resulting file\n"
    "\n"
    "Without TLS or --auth-keys clients are not authenticated: every host that can "
    "connect may read and write the exports.\n"
    "Exit codes: 0 ok, 1 failed, 2 bad usage or configuration, 3 something needed is missing.";

constexpr const char* kNotes =
    "An export is locked while a session has it open (fcntl, open file description locks): for writing if a "
    "session may write, else for reading. A block device that is open for writing is claimed too (O_EXCL): "
    "while this host has it mounted, as swap, or below dm, md or LVM, it can be opened for reading only; "
    "with ,force it is not claimed. An export that is missing, locked or in use at the start causes a "
    "warning, and is served as soon as it is available (urtrs export list shows it); with --strict, urtrsd "
    "exits with code 3. A file that is exported with ,ro is read-only below --dev-search-path too. A trace "
    "replaces an empty file or another trace, and nothing else.\n"
    "SIGTERM and SIGINT close all sessions and exit, a second signal exits at once. SIGUSR1 writes the last "
    "records to a file, SIGUSR2 starts and stops a trace, SIGHUP reloads the configuration: exports, keys, "
    "certificates and log level change, and the log names what needs a restart.\n"
    "\n"
    "A setting is taken from its flag, else from the environment (URTRS_ and its key in capitals: "
    "URTRS_PORT; URTRS_LISTEN with commas), else from the file, else it has its default. --print-config "
    "--origin shows the source.";

// Flags that --help lists; --help-all lists all flags.
const std::vector<std::string> kCommon{"--config",       "--listen",      "--export",    "--port",
                                       "--fabric",       "--tls-keys",    "--log-level", "--metrics",
                                       "--check-config", "--print-config"};

struct Flags {
  std::string config_file;
  std::vector<std::string> listen;
  std::vector<std::string> exports;
  std::map<std::string, std::string> values;  // values by key of the setting
  bool check = false;
  bool json = false;
  bool print = false;
  bool origin = false;
};

std::string flag_of(std::string_view key) {
  std::string flag = "--" + options::dashed(key);
  std::replace(flag.begin(), flag.end(), '.', '-');
  return flag;
}

std::string option_names(const Setting& setting) {
  const std::string_view more = setting->name == "port"               ? ",-p"
                                : setting->name == "sess_queue_depth" ? ",--queue-depth,-q"
                                                                      : "";
  return flag_of(setting->name) + std::string(more);
}

std::map<std::string, CLI::Option*> add_options(CLI::App& app, Flags& flags) {
  app.add_option("-c,--config", flags.config_file, "configuration file (TOML)")->type_name("FILE");
  app.add_option("-l,--listen", flags.listen, "address or host name, may be repeated [127.0.0.1]")
      ->type_name("ADDRESS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "-e,--export", flags.exports,
         "device to export: a file, a block device, mem:SIZE or the URI of an NBD server; may be repeated, "
         "with another NAME each time; a comma in a file name is written twice")
      ->type_name("NAME=SOURCE[,ro][,force][,delay_ms=N]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  std::map<std::string, CLI::Option*> options;
  for (const Setting& setting : settings()) {
    const std::string initial = setting.default_value();
    CLI::Option* option =
        app.add_option(option_names(setting), flags.values[setting.key()],
                       std::string(setting->help) + (initial.empty() ? "" : " [" + initial + "]"));
    option->type_name(setting.placeholder())->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (setting.is_boolean()) option->expected(0, 1);
    options[setting.key()] = option;
  }
  for (const OlderKey& older : older_keys()) {
    const std::string key(older.key);
    options[key] = app.add_option(flag_of(key), flags.values[key])->group("");
  }
  app.add_flag("--check-config", flags.check,
               "check configuration, devices, fabric and addresses to listen on, and exit");
  app.add_flag("--json", flags.json, "with --check-config or --version: the answer as JSON");
  app.add_flag("--print-config", flags.print, "print the resulting configuration and exit");
  app.add_flag("--origin", flags.origin,
               "with --print-config: show the source of each value: a flag, a variable of the environment, a "
               "line of the file, or the default");
  app.set_version_flag("--version", tools::version_text("urtrsd"),
                       "print version, fabrics and compiler, and exit");
  return options;
}

}  // namespace

void ConfigReader::set_from_flag(const std::string& flag, const std::string& key, const std::string& value) {
  const Setting* setting = find_setting(key);
  std::string text = value;
  if (setting != nullptr && setting->is_boolean())
    if (const auto given = parse_boolean(value)) text = *given ? "on" : "off";
  const std::string expectation = store(flag, key, std::move(text));
  if (expectation.empty()) return;
  const bool word = setting != nullptr && (*setting)->rule.kind == options::Kind::word;
  report(flag, "expected " + expectation + ", got " + in_quotes(value),
         word ? did_you_mean(value, choices((*setting)->rule)) : "");
}

// Splits at single commas; ",," stands for a comma within a word.
std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      words.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      words.back() += ',';
      ++i;
    } else {
      words.emplace_back();
    }
  }
  return words;
}

bool ConfigReader::export_option(ExportSpec& spec, const std::string& option) {
  constexpr std::string_view kDelay = "delay_ms=";
  if (option == "ro" || option == "force") {
    (option == "ro" ? spec.read_only : spec.force) = true;
    return true;
  }
  if (option.rfind(kDelay, 0) != 0) {
    std::string lower = option;
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const std::string meant = lower == "ro" || lower == "rx" ? "did you mean \"ro\"? " : "";
    report("--export", "unknown option " + in_quotes(option) + " of export " + in_quotes(spec.name),
           meant +
               "options are ro, force and delay_ms=N; a comma in a file name is written twice, as in "
               "--export a=/srv/x,,y.img");
    return false;
  }
  const auto delay = parse_integer(std::string_view(option).substr(kDelay.size()));
  if (!delay || *delay < 0 || *delay > kMaxDelayMs) {
    report("--export", "expected delay_ms=0.." + std::to_string(kMaxDelayMs) + ", got " + in_quotes(option));
    return false;
  }
  spec.delay_ms = static_cast<std::uint32_t>(*delay);
  return true;
}

void ConfigReader::add_export_flag(const std::string& value) {
  const std::string usage = "write --export NAME=SOURCE[,ro][,force][,delay_ms=N]";
  const std::size_t equals = value.find('=');
  if (equals == std::string::npos || equals == 0) {
    report("--export", "expected NAME=SOURCE, got " + in_quotes(value), usage);
    return;
  }
  ExportSpec spec;
  spec.name = value.substr(0, equals);
  const std::vector<std::string> words = split_at_commas(std::string_view(value).substr(equals + 1));
  const std::string& source = words.front();
  for (const std::string& option : std::span(words).subspan(1))
    if (!export_option(spec, option)) return;
  if (source.rfind("mem:", 0) == 0) {
    const auto size = options::parse_size(std::string_view(source).substr(4));
    if (!size) {
      report("--export", in_quotes(value) + ": " + size.error());
      return;
    }
    if (*size < kSectorBytes) {
      report("--export", "expected mem:SIZE with at least 512 bytes, got " + in_quotes(source),
             "for example mem:64M");
      return;
    }
    spec.memory_bytes = *size;
  } else if (source.empty() || spec.name.rfind("mem:", 0) == 0) {
    report("--export", "expected NAME=SOURCE, got " + in_quotes(value), usage);
    return;
  } else {
    spec.path = source;
  }
  // A flag may replace an export from the configuration file, but not an export from an earlier flag.
  const std::size_t start = spec.name.find_first_not_of('/');
  const bool first = flag_exports_.insert(start == std::string::npos ? "" : spec.name.substr(start)).second;
  add_export("--export", std::move(spec), first);
}

tl::expected<ExportSpec, std::string> parse_export(const std::string& text) {
  ConfigReader reader;
  reader.add_export_flag(text);
  if (!reader.problems().empty()) {
    ConfigProblem problem = reader.problems().front();
    // Removes this flag from the hint, because `text` does not begin with the flag.
    constexpr std::string_view kFlag = "--export ";
    if (const std::size_t at = problem.hint.find(kFlag); at != std::string::npos)
      problem.hint.erase(at, kFlag.size());
    return tl::unexpected(problem.message + (problem.hint.empty() ? "" : "; " + problem.hint));
  }
  return reader.config().exports.front();
}

std::string variable_of(const std::string& key) {
  std::string name = "URTRS_";
  for (const char c : key)
    name += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

void ConfigReader::read_environment(const std::function<const char*(const char*)>& value_of) {
  const auto read = [&](const std::string& key) {
    const std::string name = variable_of(key);
    if (const char* value = value_of(name.c_str()); value != nullptr) set_from_flag(name, key, value);
  };
  for (const OlderKey& older : older_keys()) read(std::string(older.key));
  for (const Setting& setting : settings()) read(setting.key());
  const char* addresses = value_of("URTRS_LISTEN");
  if (addresses == nullptr) return;
  clear_listen();
  for (const std::string& address : split_at_commas(addresses)) add_listen("URTRS_LISTEN", address);
}

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::function<const char*(const char*)>& environment,
                               const TryStart& try_start) {
  CommandLine result;
  Flags flags;
  CLI::App app("Serves files, block devices and memory to RTRS/RNBD clients.", "urtrsd");
  tools::use_short_help(app, kCommon, kNotes);
  app.footer(kExamples);
  const auto options = add_options(app, flags);
  try {
    app.parse(tools::words_to_parse(app, arguments));
  } catch (const CLI::ParseError& error) {
    const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
    if (const auto help = tools::help_asked(app, error)) {
      const bool version = dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr;
      result.output = version && json ? tools::version_json("urtrsd") : *help;
      return result;
    }
    result.exit_code = kUsage;
    result.errors = tools::command_line_error(app, error);
    if (json) result.output = json_of(result);
    return result;
  }

  ConfigReader reader;
  if (!flags.config_file.empty()) reader.read_file(flags.config_file);
  reader.read_environment(environment);
  for (const auto& [key, option] : options) {
    if (option->count() == 0) continue;
    const Setting* setting = find_setting(key);
    const bool bare = setting != nullptr && setting->is_boolean() && flags.values[key].empty();
    reader.set_from_flag(flag_of(key), key, bare ? "true" : flags.values[key]);
  }
  if (!flags.listen.empty()) reader.clear_listen();
  for (const std::string& address : flags.listen) reader.add_listen("--listen", address);
  for (const std::string& value : flags.exports) reader.add_export_flag(value);
  reader.check_relations();
  if (flags.origin && !flags.print)
    reader.report("--origin", "it requires --print-config", "write --print-config --origin");

  if (flags.json && (!flags.check || flags.print))
    reader.report("--json", "it requires --check-config or --version",
                  "log_format is the setting for the log");

  for (const ConfigProblem& problem : reader.problems())
    result.errors += "urtrsd: " + to_string(problem) + "\n";
  if (!reader.problems().empty()) {
    result.exit_code = kUsage;
  } else if (flags.print || flags.check) {
    if (flags.print)
      result.output =
          flags.origin ? print_config(reader.config(), &reader.origins()) : print_config(reader.config());
    if (flags.check) check_devices(reader.config(), try_start, result);
  } else {
    result.run = reader.config();
  }
  if (flags.json) result.output = json_of(result);
  return result;
}

}  // namespace rtrs::daemon
