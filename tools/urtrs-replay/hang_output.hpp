// Prints requests without an answer and pauses of processes, for several commands.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/reader/time_base.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace rtrs::replay_tool {

inline constexpr double kHangAfterSeconds = 1;
static_assert(kHangAfterSeconds * 1e9 == trace::kHangAfter);
void add_hang_after(CLI::App& command, double& into);
constexpr std::uint64_t nanos_of(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1e9);
}
// Returns, for example, "12.0 us", "12.0 ms" or "12.0 s".
std::string duration(Nanos nanos);

// `times`: of each trace. `files`: names of the traces, to be shown with each record; empty if there is only
// one.
void print_unanswered(Output& out, const std::vector<trace::Unanswered>& all,
                      const std::vector<trace::TimeBase>& times, const std::vector<std::string>& files,
                      const std::string& label);
void print_pauses(Output& out, const std::vector<trace::Pause>& all, const trace::TimeBase& times,
                  const std::string& label);
// Returns ": client queue 12.0 us, sent 1.2 ms"; empty without a time. Stages without time are left out.
std::string stages_text(const trace::StageTimes& times);
nlohmann::json stages_json(const trace::StageTimes& times);
nlohmann::json pauses_json(const std::vector<trace::Pause>& all);
nlohmann::json unanswered_json(const std::vector<trace::Unanswered>& all,
                               const std::vector<std::string>& files);

}  // namespace rtrs::replay_tool
