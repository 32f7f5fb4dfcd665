// Fuzzes the registry with random clients, names and session ends, and compares it with a simple model.
#include <cstdio>

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/fuzz.hpp"
#include "conformance/fuzz/state_pairs.hpp"
#include "core/proto/test_server_registry.hpp"

using namespace rtrs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draws draws(data, size);
  fuzz::StatePairs pairs;
  CheckedRegistry checked(static_cast<std::uint16_t>(1 + draws.below(8)));
  while (draws.left()) {
    const std::uint32_t what = draws.below(4);
    const std::uint32_t who = draws.below(12);
    const char* broken = checked.execute_command(what, who, draws.below(5));
    if (broken != nullptr) std::fprintf(stderr, "broken: %s\n", broken);
    RTRS_FUZZ_CHECK(broken == nullptr);
    pairs.reached(checked.sessions() * 16 + checked.names(), what * 16 + who);
  }
  return 0;
}
