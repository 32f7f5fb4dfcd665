#include "conformance/cases/baseline.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace rtrs::conformance {

namespace {
constexpr int kSchema = 1;
}

tl::expected<Baseline, std::string> load_baseline(const std::string& file) {
  std::ifstream in(file);
  if (!in) return tl::unexpected(file + ": " + std::strerror(errno));
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (json.is_discarded()) return tl::unexpected(file + ": not JSON");
  try {
    if (json.at("schema_version").get<int>() != kSchema)
      return tl::unexpected(file + ": schema_version has to be 1");
    Baseline baseline;
    baseline.peer = json.at("peer").get<std::string>();
    for (const auto& one : json.at("deviations")) {
      const auto id = one.at("case").get<std::string>();
      baseline.seen[id] = one.at("seen").get<std::string>();
      if (one.value("hazard", false)) baseline.hazards.insert(id);
    }
    return baseline;
  } catch (const nlohmann::json::exception& error) {
    return tl::unexpected(file + ": " + error.what());
  }
}

Baseline make_baseline(const std::string& peer, const std::vector<Result>& results, const Baseline* before) {
  Baseline made;
  if (before != nullptr) made = *before;
  if (!peer.empty()) made.peer = peer;
  for (const Result& result : results) {
    if (result.outcome == Outcome::passed) {
      made.seen.erase(result.about->id);
      made.hazards.erase(result.about->id);
    }
    if (result.outcome == Outcome::failed) made.seen[result.about->id] = result.detail;
  }
  return made;
}

int save_baseline(const std::string& file, const Baseline& baseline) {
  nlohmann::ordered_json json;
  json["schema_version"] = kSchema;
  json["peer"] = baseline.peer;
  json["deviations"] = nlohmann::ordered_json::array();
  for (const auto& [id, seen] : baseline.seen) {
    json["deviations"].push_back({{"case", id}, {"seen", seen}});
    if (baseline.hazards.count(id) != 0) json["deviations"].back()["hazard"] = true;
  }
  std::ofstream out(file);
  out << json.dump(2) << '\n';
  out.close();
  return out ? 0 : (errno != 0 ? errno : EIO);
}

}  // namespace rtrs::conformance
