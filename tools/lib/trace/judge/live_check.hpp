// Judges state machines and wire notes while they are recorded, by the same rules as check_trace().
#pragma once
#include <cstddef>
#include <cstdint>

#include "conformance/spec/checker.hpp"
#include "core/record/live_records.hpp"
#include "tools/lib/trace/judge/law_check.hpp"
#include "tools/lib/trace/judge/translate.hpp"

namespace rtrs::trace {

// Checks one node. Several nodes can share `laws` and `translator`, which must outlive the checks.
class LiveCheck final : public trace::Listener {
 public:
  LiveCheck(Translator& translator, LawCollector& laws, unsigned trace)
      : translator_(translator), laws_(laws), trace_(trace) {}
  void on(const trace::Record&) override;
  // Call once, after the last record.
  void finish() { checker_.finish(); }
  const spec::Findings& findings() const noexcept { return checker_.findings(); }

 private:
  Translator& translator_;
  LawCollector& laws_;
  unsigned trace_;
  spec::Checker checker_{true};
};

}  // namespace rtrs::trace
