// Command line of urtrs-mapd.
#pragma once
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::mapd {

struct Options {
  std::string state;                    // file with the sessions and devices to map
  std::string folder;                   // directory for sockets and locks
  std::string group;                    // group that may map and unmap; empty: group of the process
  std::string nbdkit;                   // program that serves a session: nbdkit with the plugin
  bool end_devices = false;             // on SIGTERM, also stop the processes that serve sessions
  bool kernel_devices = false;          // do nothing but keep NBD devices of the kernel connected
  std::vector<std::string> parameters;  // "key=value": plugin parameters for every session
  bool json = false;                    // print version and errors as JSON
  bool help = false;
  std::string topic;  // topic of --help: an option or a plugin parameter; empty: all
  bool version = false;
};

// Parses the command line. `words` does not include the program name. The error is a human-readable message.
tl::expected<Options, std::string> parse(const std::vector<std::string>& words);

extern const char* const kHelp;

}  // namespace rtrs::mapd
