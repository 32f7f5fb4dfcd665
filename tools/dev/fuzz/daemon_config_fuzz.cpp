// Fuzz test: parses arbitrary text as a configuration of urtrsd. The text must be accepted, or rejected with
// a position and a reason. An accepted configuration must be equal after it is printed and parsed again.
#include <string>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/urtrsd/config/config.hpp"

using namespace rtrs::daemon;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ConfigReader reader;
  reader.read_toml({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  reader.check_relations();
  for (const ConfigProblem& problem : reader.problems())
    RTRS_FUZZ_CHECK(!problem.message.empty() && !to_string(problem).empty());
  if (!reader.problems().empty()) return 0;
  ConfigReader again;
  again.read_toml(print_config(reader.config()), "printed.toml");
  again.check_relations();
  RTRS_FUZZ_CHECK(again.problems().empty());
  RTRS_FUZZ_CHECK(again.config() == reader.config());
  return 0;
}
