// The command line of urtrs-mapd.
#pragma once
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::mapd {

struct Options {
  std::string state;                    // file of what is to be mapped
  std::string folder;                   // for sockets and locks
  std::string group;                    // that may map and unmap; empty: that of the process
  std::string nbdkit;                   // what is run for a session, with the plugin
  bool end_devices = false;             // SIGTERM ends what was started, too
  bool kernel_devices = false;          // nothing but keeping the kernel's NBD devices connected
  std::vector<std::string> parameters;  // "key=value", of the plugin, for every session
  bool json = false;                    // the version, and mistakes
  bool help = false;
  std::string topic;  // of help: an option, or a parameter of the plugin; empty: all
  bool version = false;
};

// `words` without the name of the program. The error is a sentence.
tl::expected<Options, std::string> parse(const std::vector<std::string>& words);

extern const char* const kHelp;

}  // namespace rtrs::mapd
