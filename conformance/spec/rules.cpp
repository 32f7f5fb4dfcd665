#include "conformance/spec/rules.hpp"

namespace rtrs::spec {

namespace {

constexpr RuleInfo kInfos[] = {
#define RTRS_SPEC_RULE(name, id, oracle, source, rule) {id, oracle, source, rule},
    RTRS_SPEC_RULES(RTRS_SPEC_RULE)
#undef RTRS_SPEC_RULE
};

}  // namespace

const RuleInfo& info_of(Rule rule) noexcept {
  return kInfos[static_cast<unsigned>(rule)];
}

std::string rules_markdown() {
  std::string text = "| id | oracle | rule | source |\n|---|---|---|---|\n";
  for (const RuleInfo& info : kInfos) {
    text += "| `" + std::string(info.id) + "` | " + std::string(info.oracle) + " | " +
            std::string(info.text) + " | " + std::string(info.source) + " |\n";
  }
  return text;
}

}  // namespace rtrs::spec
