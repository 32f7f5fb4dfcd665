// Fuzz test: judging arbitrary records must not crash, and a verdict other than `conforming` must have a
// reason. The fuzzer input is lines of JSON, because a mutation of a binary trace would never pass the
// checksums.
#include <memory>
#include <string>
#include <string_view>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/reader/json.hpp"

using namespace rtrs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes;
  trace::JsonImporter importer(std::make_unique<trace::StringSink>(bytes));
  std::string_view left(reinterpret_cast<const char*>(data), size);
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(line.size() == left.size() ? line.size() : line.size() + 1);
    if (!importer.line(line).empty()) break;
  }
  (void)importer.finish();
  trace::MemorySource source(bytes);
  trace::LawCollector laws;
  trace::HangCollector hangs;
  const trace::TraceCheck check = trace::check_trace(source, &laws, {}, 0, &hangs);
  RTRS_FUZZ_CHECK((check.verdict == trace::CheckVerdict::violating) == (check.violations != 0));
  RTRS_FUZZ_CHECK((check.verdict == trace::CheckVerdict::inconclusive) ==
                  (check.violations == 0 && !check.doubts.empty()));
  for (const spec::Finding& finding : check.findings)
    RTRS_FUZZ_CHECK(!finding.seen.empty() && !finding.allowed.empty());
  (void)laws.judge();
  for (const trace::Unanswered& one : hangs.unanswered(0))
    RTRS_FUZZ_CHECK(!trace::request_words(one).empty());
  return 0;
}
