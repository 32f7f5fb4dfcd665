// Helpers of the tests in this folder to read trace files.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tools/lib/trace/minimize/machine_trace.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::tools {

inline std::string bytes_of(const std::string& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

inline LoadedTrace load(const std::string& file) {
  FILE* opened = std::fopen(file.c_str(), "rb");
  trace::FdSource source(fileno(opened));
  auto trace = load_machines(source);
  std::fclose(opened);
  EXPECT_TRUE(trace.has_value()) << (trace ? "" : trace.error());
  return trace ? *trace : LoadedTrace{};
}

inline trace::ReplayResult replayed(const std::string& file) {
  FILE* opened = std::fopen(file.c_str(), "rb");
  trace::FdSource source(fileno(opened));
  auto result = trace::replay(source, trace::core_machines());
  std::fclose(opened);
  return result;
}

}  // namespace rtrs::tools
