// Command line of urtrs-conform.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/options/connection.hpp"
#include "conformance/cases/case.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::conform_tool {

inline constexpr int kUsage = 2, kPrecondition = 3, kCannotConnect = 4;

struct Options {
  conformance::Role role = conformance::Role::server;
  std::vector<PathAddress> targets;
  std::string target_text;  // first target as given
  options::FabricOptions fabric;
  std::string device;
  bool scratch = false;
  bool slow = true;
  bool hazardous = false;  // also run cases that are known to crash the peer
  std::vector<const conformance::Case*> selected;
  double time_scale = 1;
  Nanos wait = seconds(120);  // maximum time to wait for a client
  std::uint64_t seed = 0;     // 0: a random seed
  bool list = false;
  bool cve = false;
  bool tap = false;
  bool json = false;
  std::string json_file, junit_file, markdown_file, baseline_file, new_baseline_file, peer, trace_directory;
};

struct CommandLine {
  std::optional<Options> run;  // unset: exit with exit_code
  int exit_code = 0;
  std::string output;
  std::string errors;
};
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace rtrs::conform_tool
