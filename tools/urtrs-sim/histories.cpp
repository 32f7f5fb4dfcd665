#include "tools/urtrs-sim/histories.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace rtrs::sim_tool {

std::string history_file(const std::string& folder, std::uint64_t seed, const std::string& scenario) {
  char number[24];
  std::snprintf(number, sizeof number, "%08llu", static_cast<unsigned long long>(seed));
  return folder + "/seed-" + number + (scenario.empty() ? "" : "." + scenario) + ".jsonl";
}

int write_history(const std::string& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "w");
  if (out == nullptr) return errno;
  const bool complete = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  int error = complete ? 0 : errno;
  if (std::fclose(out) != 0 && error == 0) error = errno;
  if (error != 0) std::remove(file.c_str());
  return error;
}

std::optional<std::vector<sim::Oracle>> parse_oracles(std::string_view ids, std::string& unknown) {
  std::vector<sim::Oracle> oracles;
  while (!ids.empty()) {
    const std::string_view id = ids.substr(0, ids.find(','));
    ids.remove_prefix(std::min(ids.size(), id.size() + 1));
    const std::size_t before = oracles.size();
    for (unsigned at = 0; at < sim::kOracles; ++at) {
      const auto oracle = static_cast<sim::Oracle>(at);
      if (id == "all" || id == sim::id_of(oracle)) oracles.push_back(oracle);
    }
    if (oracles.size() != before) continue;
    unknown = id;
    return std::nullopt;
  }
  return oracles;
}

}  // namespace rtrs::sim_tool
