#include "tools/urtrs-sim/answer.hpp"

#include <cstdio>

#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrs-sim/held_output.hpp"
#include "tools/urtrs-sim/report.hpp"

namespace rtrs::sim_tool {

using nlohmann::ordered_json;

namespace {

std::string& complaint() {
  static std::string first;
  return first;
}

const char* verdict_of(int code) {
  switch (code) {
    case kOk:
      return "ok";
    case kViolated:
      return "violated";
    case kNoProgress:
      return "no_progress";
    case kNondeterministic:
      return "nondeterministic";
    default:
      return "stopped";  // a signal stopped the program
  }
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

ordered_json& answer() {
  static ordered_json found = ordered_json::object();
  return found;
}

void complain(const std::string& text) {
  if (complaint().empty()) complaint() = text;
  std::fprintf(stderr, "urtrs-sim: %s\n", text.c_str());
}

int run_and_answer(bool json, const std::function<int()>& command) {
  if (!json) return command();
  HeldOutput held;
  const int code = command();
  if (code == kOk && answer().empty()) return code;  // the texts of --help and --version
  held.take();
  if (code == kUsage || answer().empty()) {
    std::fputs(tools::json_error(code, complaint()).c_str(), stdout);
    return code;
  }
  ordered_json whole{{"schema_version", 1},
                     {"version", first_line(tools::version_text("urtrs-sim"))},
                     {"verdict", verdict_of(code)}};
  whole.update(answer());
  std::printf("%s\n", tools::json_text(whole).c_str());
  return code;
}

}  // namespace rtrs::sim_tool
