#include "tools/lib/trace/sequence/page_answer.hpp"

#include <algorithm>

namespace rtrs::tools::sequence {

namespace {

using Json = nlohmann::json;
using trace::Timeline;
using trace::TraceSummary;

Json rows_json(const Answer& answer) {
  Json rows = Json::array();
  for (const AnswerRow& row : answer.rows) {
    Json items = Json::array();
    for (const AnswerItem& item : row.items)
      items.push_back({{"text", item.text},
                       {"at", item.at},
                       {"until", item.until},
                       {"file", item.file},
                       {"record", item.record}});
    rows.push_back({{"kind", row.kind},
                    {"label", row.label},
                    {"tone", to_string(row.tone)},
                    {"known", row.known},
                    {"count", row.count},
                    {"items", std::move(items)}});
  }
  return rows;
}

// The clients of all traces; without any, the servers.
class Axis {
 public:
  Axis(const Story& story, const trace::RunSummary& run) : story_(story), run_(run) {
    for (const auto& one : run.traces)
      of_clients_ |= one->clients().completed != 0 || !one->clients().paths.empty();
  }

  Json json() const {
    std::vector<Timeline::Part> parts;
    Json paths = Json::array(), latency = Json::array();
    for (std::size_t file = 0; file < run_.traces.size(); ++file) {
      const TraceSummary::Side& side = side_of(*run_.traces[file]);
      if (run_.traces[file]->counts_only() || (side.completed == 0 && side.paths.empty())) continue;
      parts.push_back(
          {&side.timeline, static_cast<std::uint64_t>(common_time(story_, static_cast<Index>(file), 0))});
      for (const TraceSummary::PathName& path : side.paths) paths.push_back(path_name(file, path));
      add_latency(latency, file);
    }
    const Timeline sum = Timeline::sum_of(parts, story_.length);
    Json out = figures(sum, paths.size());
    out["paths"] = paths;
    out["latency"] = latency;
    return out;
  }

 private:
  const TraceSummary::Side& side_of(const TraceSummary& one) const {
    return of_clients_ ? one.clients() : one.servers();
  }

  std::string path_name(std::size_t file, const TraceSummary::PathName& path) const {
    const std::string name = "path " + std::to_string(path.path);
    if (!of_clients_) return "#" + std::to_string(path.instance) + ' ' + name;
    if (story_.clients.size() < 2) return name;
    for (const ClientView& client : story_.clients)
      if (client.file == static_cast<Index>(file) && client.instance == path.instance)
        return client.name + ' ' + name;
    return name;
  }

  // The figures that `stat` prints.
  void add_latency(Json& all, std::size_t file) const {
    for (const auto& [place, path] : run_.traces[file]->latency().paths())
      all.push_back({{"file", file},
                     {"instance", place.first},
                     {"path", place.second},
                     {"requests", path.reads + path.writes},
                     {"failed", path.failed},
                     {"p50", path.percentile(0.5)},
                     {"p99", path.percentile(0.99)},
                     {"max", path.percentile(1)}});
  }

  static Json figures(const Timeline& sum, std::size_t paths) {
    Json out{{"from", static_cast<std::int64_t>(sum.from())}, {"width", sum.width()}};
    Json completed = Json::array(), failed = Json::array(), p50 = Json::array(), longest = Json::array(),
         in_flight = Json::array(), states = Json::array();
    for (std::size_t path = 0; path < paths; ++path) states.push_back(Json::array());
    for (const Timeline::Bucket& bucket : sum.buckets()) {
      completed.push_back(bucket.completed);
      failed.push_back(bucket.failed);
      p50.push_back(bucket.median());
      longest.push_back(bucket.longest);
      in_flight.push_back(bucket.in_flight);
      for (std::size_t path = 0; path < paths; ++path)
        states[path].push_back(path < bucket.states.size() ? bucket.states[path] : 0);
    }
    out["completed"] = std::move(completed);
    out["failed"] = std::move(failed);
    out["p50"] = std::move(p50);
    out["longest"] = std::move(longest);
    out["inFlight"] = std::move(in_flight);
    out["states"] = std::move(states);
    return out;
  }

  const Story& story_;
  const trace::RunSummary& run_;
  bool of_clients_ = false;
};

}  // namespace

Json answer_json(const Story& story, const PageFacts& facts) {
  const Answer answer = make_answer(story, facts);
  Json faults = Json::array();
  for (const Happening& one : facts.faults) faults.push_back({{"at", one.at}, {"text", one.text}});
  return {{"tone", to_string(answer.tone)},
          {"verdict", answer.verdict},
          {"judged", facts.judged},
          {"rows", rows_json(answer)},
          {"axis", Axis(story, *facts.summary).json()},
          {"faults", std::move(faults)},
          {"command", facts.command}};
}

}  // namespace rtrs::tools::sequence
