// Fuzz test: parses arbitrary bytes as a state file of urtrs-mapd. The parser must reject the bytes with a
// reason and a valid line number, or return mappings that are equal after they are written and parsed again.
#include <algorithm>
#include <string>
#include <string_view>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/lib/control/mapping/state_text.hpp"

using namespace rtrs::mapping;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_state(text);
  if (!parsed) {
    const StateFileError& bad = parsed.error();
    RTRS_FUZZ_CHECK(!bad.why.empty());
    RTRS_FUZZ_CHECK(bad.line <= 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
    return 0;
  }
  RTRS_FUZZ_CHECK(!check(*parsed));
  const std::string written = state_text(*parsed);
  const auto again = parse_state(written);
  RTRS_FUZZ_CHECK(again && *again == *parsed);
  RTRS_FUZZ_CHECK(state_text(*again) == written);
  return 0;
}
