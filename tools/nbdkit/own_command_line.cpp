#include "tools/nbdkit/own_command_line.hpp"

#include <array>
#include <fstream>
#include <string_view>

namespace rtrs::nbdkit {
namespace {

// Options of nbdkit that take a value. The value of a long option may be the next argument.
constexpr std::string_view kShortWithValue = "DegiPptuU";
constexpr std::array<std::string_view, 19> kLongWithValue = {
    "--debug",         "--export",  "--export-name",    "--exportname", "--filter",  "--group", "--ip-addr",
    "--ipaddr",        "--log",     "--mask-handshake", "--pid-file",   "--pidfile", "--port",  "--run",
    "--selinux-label", "--threads", "--unix",           "--user",       "--tls"};

bool is_one_of(std::string_view text, const auto& names) {
  for (const std::string_view name : names) {
    if (text == name) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> own_command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

namespace {

struct Option {
  std::string name;  // for example "-r" or "--unix"
  std::string value;
};

// Parses the options of nbdkit up to "--". In a group of short options such as -fr, the first option that
// takes a value ends the group.
std::vector<Option> options_in(const std::vector<std::string>& command_line) {
  std::vector<Option> options;
  const auto next = [&](std::size_t& i) {
    return ++i < command_line.size() ? command_line[i] : std::string();
  };
  for (std::size_t i = 1; i < command_line.size(); ++i) {
    const std::string& argument = command_line[i];
    if (argument == "--") break;
    if (argument.size() < 2 || argument[0] != '-') continue;
    if (argument[1] == '-') {
      const std::size_t equals = argument.find('=');
      const bool apart = equals == std::string::npos;
      const std::string name = argument.substr(0, equals);
      if (apart)
        options.push_back({name, is_one_of(name, kLongWithValue) ? next(i) : ""});
      else
        options.push_back({name, argument.substr(equals + 1)});
      continue;
    }
    for (std::size_t c = 1; c < argument.size(); ++c) {
      options.push_back({std::string("-") + argument[c], ""});
      if (kShortWithValue.find(argument[c]) == std::string_view::npos) continue;
      options.back().value = c + 1 < argument.size() ? argument.substr(c + 1) : next(i);
      break;
    }
  }
  return options;
}

}  // namespace

bool asks_for_read_only(const std::vector<std::string>& command_line) {
  for (const Option& option : options_in(command_line))
    if (is_one_of(option.name, std::array<std::string_view, 3>{"-r", "--readonly", "--read-only"}))
      return true;
  return false;
}

std::string unix_socket_of(const std::vector<std::string>& command_line,
                           const std::string& working_directory) {
  std::string path;
  for (const Option& option : options_in(command_line))
    if (option.name == "-U" || option.name == "--unix") path = option.value;
  if (path.empty() || path == "-") return {};
  return path.front() == '/' ? path : working_directory + "/" + path;
}

}  // namespace rtrs::nbdkit
