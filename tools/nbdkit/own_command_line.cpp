#include "tools/nbdkit/own_command_line.hpp"

#include <array>
#include <fstream>
#include <string_view>

namespace rtrs::nbdkit {
namespace {

// Short options of nbdkit that take a value, and the long ones that take it as the next argument.
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

bool asks_for_read_only(const std::vector<std::string>& command_line) {
  for (std::size_t i = 1; i < command_line.size(); ++i) {
    const std::string_view argument = command_line[i];
    if (argument == "--") return false;
    if (argument == "--readonly" || argument == "--read-only") return true;
    if (is_one_of(argument, kLongWithValue)) {
      ++i;
      continue;
    }
    if (argument.size() < 2 || argument[0] != '-' || argument[1] == '-') continue;
    // A cluster such as -fr: it ends at the first option that takes a value.
    for (std::size_t c = 1; c < argument.size(); ++c) {
      if (argument[c] == 'r') return true;
      if (kShortWithValue.find(argument[c]) == std::string_view::npos) continue;
      if (c + 1 == argument.size()) ++i;
      break;
    }
  }
  return false;
}

}  // namespace rtrs::nbdkit
