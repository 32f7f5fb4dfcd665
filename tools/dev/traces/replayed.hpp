// Replays trace files with the state machines of this build.
#pragma once
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace_corpus {

inline trace::ReplayResult replayed(const std::filesystem::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string all = bytes.str();
  trace::MemorySource source(all);
  trace::ReplayOptions options;
  options.blank = trace::blank_core_machines();
  return trace::replay(source, trace::core_machines(), options);
}

// Returns a failure message if the result is not `identical`.
inline std::string story_of(const trace::ReplayResult& result) {
  std::string text = std::string(to_string(result.verdict)) + ' ' + result.why + ' ' + result.stop.reason;
  if (result.verdict != trace::Verdict::diverged) return text;
  text += " at record " + std::to_string(result.divergence.seq) + "\nrecorded " + result.divergence.recorded +
          "\nre-run   " + result.divergence.rerun;
  for (const std::string& line : result.divergence.before) text += "\n  " + line;
  return text;
}

}  // namespace rtrs::trace_corpus
