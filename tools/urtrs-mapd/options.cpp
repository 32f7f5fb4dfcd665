#include "tools/urtrs-mapd/options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/urtrs-mapd/parameters.hpp"

namespace rtrs::mapd {

namespace {

using Words = std::vector<std::string>;

// Plugin parameters that differ per session, and are therefore not allowed on the command line.
constexpr std::array<std::string_view, 5> kOfSession{"path", "device", "port", "session", "fabric"};

// Returns true for a parameter that urtrs-mapd sets, or whose file only one session can use.
bool is_refused(const std::string& key) {
  return key == "exports" || key == "status" ||
         options::find<plugin::Settings*>(options::kProcessOptions<plugin::Settings>, key) != nullptr;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the first directory of a colon-separated list, such as $STATE_DIRECTORY.
std::string first_of(const std::string& folders) {
  return folders.substr(0, folders.find(':'));
}

std::string default_state() {
  if (const std::string given = environment("STATE_DIRECTORY"); !given.empty())
    return first_of(given) + "/state.json";
  if (::geteuid() == 0) return "/var/lib/urtrs-mapd/state.json";
  std::string base = environment("XDG_STATE_HOME");
  if (base.empty()) base = environment("HOME") + "/.local/state";
  return base + "/urtrs-mapd/state.json";
}

tl::unexpected<std::string> unknown(const std::string& word) {
  const Words known{"--state=FILE",     "--control-group=GROUP",
                    "--nbdkit=PROGRAM", "--end-devices",
                    "--kernel-devices", "--help",
                    "--version",        "--json"};
  const std::string near = tools::nearest_word(word.substr(0, word.find('=')), known);
  return tl::unexpected(
      fmt::format("unknown option \"{}\"; {}", word,
                  near.empty() ? "see urtrs-mapd --help" : fmt::format("did you mean \"{}\"?", near)));
}

tl::expected<void, std::string> take_parameter(const std::string& word, Options& options) {
  const std::string key = word.substr(0, word.find('='));
  if (key == word || key.empty())
    return tl::unexpected(fmt::format(
        "\"{}\" is not KEY=VALUE, a parameter of the nbdkit plugin; see nbdkit-urtrs --help", word));
  if (is_refused(key)) return tl::unexpected(fmt::format("{}= cannot be set for all sessions", key));
  if (std::find(kOfSession.begin(), kOfSession.end(), key) != kOfSession.end())
    return tl::unexpected(
        fmt::format("{}= cannot be set for all sessions; set it for one session with \"urtrs map\"", key));
  plugin::Settings plugin;
  if (const auto taken = plugin.set(key, std::string_view(word).substr(key.size() + 1)); !taken)
    return tl::unexpected(taken.error());
  options.parameters.push_back(word);
  return {};
}

}  // namespace

const char* const kHelp =
    "Keeps devices mapped: runs an nbdkit with the plugin for each session, and restarts it.\n"
    "Usage: urtrs-mapd [OPTIONS] [KEY=VALUE]...\n"
    "       urtrs-mapd help [OPTION|KEY]\n"
    "\n"
    "Positionals:\n"
    "  KEY=VALUE                   parameters of the plugin for every session;\n"
    "                              nbdkit-urtrs --help lists them\n"
    "\n"
    "Options:\n"
    "  -h,--help                   print this help and exit\n"
    "  --version                   print version, fabrics and compiler, and exit\n"
    "  --json                      with --version: as JSON; errors are JSON too\n"
    "  --state=FILE                devices to map; default: state.json in\n"
    "                              /var/lib/urtrs-mapd, or in\n"
    "                              ~/.local/state/urtrs-mapd of a user\n"
    "  --control-group=GROUP       group that may map and unmap; default: that of the\n"
    "                              process\n"
    "  --nbdkit=PROGRAM            default: nbdkit-urtrs beside this program, or in\n"
    "                              PATH\n"
    "  --end-devices               stop the devices on exit; default: they keep\n"
    "                              running\n"
    "  --kernel-devices            only keep the /dev/nbdN of \"urtrs map --nbd\"\n"
    "                              connected, beside urtrs-mapd; needs CAP_SYS_ADMIN\n"
    "\n"
    "\"urtrs map\" maps a device, \"urtrs unmap\" unmaps it; the state file keeps both. SIGTERM "
    "ends this program but no device: the next urtrs-mapd takes them over.\n"
    "\n"
    "Examples:\n"
    "  urtrs-mapd reconnect_max=5s\n"
    "  urtrs-mapd tls_keys=/etc/urtrs/web1.key auth_keys=/etc/urtrs/web1.rdma\n"
    "  urtrs map disk0 from 10.0.0.2 && urtrs mapping list\n"
    "  urtrs-mapd --kernel-devices\n"
    "  URTRS_RUNTIME_DIR=/tmp/run urtrs-mapd --state=/tmp/state.json --end-devices\n"
    "\n"
    "Exit codes: 0 ended by a signal; 1 failed; 2 wrong usage; 3 something is missing, or another "
    "one runs.\n";

tl::expected<Options, std::string> parse(const Words& words) {
  Options options;
  options.state = default_state();
  options.folder = rpc::runtime_folder();
  if (!words.empty() && words.size() <= 2 && words.front() == "help") {
    options.help = true;
    if (words.size() == 2) options.topic = words.back();
    return options;
  }
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    std::string* value = nullptr;
    const std::string name = word.substr(0, word.find('='));
    if (name == "--state") value = &options.state;
    if (name == "--control-group") value = &options.group;
    if (name == "--nbdkit") value = &options.nbdkit;
    if (value != nullptr) {
      if (name != word)
        *value = word.substr(name.size() + 1);
      else
        *value = at + 1 < words.size() ? words[++at] : "";
      if (value->empty()) return tl::unexpected(fmt::format("{} needs a value", name));
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "--version" || word == "-V") {
      options.version = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--end-devices") {
      options.end_devices = true;
    } else if (word == "--kernel-devices") {
      options.kernel_devices = true;
    } else if (!word.empty() && word.front() == '-') {
      return unknown(word);
    } else if (auto taken = take_parameter(word, options); !taken) {
      return tl::unexpected(taken.error());
    }
  }
  if (options.json && !options.help && !options.version)
    return tl::unexpected(
        std::string("--json requires --version; \"urtrs mapping list --json\" shows the devices"));
  if (options.kernel_devices && words.size() > 1 && !options.help && !options.version)
    return tl::unexpected(std::string("--kernel-devices excludes all other options"));
  if (std::string wrong = wrong_parameters(options.parameters); !wrong.empty())
    return tl::unexpected(std::move(wrong));
  return options;
}

}  // namespace rtrs::mapd
