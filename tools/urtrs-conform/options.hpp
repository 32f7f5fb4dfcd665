// The command line of urtrs-conform.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"
#include "core/fabric/fabric.hpp"
#include "tools/lib/control/fabric/auth_choice.hpp"
#include "tools/lib/control/fabric/tls_choice.hpp"

namespace rtrs::conformance {

inline constexpr int kUsage = 2, kPrecondition = 3, kCannotConnect = 4;

struct Options {
  Role role = Role::server;
  std::vector<PathAddress> targets;
  std::string target_text;  // the first, as written
  std::string fabric = "tcp";
  std::string provider = "tcp";
  tools::TlsChoice tls;
  tools::AuthChoice auth;
  std::string rdma_device;
  std::string device;
  bool scratch = false;
  bool slow = true;
  bool hazardous = false;  // also what the peer is known not to survive
  std::vector<const Case*> selected;
  double time_scale = 1;
  Nanos wait = seconds(120);  // for a client to come
  std::uint64_t seed = 0;     // 0: a random one
  bool list = false;
  bool cve = false;
  bool tap = false;
  bool json = false;
  std::string json_file, junit_file, markdown_file, baseline_file, new_baseline_file, peer, trace_directory;
};

struct CommandLine {
  std::optional<Options> run;  // set: do this; else leave with exit_code
  int exit_code = 0;
  std::string output;
  std::string errors;
};
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace rtrs::conformance
