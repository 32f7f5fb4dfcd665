#include "tools/urtrs-conform/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "backends/bindings/asio/path_syntax.hpp"
#include "backends/options/quantity.hpp"
#include "conformance/cases/cves.hpp"
#include "tools/lib/control/fabric/connection_flags.hpp"
#include "tools/lib/text/usage/command_line_error.hpp"
#include "tools/lib/text/usage/help.hpp"
#include "tools/lib/text/version/version.hpp"

namespace rtrs::conform_tool {
namespace {

const std::vector<std::string> kCommon{"--target",  "--role",  "--port",     "--fabric", "--device",
                                       "--scratch", "--list",  "--case",     "--cve",    "--quick",
                                       "--json",    "--junit", "--baseline", "--trace"};

constexpr const char* kFooter =
    "Examples:\n"
    "  urtrs-conform --target 10.0.0.2 --role server\n"
    "  urtrs-conform --target 10.0.0.2 --role server --device disk0 --scratch \\\n"
    "                --json report.json\n"
    "  urtrs-conform --target 10.0.0.2 --role server --fabric verbs \\\n"
    "                --device /dev/ram0 \\\n"
    "                --baseline conformance/cases/baseline-linux-6.12.json\n"
    "  urtrs-conform --target 10.0.0.1 --role client    # then start the client\n"
    "  urtrs-conform --list --case C1\n"
    "  urtrs-conform --target 10.0.0.2 --cve            # may crash the server\n"
    "\n"
    "Exit codes: 0 all passed, 1 a case failed, 2 wrong usage, 3 the fabric or --device cannot be used, 4 "
    "the peer cannot be reached or did not connect, 77 nothing was run. Known deviations (--baseline) and "
    "quirks are not failures. With --cve: 0 the server has none of the CVEs that a client can see, 1 it has "
    "one.";

struct Texts {
  std::string role;
  ClientConfig protocol;  // never changed, because no option sets a member of it
  std::vector<std::string> targets;
  std::vector<std::string> cases;
  std::uint16_t port = 1234;
  std::string wait = "120s";
  bool quick = false;
  bool version = false;
};

void add_peer(CLI::App& app, Options& options, Texts& texts) {
  app.add_option("--target", texts.targets,
                 "address of the server, again for a second path; --role client: address to listen on");
  app.add_option("--role", texts.role, "what the peer is: server or client");
  app.add_option("-p,--port", texts.port, "port")->capture_default_str();
  tools::add_connection_flags(app, options::Connection{options.fabric, texts.protocol},
                              {{"fabric"}, {"provider"}, {"tls*"}, {"auth*"}, {"rdma_device"}});
  app.add_option("--device", options.device,
                 "a device that the server exports, for the cases with IO; default none");
  app.add_flag("--scratch", options.scratch, "the content of the device may be overwritten");
  app.add_option("--wait", texts.wait, "--role client: how long to wait for the client")
      ->capture_default_str();
}

void add_selection(CLI::App& app, Options& options, Texts& texts) {
  app.add_flag("--list", options.list, "print the cases and exit");
  app.add_option("--case", texts.cases,
                 "only cases whose id begins with or contains this; may be repeated; "
                 "default all");
  app.add_flag("--cve", options.cve,
               "is that server vulnerable? Only the cases of published CVEs, and an answer for each CVE");
  app.add_flag("--quick", texts.quick, "skip slow cases, such as those that wait for heartbeats");
  app.add_flag("--hazardous", options.hazardous,
               "also run the cases that the peer does not survive according to its baseline");
  app.add_option("--time-scale", options.time_scale,
                 "factor on all deadlines, for peers with shorter or longer intervals")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the identities; default: random");
}

void add_output(CLI::App& app, Options& options, Texts& texts) {
  app.add_flag("--tap", options.tap, "print TAP instead of lines");
  app.add_option("--json", options.json_file, "JSON to that file, or instead of lines")->expected(0, 1);
  app.add_option("--junit", options.junit_file, "JUnit XML to that file");
  app.add_option("--markdown", options.markdown_file, "a readable report to that file");
  app.add_option("--baseline", options.baseline_file, "known deviations of the peer");
  app.add_option("--write-baseline", options.new_baseline_file, "write the failed cases as a baseline");
  app.add_option("--peer", options.peer, "the peer that the new baseline describes");
  app.add_option("--trace", options.trace_directory,
                 "one trace per case into that directory, for urtrs-replay");
  app.add_flag("--version", texts.version, "print version, fabrics and compiler, and exit");
}

void judge_targets(const Texts& texts, Options& options, std::string& errors) {
  for (const std::string& text : texts.targets) {
    auto path = asio::parse_path(text, texts.port);
    if (path) {
      options.targets.push_back(*path);
    } else {
      errors += "urtrs-conform: --target: " + path.error() + "\n";
    }
  }
  if (!texts.targets.empty()) options.target_text = texts.targets.front();
  if (texts.targets.empty() && !options.list)
    errors +=
        "urtrs-conform: --target ADDRESS is missing: where the server listens, or where to wait for a "
        "client\n";
}

void select(const Texts& texts, Options& options, std::string& errors) {
  if (options.cve) {
    options.selected = conformance::cases_of_cves();
    return;
  }
  const bool both = options.list && texts.role.empty();
  const conformance::Role roles[] = {conformance::Role::server, conformance::Role::client};
  for (const conformance::Role role : roles) {
    if (!both && role != options.role) continue;
    for (const conformance::Case* one : conformance::cases(role)) {
      const std::string_view id = one->id;
      const bool wanted = texts.cases.empty() ||
                          std::any_of(texts.cases.begin(), texts.cases.end(), [&id](const std::string& part) {
                            return id.find(part) != std::string_view::npos;
                          });
      if (wanted && (options.slow || !one->slow)) options.selected.push_back(one);
    }
  }
  if (options.selected.empty()) errors += "urtrs-conform: no case matches --case; --list shows all cases\n";
}

void judge(const CLI::App& app, const Texts& texts, Options& options, std::string& errors) {
  if (options.cve && (texts.role == "client" || !texts.cases.empty()))
    errors +=
        "urtrs-conform: --cve tests servers and selects its cases: it excludes --role client and --case\n";
  if (texts.role == "client") {
    options.role = conformance::Role::client;
  } else if (texts.role != "server" && !((options.list || options.cve) && texts.role.empty())) {
    errors += texts.role.empty()
                  ? "urtrs-conform: --role is missing: what the peer is, server or client\n"
                  : "urtrs-conform: --role: expected server or client, got \"" + texts.role + "\"\n";
  }
  if (!(options.time_scale >= 0.001 && options.time_scale <= 1000))
    errors += "urtrs-conform: --time-scale: expected a factor from 0.001 to 1000\n";
  if (options.scratch && options.device.empty())
    errors += "urtrs-conform: --scratch requires --device, the device whose content may be overwritten\n";
  options.json = app.count("--json") != 0;
  if (options.json && options.json_file.empty() && options.tap)
    errors += "urtrs-conform: --json without a file excludes --tap\n";
  options.slow = !texts.quick;
  if (const auto wait = options::parse_duration(texts.wait))
    options.wait = *wait;
  else
    errors += "urtrs-conform: --wait: " + wait.error() + "\n";
  judge_targets(texts, options, errors);
  select(texts, options, errors);
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  Options options;
  Texts texts;
  CLI::App app("Judges a live RTRS and RNBD peer, rule by rule.", "urtrs-conform");
  tools::use_short_help(app, kCommon);
  app.footer(kFooter);
  add_peer(app, options, texts);
  add_selection(app, options, texts);
  add_output(app, options, texts);
  try {
    app.parse(tools::words_to_parse(app, arguments));
  } catch (const CLI::ParseError& error) {
    if (const auto help = tools::help_asked(app, error)) {
      line.output = *help;
      return line;
    }
    line.errors = tools::command_line_error(app, error);
    line.exit_code = kUsage;
    return line;
  }
  if (texts.version) {
    line.output = tools::version_text("urtrs-conform") + "\n";
    return line;
  }
  judge(app, texts, options, line.errors);
  if (line.errors.empty()) {
    line.run = std::move(options);
  } else {
    line.exit_code = kUsage;
  }
  return line;
}

}  // namespace rtrs::conform_tool
