#include "tools/urtrs-replay/hang_output.hpp"

#include <cstdio>

#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::replay_tool {
namespace {

constexpr std::size_t kShown = 20;  // requests as text

std::string at_text(std::size_t trace, const trace::Moment& at, const std::vector<trace::TimeBase>& times,
                    const std::vector<std::string>& files) {
  return (files.empty() ? "" : files[trace] + ' ') + "record " + std::to_string(at.record) + ", " +
         times[trace].with_unit(at.time);
}

nlohmann::json json_of(const trace::SideEvent& one, const std::vector<std::string>& files) {
  nlohmann::json json{{"side", one.client ? "client" : "server"},
                      {"event", one.at.event},
                      {"record", one.at.record},
                      {"time", one.at.time}};
  if (!files.empty()) json["file"] = files[one.trace];
  return json;
}

}  // namespace

void add_hang_after(CLI::App& command, double& into) {
  add_duration(command, "--hang-after", into,
               "Age at the end of its trace from which a request counts as unanswered");
}

std::string duration(Nanos nanos) {
  char text[32];
  if (nanos < 10'000'000) {
    std::snprintf(text, sizeof text, "%.1f us", static_cast<double>(nanos) / 1e3);
  } else if (nanos < 10'000'000'000) {
    std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(nanos) / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(nanos) / 1e9);
  }
  return text;
}

void print_unanswered(Output& out, const std::vector<trace::Unanswered>& all,
                      const std::vector<trace::TimeBase>& times, const std::vector<std::string>& files,
                      const std::string& label) {
  const std::string indent(label.size() + 2, ' ');
  for (std::size_t at = 0; at < std::min(all.size(), kShown); ++at) {
    const trace::Unanswered& one = all[at];
    out.line(label + trace::request_words(one) + ", #" + std::to_string(one.instance) + ", for " +
             duration(one.age) + " since " + at_text(one.trace, one.request.begun, times, files) + ": " +
             trace::words_of(one.stage));
    for (const trace::SideEvent& last : one.last)
      out.line(indent + "last at the " + (last.client ? "client: " : "server: ") +
               std::string(last.at.event) + ", " + at_text(last.trace, last.at, times, files));
    if (one.heard)
      out.line(indent + "the client last heard from the server: " +
               at_text(one.heard->trace, one.heard->at, times, files));
  }
  if (all.size() > kShown) out.line(label + "and " + std::to_string(all.size() - kShown) + " more");
}

void print_pauses(Output& out, const std::vector<trace::Pause>& all, const trace::TimeBase& times,
                  const std::string& label) {
  for (std::size_t at = 0; at < std::min(all.size(), kShown); ++at) {
    const trace::Pause& one = all[at];
    out.line(label + "this process did not run from " + times.with_unit(one.from) + " or earlier to " +
             times.with_unit(one.to) + ", at least " + duration(one.length()) + ", before record " +
             std::to_string(one.record) + ": its timer was due, and it recorded nothing since " +
             times.with_unit(one.silent_since));
  }
  if (all.size() > kShown) out.line(label + "and " + std::to_string(all.size() - kShown) + " more times");
}

std::string stages_text(const trace::StageTimes& times) {
  std::string text;
  for (unsigned at = 0; at < trace::kStageCount; ++at)
    if (times.ns[at] != 0)
      text += (text.empty() ? ": " : ", ") + std::string(name_of(static_cast<trace::Stage>(at))) + ' ' +
              duration(times.ns[at]);
  return text;
}

nlohmann::json stages_json(const trace::StageTimes& times) {
  nlohmann::json json = nlohmann::json::object();
  for (unsigned at = 0; at < trace::kStageCount; ++at)
    if (times.ns[at] != 0) json[to_string(static_cast<trace::Stage>(at))] = times.ns[at];
  return json;
}

nlohmann::json pauses_json(const std::vector<trace::Pause>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const trace::Pause& one : all)
    list.push_back(
        {{"from", one.from}, {"to", one.to}, {"silent_since", one.silent_since}, {"record", one.record}});
  return list;
}

nlohmann::json unanswered_json(const std::vector<trace::Unanswered>& all,
                               const std::vector<std::string>& files) {
  nlohmann::json list = nlohmann::json::array();
  for (const trace::Unanswered& one : all) {
    nlohmann::json last = nlohmann::json::array();
    for (const trace::SideEvent& event : one.last) last.push_back(json_of(event, files));
    nlohmann::json json{{"instance", one.instance},
                        {"record", one.request.begun.record},
                        {"since", one.request.begun.time},
                        {"age_ns", one.age},
                        {"request", trace::request_words(one)},
                        {"write", !one.request.reads},
                        {"bytes", one.request.bytes},
                        {"number", one.request.number},
                        {"stage", to_string(one.stage)},
                        {"last", last}};
    if (!files.empty()) json["file"] = files[one.trace];
    if (one.heard) json["heard"] = json_of(*one.heard, files);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace rtrs::replay_tool
